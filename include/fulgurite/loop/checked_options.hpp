#pragma once
// What the options of a trainer must fulfil, in one table: a constant that does not is refused by the compiler, a value before the run.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite {

namespace loop {

constexpr bool unlimited(auto const& value) { return !value || *value < 0; }
constexpr bool in_range(Limit const& limit) {
  return limit.kind == Limit::Kind::batches ? limit.batches >= 0 : limit.part >= 0.0 && limit.part <= 1.0;
}
constexpr bool in_range(ValidationInterval const& v) {
  return v.kind == ValidationInterval::Kind::batches ? v.batches >= 1
         : v.kind == ValidationInterval::Kind::time  ? v.time.count() > 0
                                                     : v.part > 0 && v.part <= 1;
}
template <class T>
constexpr bool least(std::optional<T> const& value, T bound) {
  return !value || *value >= bound;
}

/// A value as a sentence shows it.
template <class T>
  requires std::is_arithmetic_v<T>
std::string shown(T value) {
  return std::to_string(value);
}
inline std::string shown(Seconds const& value) { return std::to_string(value.count()) + " s"; }
inline std::string shown(Limit const& limit) {
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches) : "Fraction{" + std::to_string(limit.part) + "}";
}
inline std::string shown(ValidationInterval const& v) {
  return v.kind == ValidationInterval::Kind::time ? shown(v.time) : v.kind == ValidationInterval::Kind::batches ? shown(v.batches) : shown(v.part);
}
inline std::string shown(Clip const& clip) { return shown(clip.limit); }
template <class T>
std::string shown(std::optional<T> const& value) {
  return value ? shown(*value) : "nullopt";
}

/// The n-th rule about options of a type; 0 is none.
template <class Options, int N>
struct OptionRule {
  template <bool Fine>
  static constexpr void say() {}
};

/// The other half of a pair that does not fit.
inline std::string beside(std::string_view rule, TrainerOptions const& o) {
  if (!rule.starts_with("[fulgurite.options.min_over_max]")) return "";
  return " with max_epochs = " + shown(o.max_epochs) + ", max_steps = " + shown(o.max_steps);
}
inline std::string beside(std::string_view, Automatic const&) { return ""; }
[[noreturn]] inline void refuse(std::string_view bracketed, std::string const& sentence) {
  throw Error(bracketed.substr(1, bracketed.find(']') - 1), sentence);
}

