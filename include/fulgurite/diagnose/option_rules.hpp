#pragma once
// The rules for the options of a trainer, one row each: the compiler checks constants, and values are checked before
// the run.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/body.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite {
namespace loop {

// Conditions that rules use for single options: a bound, a range, no limit.

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

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro; this header has only rows

/// The rules for a type of options. `judge(o, refuse)` calls `refuse(identifier, option, its value, sentence)` for the
/// first rule that is violated and returns the line of that row in this file, or 0 if there is none. `judge<place>` is
/// the compile error of that row.
template <class Options>
struct OptionRules;

/// A row: "[fulgurite.area.rule] ", the option, the sentence, the condition on the options `o`.
#define FULGURITE_OPTION(IDENTIFIER, OPTION, SENTENCE, ...)                                                            \
  if constexpr (Place != 0) {                                                                                          \
    constexpr bool OPTION = Place != __LINE__;                                                                         \
    static_assert(OPTION, IDENTIFIER #OPTION ": " SENTENCE);                                                           \
  } else if (!(__VA_ARGS__)) {                                                                                         \
    refuse(IDENTIFIER, #OPTION, o.OPTION, SENTENCE);                                                                   \
    return __LINE__;                                                                                                   \
  }

// clang-format off
template <>
struct OptionRules<TrainerOptions> {
  template <int Place = 0, class Refuse>
  static constexpr int judge([[maybe_unused]] TrainerOptions const& o, [[maybe_unused]] Refuse refuse) {
    FULGURITE_OPTION("[fulgurite.options.range] ", max_epochs,
                     "the number of epochs is at least 0, or -1 for no limit",
                     least(o.max_epochs, -1))
    FULGURITE_OPTION("[fulgurite.options.range] ", max_steps,
                     "the number of optimizer steps is at least 0, or -1 for no limit",
                     least(o.max_steps, -1L))
    FULGURITE_OPTION("[fulgurite.options.range] ", min_epochs,
                     "the least number of epochs is at least 0",
                     least(o.min_epochs, 0))
    FULGURITE_OPTION("[fulgurite.options.range] ", min_steps,
                     "the least number of steps is at least 0",
                     least(o.min_steps, 0L))
    FULGURITE_OPTION("[fulgurite.options.range] ", check_val_every_n_epoch,
                     "validate every 1 or more epochs, or std::nullopt",
                     least(o.check_val_every_n_epoch, 1))
    FULGURITE_OPTION("[fulgurite.options.range] ", num_sanity_val_steps,
                     "at least 0, or -1 for all batches",
                     o.num_sanity_val_steps >= -1)
    FULGURITE_OPTION("[fulgurite.options.range] ", log_every_n_steps,
                     "at least 1, or 0 for never",
                     o.log_every_n_steps >= 0)
    FULGURITE_OPTION("[fulgurite.options.range] ", reload_dataloaders_every_n_epochs,
                     "at least 1, or 0 for never",
                     o.reload_dataloaders_every_n_epochs >= 0)
    FULGURITE_OPTION("[fulgurite.options.range] ", fast_dev_run,
                     "a number of batches, or 0 for off",
                     o.fast_dev_run >= 0)
    FULGURITE_OPTION("[fulgurite.options.range] ", max_time,
                     "a duration is at least 0 seconds",
                     !o.max_time || o.max_time->count() >= 0)
    FULGURITE_OPTION("[fulgurite.options.min_over_max] ", min_epochs,
                     "above max_epochs: lower it, or raise max_epochs",
                     !o.min_epochs || unlimited(o.max_epochs) || *o.min_epochs <= *o.max_epochs)
    FULGURITE_OPTION("[fulgurite.options.min_over_max] ", min_steps,
                     "above max_steps: lower it, or raise max_steps",
                     !o.min_steps || unlimited(o.max_steps) || *o.min_steps <= *o.max_steps)
    FULGURITE_OPTION("[fulgurite.options.limit] ", limit_train_batches,
                     "a count from 0 on, or a Fraction from 0 to 1",
                     in_range(o.limit_train_batches))
    FULGURITE_OPTION("[fulgurite.options.limit] ", limit_val_batches,
                     "a count from 0 on, or a Fraction from 0 to 1",
                     in_range(o.limit_val_batches))
    FULGURITE_OPTION("[fulgurite.options.limit] ", limit_test_batches,
                     "a count from 0 on, or a Fraction from 0 to 1",
                     in_range(o.limit_test_batches))
    FULGURITE_OPTION("[fulgurite.options.limit] ", limit_predict_batches,
                     "a count from 0 on, or a Fraction from 0 to 1",
                     in_range(o.limit_predict_batches))
    FULGURITE_OPTION("[fulgurite.options.overfit] ", overfit_batches,
                     "a count from 1 on, or a Fraction above 0: leave it out for all batches",
                     !o.overfit_batches || (in_range(*o.overfit_batches) && !o.overfit_batches->none()))
    FULGURITE_OPTION("[fulgurite.options.overfit] ", overfit_batches,
                     "it sets limit_train_batches and limit_val_batches itself: leave those out, or it",
                     !o.overfit_batches || (o.limit_train_batches.all() && o.limit_val_batches.all()))
    FULGURITE_OPTION("[fulgurite.options.val_check_interval] ", val_check_interval,
                     "a count of batches from 1 on, a Fraction above 0 and up to 1, or a duration above 0",
                     in_range(o.val_check_interval))
    FULGURITE_OPTION("[fulgurite.options.val_check_interval] ", val_check_interval,
                     "with check_val_every_n_epoch = nullopt batches are counted across epochs: give a count or a "
                     "duration, not a Fraction of an epoch",
                     o.check_val_every_n_epoch || o.val_check_interval.kind != ValidationInterval::Kind::fraction)
    FULGURITE_OPTION("[fulgurite.options.deterministic] ", deterministic,
                     "benchmark may choose other algorithms in each run: leave one of the two out",
                     !(o.deterministic && o.benchmark.value_or(false)))
    FULGURITE_OPTION("[fulgurite.options.barebones] ", barebones,
                     "it runs the loop alone: leave fast_dev_run out",
                     !o.barebones || o.fast_dev_run == 0)
    FULGURITE_OPTION("[fulgurite.options.barebones] ", barebones,
                     "it runs the loop alone: leave detect_anomaly out",
                     !o.barebones || !o.detect_anomaly)
    FULGURITE_OPTION("[fulgurite.options.barebones] ", barebones,
                     "it runs the loop alone: leave log_every_n_steps out",
                     !o.barebones || o.log_every_n_steps == 0 ||
                     o.log_every_n_steps == TrainerOptions{}.log_every_n_steps)
    FULGURITE_OPTION("[fulgurite.options.barebones] ", barebones,
                     "it runs the loop alone: leave num_sanity_val_steps out",
                     !o.barebones || o.num_sanity_val_steps == 0 ||
                     o.num_sanity_val_steps == TrainerOptions{}.num_sanity_val_steps)
    return 0;
  }
};

template <>
struct OptionRules<Automatic> {
  template <int Place = 0, class Refuse>
  static constexpr int judge([[maybe_unused]] Automatic const& o, [[maybe_unused]] Refuse refuse) {
    FULGURITE_OPTION("[fulgurite.options.accumulate] ", accumulate_grad_batches,
                     "a window has at least 1 batch",
                     o.accumulate_grad_batches >= 1)
    FULGURITE_OPTION("[fulgurite.options.clip] ", clip,
                     "a limit is above 0; leave .clip out for no clipping",
                     o.clip.kind == Clip::Kind::none || o.clip.limit > 0)
    FULGURITE_OPTION("[fulgurite.options.tbptt] ", tbptt,
                     "a slice has at least 1 time step; leave it out for none",
                     o.tbptt >= 0)
    FULGURITE_OPTION("[fulgurite.options.tbptt] ", tbptt,
                     "it steps after each slice, accumulate_grad_batches after several batches: use one of them",
                     o.tbptt == 0 || o.accumulate_grad_batches == 1)
    return 0;
  }
};
// clang-format on
#undef FULGURITE_OPTION

/// The rules for a user's own optimization policy: those of Automatic, if its trainer also drives the optimizer.
template <class Options>
struct OptionRules {
  template <int Place = 0, class Refuse>
  static constexpr int judge([[maybe_unused]] Options const& o, [[maybe_unused]] Refuse refuse) {
    if constexpr (Options::automatic)
      return OptionRules<Automatic>::judge<Place>(
          Automatic{.accumulate_grad_batches = o.accumulate_grad_batches, .clip = o.clip, .tbptt = o.tbptt}, refuse);
    else return 0;
  }
};

// Options are checked: a constant that violates its rules is a compile error, a value is an Error before the run.

/// Formats a value for a sentence.
template <class T>
  requires std::is_arithmetic_v<T>
std::string shown(T value) {
  return std::to_string(value);
}
std::string shown(Seconds const& value);
std::string shown(Limit const& limit);
std::string shown(ValidationInterval const& v);
inline std::string shown(Clip const& clip) { return shown(clip.limit); }
template <class T>
std::string shown(std::optional<T> const& value) {
  return value ? shown(*value) : "nullopt";
}

/// The other option of a pair that does not fit together, for the message.
std::string beside(std::string_view rule, TrainerOptions const& o);
template <class Optimization>
std::string beside(std::string_view, Optimization const&) {
  return "";
}
[[noreturn]] void refuse_option(std::string_view bracketed, std::string_view option, std::string_view value,
                                std::string_view sentence);
/// Throws one Error that names the option, its value and the allowed range.
template <class Options>
struct Throw {
  Options const& options;
  template <class T>
  [[noreturn]] void operator()(std::string_view bracketed, std::string_view option, T const& value,
                               std::string_view sentence) const {
    refuse_option(bracketed, option, shown(value) + beside(bracketed, options), sentence);
  }
};
/// Does nothing: only the row that `judge` returns is needed.
struct Silent {
  template <class... Args>
  constexpr void operator()(Args const&...) const {}
};

/// Checks options before anything has started.
template <class Options>
void check(Options const& o) {
  OptionRules<Options>::judge(o, Throw<Options>{o});
}
FULGURITE_EXTERN(void check(TrainerOptions const&));
FULGURITE_EXTERN(void check(Automatic const&));

/// Checks that a fit will end; no other call needs this.
void check_end(TrainerOptions const& o);

}  // namespace loop

/// Options that are known and checked at compile time: `make_trainer<Net>(constant([] { return
/// TrainerOptions{.max_epochs = 10}; }), ...)`, and the same with `Automatic{...}`. A violated rule is a compile error
/// with the sentence that the run would have thrown.
template <class F>
constexpr auto constant(F options) {
  using Rules = loop::OptionRules<decltype(options())>;
  constexpr int broken = Rules::judge(F{}(), loop::Silent{});
  if constexpr (broken != 0) Rules::template judge<broken>(options(), loop::Silent{});
  return options();
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/diagnose/option_rules.ipp>
#endif
