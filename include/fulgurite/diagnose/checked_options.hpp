#pragma once
// Options are checked: a constant that does not fulfil its rules is refused by the compiler, a value before the run.

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite {

namespace loop {

/// A value as a sentence shows it.
template <class T>
  requires std::is_arithmetic_v<T>
std::string shown(T value) {
  return std::to_string(value);
}
inline std::string shown(Seconds const& value) { return std::to_string(value.count()) + " s"; }
inline std::string shown(Limit const& limit) {
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches)
                                            : "Fraction{" + std::to_string(limit.part) + "}";
}
inline std::string shown(ValidationInterval const& v) {
  return v.kind == ValidationInterval::Kind::time      ? shown(v.time)
         : v.kind == ValidationInterval::Kind::batches ? shown(v.batches)
                                                       : shown(v.part);
}
inline std::string shown(Clip const& clip) { return shown(clip.limit); }
template <class T>
std::string shown(std::optional<T> const& value) {
  return value ? shown(*value) : "nullopt";
}

/// The other half of a pair that does not fit.
inline std::string beside(std::string_view rule, TrainerOptions const& o) {
  if (!rule.starts_with("[fulgurite.options.min_over_max]")) return "";
  return " with max_epochs = " + shown(o.max_epochs) + ", max_steps = " + shown(o.max_steps);
}
template <class Optimization>
std::string beside(std::string_view, Optimization const&) {
  return "";
}
[[noreturn]] FULGURITE_COLD void refuse_option(std::string_view bracketed, std::string_view option,
                                               std::string_view value, std::string_view sentence) {
  throw Error(bracketed.substr(1, bracketed.find(']') - 1),
              std::string(option) + " = " + std::string(value) + ": " + std::string(sentence));
}
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
/// Says nothing: the row is all that is asked for.
struct Silent {
  template <class... Args>
  constexpr void operator()(Args const&...) const {}
};

/// Nothing has started yet.
template <class Options>
void check(Options const& o) {
  OptionRules<Options>::judge(o, Throw<Options>{o});
}
/// The same options, where they pass.
template <class Options>
Options checked(Options o) {
  check(o);
  return o;
}

/// Only fit needs an end.
inline void check_end(TrainerOptions const& o) {
  if (!o.max_epochs && unlimited(o.max_steps) && !o.max_time)
    throw Error("fulgurite.options.no_end",
                "nothing ends this run: set .max_epochs, .max_steps or .max_time (max_epochs = -1 asks for an "
                "endless one)");
}

}  // namespace loop

/// Options that the compiler knows, checked by it: `make_trainer<Net>(constant([] { return TrainerOptions{.max_epochs =
/// 10}; }), ...)`, and the same with `Automatic{...}`. What does not hold is a compile error with the sentence that the
/// run would have thrown.
template <class F>
constexpr auto constant(F options) {
  using Rules = loop::OptionRules<decltype(options())>;
  constexpr int broken = Rules::judge(F{}(), loop::Silent{});
  if constexpr (broken != 0) Rules::template judge<broken>(options(), loop::Silent{});
  return options();
}

}  // namespace fulgurite