// RULE(type, number, identifier, option, what must hold of the options o, the sentence).
#define RULE(TYPE, N, ID, OPTION, HOLDS, SENTENCE)                                                             \
  template <>                                                                                                  \
  struct OptionRule<TYPE, N> {                                                                                 \
    static constexpr bool holds(TYPE const& o) { return HOLDS; }                                               \
    static void check(TYPE const& o) {                                                                         \
      if (!holds(o)) refuse(ID, #OPTION " = " + shown(o.OPTION) + beside(ID, o) + ": " SENTENCE);              \
    }                                                                                                          \
    template <bool Fine>                                                                                       \
    static constexpr void say() {                                                                              \
      static_assert(Fine, ID #OPTION ": " SENTENCE);                                                           \
    }                                                                                                          \
  };
// clang-format off
RULE(TrainerOptions, 1, "[fulgurite.options.range] ", max_epochs, least(o.max_epochs, -1), "the number of epochs is at least 0, or -1 for no limit")
RULE(TrainerOptions, 2, "[fulgurite.options.range] ", max_steps, least(o.max_steps, -1L), "the number of optimizer steps is at least 0, or -1 for no limit")
RULE(TrainerOptions, 3, "[fulgurite.options.range] ", min_epochs, least(o.min_epochs, 0), "the least number of epochs is at least 0")
RULE(TrainerOptions, 4, "[fulgurite.options.range] ", min_steps, least(o.min_steps, 0L), "the least number of steps is at least 0")
RULE(TrainerOptions, 5, "[fulgurite.options.range] ", check_val_every_n_epoch, least(o.check_val_every_n_epoch, 1), "validate every 1 or more epochs, or std::nullopt")
RULE(TrainerOptions, 6, "[fulgurite.options.range] ", num_sanity_val_steps, o.num_sanity_val_steps >= -1, "at least 0, or -1 for all batches")
RULE(TrainerOptions, 7, "[fulgurite.options.range] ", log_every_n_steps, o.log_every_n_steps >= 0, "at least 1, or 0 for never")
RULE(TrainerOptions, 8, "[fulgurite.options.range] ", reload_dataloaders_every_n_epochs, o.reload_dataloaders_every_n_epochs >= 0, "at least 1, or 0 for never")
RULE(TrainerOptions, 9, "[fulgurite.options.range] ", fast_dev_run, o.fast_dev_run >= 0, "a number of batches, or 0 for off")
RULE(TrainerOptions, 10, "[fulgurite.options.range] ", max_time, !o.max_time || o.max_time->count() >= 0, "a duration is at least 0 seconds")
RULE(TrainerOptions, 11, "[fulgurite.options.min_over_max] ", min_epochs, !o.min_epochs || unlimited(o.max_epochs) || *o.min_epochs <= *o.max_epochs, "above max_epochs: lower it, or raise max_epochs")
RULE(TrainerOptions, 12, "[fulgurite.options.min_over_max] ", min_steps, !o.min_steps || unlimited(o.max_steps) || *o.min_steps <= *o.max_steps, "above max_steps: lower it, or raise max_steps")
RULE(TrainerOptions, 13, "[fulgurite.options.limit] ", limit_train_batches, in_range(o.limit_train_batches), "a count from 0 on, or a Fraction from 0 to 1")
RULE(TrainerOptions, 14, "[fulgurite.options.limit] ", limit_val_batches, in_range(o.limit_val_batches), "a count from 0 on, or a Fraction from 0 to 1")
RULE(TrainerOptions, 15, "[fulgurite.options.limit] ", limit_test_batches, in_range(o.limit_test_batches), "a count from 0 on, or a Fraction from 0 to 1")
RULE(TrainerOptions, 16, "[fulgurite.options.limit] ", limit_predict_batches, in_range(o.limit_predict_batches), "a count from 0 on, or a Fraction from 0 to 1")
RULE(TrainerOptions, 17, "[fulgurite.options.overfit] ", overfit_batches, !o.overfit_batches || (in_range(*o.overfit_batches) && !o.overfit_batches->none()), "a count from 1 on, or a Fraction above 0: leave it out for all batches")
RULE(TrainerOptions, 18, "[fulgurite.options.overfit] ", overfit_batches, !o.overfit_batches || (o.limit_train_batches.all() && o.limit_val_batches.all()), "it sets limit_train_batches and limit_val_batches itself: leave those out, or it")
RULE(TrainerOptions, 19, "[fulgurite.options.val_check_interval] ", val_check_interval, in_range(o.val_check_interval), "a count of batches from 1 on, a Fraction above 0 and up to 1, or a duration above 0")
RULE(TrainerOptions, 20, "[fulgurite.options.val_check_interval] ", val_check_interval, o.check_val_every_n_epoch || o.val_check_interval.kind != ValidationInterval::Kind::fraction, "with check_val_every_n_epoch = nullopt batches are counted across epochs: give a count or a duration, not a Fraction of an epoch")
RULE(TrainerOptions, 21, "[fulgurite.options.deterministic] ", deterministic, !(o.deterministic && o.benchmark.value_or(false)), "benchmark may choose other algorithms in each run: leave one of the two out")
RULE(TrainerOptions, 22, "[fulgurite.options.barebones] ", barebones, !o.barebones || o.fast_dev_run == 0, "it runs the loop alone: leave fast_dev_run out")
RULE(TrainerOptions, 23, "[fulgurite.options.barebones] ", barebones, !o.barebones || !o.detect_anomaly, "it runs the loop alone: leave detect_anomaly out")
RULE(TrainerOptions, 24, "[fulgurite.options.barebones] ", barebones, !o.barebones || o.log_every_n_steps == 0 || o.log_every_n_steps == TrainerOptions{}.log_every_n_steps, "it runs the loop alone: leave log_every_n_steps out")
RULE(TrainerOptions, 25, "[fulgurite.options.barebones] ", barebones, !o.barebones || o.num_sanity_val_steps == 0 || o.num_sanity_val_steps == TrainerOptions{}.num_sanity_val_steps, "it runs the loop alone: leave num_sanity_val_steps out")

RULE(Automatic, 1, "[fulgurite.options.accumulate] ", accumulate_grad_batches, o.accumulate_grad_batches >= 1, "a window has at least 1 batch")
RULE(Automatic, 2, "[fulgurite.options.clip] ", clip, o.clip.kind == Clip::Kind::none || o.clip.limit > 0, "a limit is above 0; leave .clip out for no clipping")
RULE(Automatic, 3, "[fulgurite.options.tbptt] ", tbptt, o.tbptt >= 0, "a slice has at least 1 time step; leave it out for none")
RULE(Automatic, 4, "[fulgurite.options.tbptt] ", tbptt, o.tbptt == 0 || o.accumulate_grad_batches == 1, "it steps after each slice, accumulate_grad_batches after several batches: use one of them")
// clang-format on
#undef RULE

template <class Options>
inline constexpr int rules = 0;
template <>
inline constexpr int rules<TrainerOptions> = 25;
template <>
inline constexpr int rules<Automatic> = 4;

/// The first rule that does not hold; 0: all do.
template <class Options>
constexpr int broken_rule(Options const& o) {
  int broken = 0;
  [&]<int... N>(std::integer_sequence<int, N...>) {
    ((broken = broken == 0 && !OptionRule<Options, N + 1>::holds(o) ? N + 1 : broken), ...);
  }(std::make_integer_sequence<int, rules<Options>>{});
  return broken;
}

/// Throws one Error that names the option, its value and the allowed range; nothing has started yet.
template <class Options>
void check(Options const& o) {
  [&]<int... N>(std::integer_sequence<int, N...>) { (OptionRule<Options, N + 1>::check(o), ...); }(std::make_integer_sequence<int, rules<Options>>{});
}

/// Only fit needs an end.
inline void check_end(TrainerOptions const& o) {
  if (!o.max_epochs && unlimited(o.max_steps) && !o.max_time)
    throw Error("fulgurite.options.no_end", "nothing ends this run: set .max_epochs, .max_steps or .max_time (max_epochs = -1 asks for an "
                                            "endless one)");
}

}  // namespace loop

/// Options that the compiler knows, checked by it: `make_trainer<Net>(constant([] { return TrainerOptions{.max_epochs = 10}; }), ...)`, and
/// the same with `Automatic{...}`. What does not hold is a compile error with the sentence that the run would have thrown.
template <class F>
constexpr auto constant(F options) {
  constexpr int broken = loop::broken_rule(F{}());
  loop::OptionRule<decltype(options()), broken>::template say<broken == 0>();
  return options();
}

}  // namespace fulgurite
