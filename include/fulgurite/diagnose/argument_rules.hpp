#pragma once
// The arguments of make_trainer: options first, then policies, callbacks and words in any order. Which is which, what
// is left out, what is there twice.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <fulgurite/concept/callback.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/policy.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/left_out.hpp>

namespace fulgurite {

class ResultsTable;

namespace judge {

/// What an argument of make_trainer is, behind the options.
enum class Argument : std::uint8_t { strategy, precision, optimization, word, callback };

template <class T>
consteval Argument argument_of() {
  if constexpr (policy::is_word<T>) return Argument::word;
  else if constexpr (OptimizationLike<T>) return Argument::optimization;
  else if constexpr (PrecisionLike<T>) return Argument::precision;
  else if constexpr (StrategyLike<T>) return Argument::strategy;
  else return Argument::callback;
}
/// It stands where a policy of this kind belongs: it is one, or it is nothing else, and rules say what it lacks.
template <Argument Kind, class T>
consteval bool may_be() {
  if constexpr (argument_of<T>() != Argument::callback) return argument_of<T>() == Kind;
  else if constexpr (Probeable<T>) return !has_any_hook<T>() || hook::of_strategy::gradients::named<T>;
  else return true;
}

/// Nothing has to be added or put in order: options, strategy, precision, optimization in this order, then callbacks
/// alone, on a tensor library to which nothing is added, or with a policy that is refused for what it lacks.
template <class... Args>
inline constexpr bool as_written = false;
template <class Options, class S, class P, class O, class... Cs>
inline constexpr bool as_written<Options, S, P, O, Cs...> =
    std::is_convertible_v<Options, TrainerOptions> && may_be<Argument::strategy, S>() &&
    may_be<Argument::precision, P>() && may_be<Argument::optimization, O>() &&
    ((argument_of<Cs>() == Argument::callback && !std::is_base_of_v<TrainerOptions, Cs>) && ...) &&
    (!policy::adds_defaults<S>() || argument_of<S>() != Argument::strategy || argument_of<P>() != Argument::precision ||
     argument_of<O>() != Argument::optimization);

/// Options come first.
template <class... Args>
inline constexpr bool begins_with_options = false;
template <class First, class... Rest>
inline constexpr bool begins_with_options<First, Rest...> = std::is_convertible_v<First, TrainerOptions>;

/// A call with the model alone.
template <class M, class... Args>
inline constexpr bool is_model = false;
template <class M>
inline constexpr bool is_model<M, M&> = true;

/// How many of `Given` are of one kind.
template <Argument Kind, class... Given>
inline constexpr std::size_t count_of = (std::size_t{argument_of<Given>() == Kind} + ... + 0);

/// A word that is said twice.
template <class... Given>
consteval bool repeats_word() {
  return ((policy::is_word<Given> && times<Given, Given...> != 1) || ...);
}
/// A word, and a callback that it would leave out.
template <class... Given>
consteval bool contradicts() {
  if constexpr (count_of<Argument::word, Given...> == 0) return false;
  else
    return (times<NoResultsTable, Given...> != 0 && times<ResultsTable, Given...> != 0) ||
           (times<NoLogger, Given...> != 0 && (is_logger<Given>() || ...)) ||
           (times<NoProgressBar, Given...> != 0 && ((order_of<Given>() == Order::progress) || ...)) ||
           (times<NoModelSummary, Given...> != 0 && ((order_of<Given>() == Order::summary) || ...)) ||
           (times<NoCheckpoints, Given...> != 0 && (keeps_checkpoints<Given>() || ...));
}

// clang-format off
/// The arguments of make_trainer<M>, options first.
template <class M, bool OptionsFirst>
struct ArgumentRules {
  using Rules = ArgumentRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.arguments] make_trainer<Model> takes TrainerOptions, then strategy, precision, "
                   "optimization and callbacks in any order, and makes the trainer's type: pass TrainerOptions first",
                   accepts<M>, OptionsFirst)
    return Fine{};
  }
};
/// What follows the options, in any order.
template <class M, class... Given>
struct PartRules {
  using Rules = PartRules;
  /// Callbacks of ours are added.
  static constexpr bool adds =
      times<NoDefaults, Given...> == 0 &&
      ((argument_of<Given>() != Argument::strategy || policy::adds_defaults<Given>()) && ...);
  static constexpr bool has_strategy = count_of<Argument::strategy, Given...> == 1;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.options_twice] make_trainer is given TrainerOptions twice: write all of them "
                   "into the first",
                   accepts<M>, !(std::is_base_of_v<TrainerOptions, Given> || ...))
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given two strategies: keep one of them",
                   accepts<refusal::given<Given...>>, count_of<Argument::strategy, Given...> < 2)
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given two precisions: keep one of them",
                   accepts<refusal::given<Given...>>, count_of<Argument::precision, Given...> < 2)
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given two optimizations: keep one of Automatic{...} and "
                   "Manual{}",
                   accepts<refusal::given<Given...>>, count_of<Argument::optimization, Given...> < 2)
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given one tag, such as NoLogger{}, twice: keep one of "
                   "them",
                   accepts<refusal::given<Given...>>, !repeats_word<Given...>())
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given NoDefaults{}, which leaves out everything that is "
                   "added, and one more tag, such as NoLogger{}: keep NoDefaults{}",
                   accepts<refusal::given<Given...>>,
                   times<NoDefaults, Given...> == 0 || count_of<Argument::word, Given...> == 1)
    FULGURITE_RULE("[fulgurite.trainer.twice] make_trainer is given a callback, and the tag, such as NoLogger{}, "
                   "that leaves it out: keep one of them",
                   accepts<refusal::given<Given...>>, !contradicts<Given...>())
    FULGURITE_RULE("[fulgurite.trainer.defaults] make_trainer adds a bar, a summary, a log, a checkpoint and a table, "
                   "and a strategy where none is named: #include <fulgurite/defaults.hpp>, or name a strategy and "
                   "NoDefaults{}",
                   accepts<M>, (!adds || requires { sizeof(DefaultCallbacks<Given...>); }) &&
                               (has_strategy || requires { sizeof(DefaultStrategy<M>); }))
    return Fine{};
  }
};
/// make_trainer(...) without a type in angle brackets, and without a model; or a trainer declared without them.
template <class... Args>
struct NamelessRules {
  using Rules = NamelessRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.no_model] make_trainer is told the model's type, or given the model: "
                   "make_trainer<Net>(TrainerOptions{...}) or make_trainer(net, TrainerOptions{...}), then "
                   "trainer.fit(net, loader)",
                   accepts<refusal::given<Args...>>, sizeof...(Args) == std::size_t(-1))
    return Fine{};
  }
};
/// The model of a trainer's type.
template <class M>
struct ModelNameRules {
  template <bool Says = false, class = void>
  static consteval auto judge() {
    return Fine{};
  }
};
template <class... Args>
struct ModelNameRules<refusal::given<Args...>> : NamelessRules<Args...> {};
// clang-format on

}  // namespace judge
}  // namespace fulgurite
