#pragma once
// The verdict on a whole trainer: all checks that do not depend on the batch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/policy/policies.hpp>

// The arguments of make_trainer: options first, then policies, callbacks and words in any order. Classifies them, and
// finds which are missing and which are given twice.

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

namespace fulgurite {

class ResultsTable;

namespace judge {

/// The kind of an argument of make_trainer after the options.
enum class Argument : std::uint8_t { strategy, precision, optimization, word, callback };

/// True for a strategy, and for what has its functions or its tensor library: rules then report what it lacks.
template <class T>
consteval bool means_strategy() {
  using namespace hook::of_strategy;
  if constexpr (requires { typename T::Backend::Value; }) return true;
  else if constexpr (!Probeable<T>) return false;
  else return gradients::named<T> && backward::named<T> && flush::named<T>;
}
template <class T>
consteval Argument argument_of() {
  if constexpr (policy::is_word<T>) return Argument::word;
  else if constexpr (OptimizationLike<T>) return Argument::optimization;
  else if constexpr (PrecisionLike<T>) return Argument::precision;
  else if constexpr (means_strategy<T>()) return Argument::strategy;
  else return Argument::callback;
}
/// True if an argument in a policy's place may be meant as that policy: it is one, or it is of no other kind; rules
/// then report what it lacks.
template <Argument Kind, class T>
consteval bool may_be() {
  if constexpr (argument_of<T>() != Argument::callback) return argument_of<T>() == Kind;
  else if constexpr (Probeable<T>) return !has_any_hook<T>() || hook::of_strategy::gradients::named<T>;
  else return true;
}

/// True if nothing has to be added or reordered: options, strategy, precision and optimization in this order, then only
/// callbacks, with a tensor library that has no default callbacks, or with a policy that is refused anyway.
template <class... Args>
inline constexpr bool as_written = false;
template <class Options, class S, class P, class O, class... Cs>
inline constexpr bool as_written<Options, S, P, O, Cs...> =
    std::is_convertible_v<Options, TrainerOptions> && may_be<Argument::strategy, S>() &&
    may_be<Argument::precision, P>() && may_be<Argument::optimization, O>() &&
    ((argument_of<Cs>() == Argument::callback && !std::is_base_of_v<TrainerOptions, Cs>) && ...) &&
    (!policy::adds_defaults<S>() || !StrategyLike<S> || argument_of<P>() != Argument::precision ||
     argument_of<O>() != Argument::optimization);

/// True if the first argument are options.
template <class... Args>
inline constexpr bool begins_with_options = false;
template <class First, class... Rest>
inline constexpr bool begins_with_options<First, Rest...> = std::is_convertible_v<First, TrainerOptions>;

/// True for a call with only the model.
template <class M, class... Args>
inline constexpr bool is_model = false;
template <class M>
inline constexpr bool is_model<M, M&> = true;

/// The number of arguments of one kind.
template <Argument Kind, class... Given>
inline constexpr std::size_t count_of = (std::size_t{argument_of<Given>() == Kind} + ... + 0);

/// True if a word is given twice.
template <class... Given>
consteval bool repeats_word() {
  return ((policy::is_word<Given> && times<Given, Given...> != 1) || ...);
}
/// True if a word and a callback contradict each other.
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
/// True if a variable after the model cannot be copied.
template <class Model = TrainerOptions, class... Rest>
consteval bool copies_in_vain() {
  return !std::is_convertible_v<std::remove_cvref_t<Model>, TrainerOptions> &&
         ((std::is_lvalue_reference_v<Rest> && !std::is_copy_constructible_v<std::remove_cvref_t<Rest>>) || ...);
}
/// The arguments of make_trainer<M>, options first.
template <class M, bool OptionsFirst>
struct ArgumentRules {
  FULGURITE_JUDGE(ArgumentRules) {
    FULGURITE_RULE("[fulgurite.trainer.arguments] make_trainer<Model> takes TrainerOptions, then strategy, precision, "
                   "optimization and callbacks in any order, and makes the trainer's type: pass TrainerOptions first",
                   accepts<M>, OptionsFirst)
    return Fine{};
  }
};
/// What follows the options, in any order.
template <class M, class... Given>
struct PartRules {
  /// True if default callbacks are added.
  static constexpr bool adds =
      times<NoDefaults, Given...> == 0 &&
      ((argument_of<Given>() != Argument::strategy || policy::adds_defaults<Given>()) && ...);
  static constexpr bool has_strategy = count_of<Argument::strategy, Given...> == 1;
  FULGURITE_JUDGE(PartRules) {
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
/// make_trainer(...) without a type in angle brackets and without a model; or a trainer declared without them.
template <class... Args>
struct NamelessRules {
  FULGURITE_JUDGE(NamelessRules) {
    FULGURITE_RULE("[fulgurite.trainer.copied] make_trainer keeps what it is given, and one of these variables cannot "
                   "be copied: write std::move(pruning), or make it in the call",
                   accepts<refusal::given<Args...>>, !(copies_in_vain<Args...>()))
    FULGURITE_RULE("[fulgurite.trainer.no_model] make_trainer takes the model's type, or the model: "
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

// clang-format off
/// The model inherits privately from a base class that the backend must see.
template <class R>
struct BaseRules {
  using M = typename R::Model;
  FULGURITE_JUDGE(BaseRules) {
    FULGURITE_RULE("[fulgurite.model.private_base] the model inherits torch::nn::Module privately, so its parameters "
                   "are out of reach: write `: public torch::nn::Module`, or `struct`",
                   accepts<M>, !hides_base<typename R::Backend, M>())
    FULGURITE_RULE("[fulgurite.model.script] a torch::jit::Module is no torch::nn::Module, so no checkpoint would have "
                   "its weights: derive the model from Scripted, of fulgurite/torch/export/torchscript.hpp",
                   accepts<M>, !is_script<typename R::Backend, M>())
    FULGURITE_RULE("[fulgurite.pipeline.stages] this strategy runs a part of the model in each process, and the model "
                   "does not name its parts: add `auto& stages()` that returns its torch::nn::Sequential, Chain, or "
                   "tuple of modules, and call through_stages(*this, x) in its steps",
                   accepts<M>, !splits_model<typename R::Strategy>() || splits<typename R::Strategy, M>())
    return Fine{};
  }
};

/// What a capturing strategy would replay: tensor operations, but not the calls that led to them.
template <class R, class... Cs>
struct CaptureRules {
  using M = typename R::Model;
  FULGURITE_JUDGE(CaptureRules) {
    FULGURITE_RULE("[fulgurite.capture.hidden] this strategy replays steps without checks, so it does not take the "
                   "state that slices of a batch hand on: use Captured, or remove `using Hidden`",
                   accepts<M>, !Recurrent<M> || ChecksReplays<typename R::Strategy>)
    FULGURITE_RULES(first(about<replayed<M>(), M>(), about<replayed<Cs>(), Cs>()...))
    // The model's backward receives the loss multiplied by a number that the scaler has read.
    FULGURITE_RULE("[fulgurite.capture.scale] the model's own backward receives the loss times a scale that changes, "
                   "and a captured step would keep the first: use Float32 or Bf16Mixed, or leave backward out",
                   accepts<M>, !R::Precision::scales_loss || !hook::backward::named<M>)
    return Fine{};
  }
};

/// The parts of truncated back-propagation must be complete, and a strategy that splits the model needs
/// configure_model.
template <class R>
struct RecurrenceRules {
  using M = typename R::Model;
  FULGURITE_JUDGE(RecurrenceRules) {
    FULGURITE_RULE("[fulgurite.model.hidden_manual] Manual does not cut batches along time, so `using Hidden` has no "
                   "effect: slice them in training_step and remove it, or use Automatic{.tbptt = k}",
                   accepts<M>, !Recurrent<M> || R::automatic)
    // Each slice is a step with a collective of the processes.
    FULGURITE_RULE("[fulgurite.model.hidden_distributed] the batches of several processes may be of different length, "
                   "and a model with Hidden steps once for each slice of one: train in one process, or remove `using "
                   "Hidden`",
                   accepts<M>, !Recurrent<M> || !R::Strategy::is_distributed)
    FULGURITE_RULE("[fulgurite.model.hidden_split] tbptt_split_batch is only called for a model that carries a state "
                   "from slice to slice: add `using Hidden = ...`",
                   accepts<M>, Recurrent<M> || !hook::tbptt_split_batch::named<M>)
    FULGURITE_RULE("[fulgurite.model.configure_model] this strategy splits the model where it is made: add `void "
                   "configure_model(auto& ctx)`",
                   accepts<M>, !needs_configure_model<typename R::Strategy>() || hook::configure_model::named<M>)
    return Fine{};
  }
};
// clang-format on

template <class R, class... Cs>
consteval auto captured() {
  if constexpr (R::Strategy::captures) return CaptureRules<R, Cs...>::judge();
  else return Fine{};
}

/// Checks policies, model and callbacks, before a context exists.
template <class M, class S, class P, class O, class... Cs>
consteval auto parts() {
  FULGURITE_RULES(PolicyRules<S, P, O>::judge()) {
    constexpr bool fine = none_misspelt<M, S, Cs...>();
    constexpr bool logs = (takes_rows<Cs>() || ...);
    FULGURITE_RULES(ModelRules<M, fine>::judge())
    return first(CallbackRules<typename MetricsOf<M>::type, fine, logs, Cs, Cs...>::judge()...);
  }
}

/// The verdict on a trainer. `Trainer<Net>` alone lacks the template arguments that make_trainer deduces.
template <class M, class S, class P, class O, class... Cs>
consteval auto trainer() {
  FULGURITE_RULES(ModelNameRules<M>::judge())
  FULGURITE_RULES(ArgumentRules<M, !std::is_same_v<O, refusal::Nothing>>::judge())
  FULGURITE_RULES(parts<M, S, P, O, Cs...>()) {
    using R = Run<M, S, P, O>;
    FULGURITE_RULES(BaseRules<R>::judge())
    FULGURITE_RULES(OptimizerRules<R>::judge())
    // Before the hooks, since finding out what they return compiles their bodies, which may need missing parts.
    FULGURITE_RULES(first(NeedRules<R, loop::Optimizers<R>::count, Cs>::judge()...))
    FULGURITE_RULES(TogetherRules<Cs...>::judge())
    FULGURITE_RULES(remembered<R, Cs...>())
    FULGURITE_RULES(captured<R, Cs...>())
    FULGURITE_HOOKS(M, plain_hooks<R, M>())
    FULGURITE_RULES(RecurrenceRules<R>::judge())
    FULGURITE_HOOKS(M, worst(data_calls<M>(), settings_calls<M>()))
    FULGURITE_RULES(first(
        about<worst(plain_hooks<R, Cs>(), logger_calls<Cs>(), callback_calls<R, Cs>(), file_calls<Cs>()), Cs>()...))
    return about<worst(misspelt<S, none_misspelt<M, S, Cs...>()>(), foreign_to_strategy<S>(), plain_hooks<R, S>(),
                       strategy_calls<S>(), strategy_functions<R>()),
                 S>();
  }
}
template <class M, class S, class P, class O, class... Cs>
using VerdictOn = decltype(trainer<M, S, P, O, Cs...>());

}  // namespace judge

// Replaces a trainer that does not compile.

/// The body of a trainer that passes all rules. The body of a refused one is hollow: it declares the interface, so that
/// nothing else is reported.
template <bool Sound, class M, class S, class P, class O, class... Cs>
class TrainerBody {
 public:
  struct Run {
    using Model = M;
  };
  TrainerBody(auto&&...) {}
  void fit(auto&&...) {}
  std::vector<std::vector<MetricValue>> validate(auto&&...) { return {}; }
  std::vector<std::vector<MetricValue>> test(auto&&...) { return {}; }
  std::vector<std::vector<refusal::Nothing>> predict(auto&&...) { return {}; }
  void save_checkpoint(std::filesystem::path const&) {}
  refusal::Nothing snapshot() { return {}; }
  void restore(auto const&) {}
  void search(auto&&...) {}
  template <class Kind>
  void search_evaluation(auto&&...) {}
  void set_options(TrainerOptions const&) {}
  void set_optimization(O const&) {}
  TrainerOptions const& given_options() const;
  template <class T>
  T& callback();
  template <template <class...> class T>
  typename refusal::Only<T, Cs...>::type& callback();
  std::optional<double> value(auto const&) const { return {}; }
  Progress const& progress() const;
  std::vector<std::string> const& warnings() const;
  Outcome outcome() const;
  TrainerOptions const& options() const;
  O const& optimization() const;
  S const& strategy() const;
};

}  // namespace fulgurite
