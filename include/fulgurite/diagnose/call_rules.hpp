#pragma once
// Rules about one call of fit, validate, test or predict: the steps must take what the loaders yield, and every step
// must have its loader. call_stages.hpp evaluates these rules in order.

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::judge {

// What is wrong with steps, and with the hooks around them, once the batch's type is known.

/// The HookIds that a refusal of an evaluation may name.
template <class Kind>
struct Ids;
template <>
struct Ids<loop::Validation> {
  static constexpr HookId step = HookId::validation_step, start = HookId::on_validation_batch_start,
                          end = HookId::on_validation_batch_end;
};
template <>
struct Ids<loop::Testing> {
  static constexpr HookId step = HookId::test_step, start = HookId::on_test_batch_start,
                          end = HookId::on_test_batch_end;
};
template <>
struct Ids<loop::Prediction> {
  static constexpr HookId step = HookId::predict_step, start = HookId::on_predict_batch_start,
                          end = HookId::on_predict_batch_end;
};

// Checks one event of `T` in a function that returns the first verdict. Nothing is instantiated for a hook that `T`
// does not have.
#define FULGURITE_ASK(HOOK, ID, ...)                                                                                   \
  if constexpr (HOOK::template named<T>) {                                                                             \
    constexpr auto fault = hook::event_fault<HOOK, T, R::automatic, __VA_ARGS__>();                                    \
    if (fault != HookFault::none) return {fault, ID};                                                                  \
  }

/// Checks the events that receive an optimizer, for each optimizer.
template <class R, class T, class... Os>
consteval HookVerdict optimizer_hooks(std::type_identity<std::tuple<Os...>>) {
  using Ctx = RunContext<R, phase::Train>;
  constexpr bool automatic = R::automatic;
  return worst(HookVerdict{hook::event_fault<hook::on_before_zero_grad, T, automatic, Os, Ctx>(),
                           HookId::on_before_zero_grad}...,
               HookVerdict{hook::event_fault<hook::on_before_optimizer_step, T, automatic, Os, Ctx>(),
                           HookId::on_before_optimizer_step}...);
}

/// Checks the training events that receive a batch, with the type that the loader yields.
template <class R, class T, class Outputs, class Loss, class Batch>
consteval HookVerdict training_fault() {
  using Ctx = RunContext<R, phase::Train>;
  FULGURITE_ASK(hook::on_train_batch_start, HookId::on_train_batch_start, Batch, Ctx)
  FULGURITE_ASK(hook::on_train_batch_end, HookId::on_train_batch_end, Outputs, Batch, Ctx)
  if constexpr (hook::on_before_zero_grad::named<T> || hook::on_before_optimizer_step::named<T>) {
    constexpr auto found = optimizer_hooks<R, T>(std::type_identity<decltype(loop::Optimizers<R>::optimizers)>{});
    if (found) return found;
  }
  FULGURITE_ASK(hook::on_before_backward, HookId::on_before_backward, Loss, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, RunContext<R, phase::Fit>)
  return {};
}

/// Checks the model's function that moves all schedules of an optimizer.
template <class R, class... Ss>
consteval HookVerdict scheduling_override(std::type_identity<std::tuple<Ss...>>) {
  using Ctx = RunContext<R, phase::Train>;
  return worst(HookVerdict{hook::override_fault<hook::lr_scheduler_step, typename R::Model, R::automatic, Ctx, Ss>(),
                           HookId::lr_scheduler_step}...);
}

/// Checks that the model's overrides of clearing, backward, clipping and the step can be called with the arguments that
/// training passes.
template <class R, class Loss>
consteval HookVerdict training_overrides() {
  using M = typename R::Model;
  using Ctx = RunContext<R, phase::Train>;
  using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
  using Closure = typename R::Value (*)();
  return worst(
      HookVerdict{hook::override_fault<hook::backward, M, R::automatic, Ctx, Loss>(), HookId::backward},
      HookVerdict{hook::override_fault<hook::optimizer_zero_grad, M, R::automatic, Ctx, O>(),
                  HookId::optimizer_zero_grad},
      HookVerdict{hook::override_fault<hook::optimizer_step, M, R::automatic, Ctx, SteppingOptimizer<R, O>, Closure>(),
                  HookId::optimizer_step},
      HookVerdict{hook::override_fault<hook::configure_gradient_clipping, M, R::automatic, Ctx, O, Clip>(),
                  HookId::configure_gradient_clipping},
      scheduling_override<R>(std::type_identity<typename loop::Optimizers<R>::Schedulers>{}));
}

/// Checks that the batch hooks of T, a callback or the model, can be called with the arguments of an evaluation.
template <class R, class Kind, class T, class Outputs, class Batch>
consteval HookVerdict evaluation_fault() {
  using Ctx = RunContext<R, typename Kind::Phase>;
  using Start = typename Kind::batch_start;
  using End = typename Kind::batch_end;
  FULGURITE_ASK(Start, Ids<Kind>::start, Batch, Ctx)
  FULGURITE_ASK(End, Ids<Kind>::end, Outputs, Batch, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, RunContext<R, phase::Fit>)
  return {};
}
#undef FULGURITE_ASK

/// Checks that a step can be called with the loader's batch. Naming its return type compiles its body here, close to
/// the program, which keeps errors in that body short.
template <class Step, class M, class B, class Ctx>
consteval HookVerdict step_fault(HookId id) {
  if constexpr (Step::template accepts<M, B, Ctx>) {
    using Compiled [[maybe_unused]] =
        decltype(Step::call(std::declval<M&>(), std::declval<B&>(), std::declval<Ctx&>()));
    return {};
  } else if constexpr (Step::template accepts<M, B>) {
    using Compiled [[maybe_unused]] = decltype(Step::call(std::declval<M&>(), std::declval<B&>()));
    return {};
  } else {
    return {HookFault::step_batch, id};
  }
}
/// The type that a step of the model returns for a batch.
template <class Step, class M, class B, class Ctx>
using StepResult = decltype(loop::call_step<Step>(std::declval<M&>(), std::declval<B&>(), std::declval<Ctx&>()));

/// The outputs that the hooks after an evaluation step receive.
template <class Result>
using OutputsOf = std::conditional_t<std::is_void_v<Result>, loop::NoOutput, std::remove_reference_t<Result>>;

/// Checks that both the step of an evaluation and its loader exist.
template <class Kind, class M, class Source>
consteval HookVerdict missing_half() {
  if constexpr (!Kind::Step::template named<M>) return {HookFault::missing_step, Ids<Kind>::step};
  else if constexpr (!Source::template evaluates<typename Kind::Loader>) return {HookFault::no_loader, Ids<Kind>::step};
  else return {};
}

/// The type of batch that a step of `Phase` receives from this loader. Never called; only its return type is used.
template <class R, class Source, class Ctx, class Loader>
auto batch_of(loop::State<R>& run, Source& source, Ctx& ctx, Loader& loader) {
  return loop::with_batch(run, source, ctx, loop::present(*std::begin(loader)),
                          []<class B>(B&) { return std::type_identity<B>{}; });
}
/// The batch that a step receives from a loader: after the transfer hooks and the move to the device.
template <class R, class Source, class Phase, class Loader>
using Batch = typename decltype(batch_of(std::declval<loop::State<R>&>(), std::declval<Source&>(),
                                         std::declval<RunContext<R, Phase>&>(), std::declval<Loader&>()))::type;

/// Truncated back-propagation: checks the model's split function, the type of a slice, and the step's result for it.
template <class R, class Ctx, class B>
consteval HookVerdict split_fault() {
  return {hook::override_fault<hook::tbptt_split_batch, typename R::Model, R::automatic, Ctx, B, long>(),
          HookId::tbptt_split_batch};
}
/// A slice of a batch along time.
template <class R, class Ctx, class B>
using Slice = std::remove_reference_t<decltype(*std::begin(
    std::declval<decltype(loop::time_slices<R>(std::declval<typename R::Model&>(), std::declval<B&>(), 1L,
                                               std::declval<Ctx&>()))&>()))>;
/// The type that training_step returns for a slice.
template <class R, class Ctx, class B>
using SliceResult = std::remove_cvref_t<decltype(loop::call_training_step(
    std::declval<typename R::Model&>(), std::declval<Slice<R, Ctx, B>&>(),
    std::declval<typename loop::HiddenOf<typename R::Model>::kept const&>(), std::declval<Ctx&>()))>;
/// Checks that the step of a model that carries a hidden state also returns the next one.
template <class M, class Result>
consteval bool carries_hidden() {
  if constexpr (!Recurrent<M>) return true;
  else if constexpr (is_optional<Result>) return carries_hidden<M, typename Result::value_type>();
  else
    return requires(Result& output) {
      { output.hidden } -> std::convertible_to<typename M::Hidden>;
    };
}

/// The name that a loader's type declares; empty if there is none.
template <class L>
consteval std::string_view name_of_loader() {
  if constexpr (loop::NamedLoader<L>) return L::loader_name;
  else return {};
}

/// Several loaders in one, as made by data::combined; `combine_mode` is the mode.
template <class L>
concept CombinesLoaders = FULGURITE_SAYS(L, decltype(L::combine_mode), combine_mode);

/// True if two of several loaders have the same name.
template <class Loaders>
inline constexpr bool named_twice = false;
template <class... Ls>
inline constexpr bool named_twice<std::tuple<Ls...>> = [] {
  std::array<std::string_view, sizeof...(Ls) + 1> names{name_of_loader<std::remove_reference_t<Ls>>()...};
  for (std::size_t i = 0; i != sizeof...(Ls); ++i)
    for (std::size_t j = 0; j != i; ++j)
      if (!names[i].empty() && names[i] == names[j]) return true;
  return false;
}();
/// True if a loader of a tuple is a combined loader.
FULGURITE_OF_ARGUMENTS(any_combines, std::tuple, CombinesLoaders<std::remove_reference_t<Ts>> || ...);

/// The first callback that only works with a single loader.
template <class Pack>
struct wants_one_loader {
  static constexpr bool found = false;
};
template <class C, class... Cs>
struct wants_one_loader<Pack<C, Cs...>>
    : std::conditional_t<needs_one_eval_loader<C>(), std::type_identity<C>, wants_one_loader<Pack<Cs...>>> {
  static constexpr bool found = needs_one_eval_loader<C>() || wants_one_loader<Pack<Cs...>>::found;
};

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

/// True for a dataset that is not a data module; a data module may have samples besides its loaders.
template <class D>
inline constexpr bool only_samples = IndexedSamples<D> && !DataModuleLike<D>;

/// True for a const object that would be a loader or a data module if it were not const.
template <class D, class Plain = std::remove_const_t<D>>
inline constexpr bool is_frozen =
    (LoaderLike<Plain> || DataModuleLike<Plain>) && !DataModuleLike<D> && !loop::ReadItself<D>;

/// True if one of a call's arguments is a text.
template <class... Args>
inline constexpr bool any_text = (std::is_convertible_v<Args, std::string_view> || ...);

// clang-format off
/// The model of a call must be an lvalue of the trainer's own model type. `Given` is how it was passed: `M&` is right;
/// `Data` are the arguments after it.
template <class M, class Given, class... Data>
struct BorrowRules {
  using T = std::remove_cvref_t<Given>;
  FULGURITE_JUDGE(BorrowRules) {
    FULGURITE_RULE("[fulgurite.trainer.swapped] the model comes first, the data after it: write trainer.fit(model, "
                   "data)",
                   accepts<T>, std::is_same_v<T, M> || !(std::is_same_v<std::remove_cvref_t<Data>, M> || ...))
    FULGURITE_RULE(FULGURITE_SENTENCE_TRAINER_TEXT, accepts<T>, !any_text<Data...>)
    FULGURITE_RULE("[fulgurite.data.dataset] a data set has samples, and a trainer reads batches: pass a loader of it, "
                   "data::Loader{dataset, {.batch_size = 32, .shuffle = true}}",
                   accepts<T>, !(only_samples<std::remove_cvref_t<Data>> || ...))
    FULGURITE_RULE("[fulgurite.trainer.pointer] the trainer takes the model itself, not a pointer or a holder: pass "
                   "*model",
                   accepts<T>, !points<T>)
    FULGURITE_RULE("[fulgurite.trainer.model_type] this trainer was made for another model type, whose hooks it "
                   "knows: use make_trainer<ThisModel>(...)",
                   accepts<T>, std::is_same_v<T, M>)
    FULGURITE_RULE("[fulgurite.trainer.borrowed_model] the trainer borrows the model and changes it: pass a variable, "
                   "not a temporary or a const object",
                   accepts<T>, std::is_same_v<Given, M&>)
    FULGURITE_RULE("[fulgurite.data.const] a loader or data module is changed by a run: pass a variable that is not "
                   "const",
                   accepts<T>, !(is_frozen<std::remove_reference_t<Data>> || ...))
    return Fine{};
  }
};

/// A call with a wrong number of arguments.
template <class... Args>
struct CallRules {
  FULGURITE_JUDGE(CallRules) {
    FULGURITE_RULE(FULGURITE_SENTENCE_TRAINER_TEXT, accepts<refusal::given<Args...>>, !any_text<Args...>)
    FULGURITE_RULE("[fulgurite.trainer.call] fit takes the model, its training data and perhaps validation data: "
                   "trainer.fit(net, train, val); validate, test and predict take the model and data: "
                   "trainer.test(net, data); a file to resume from is the last argument: CkptPath{\"last\"}",
                   accepts<refusal::given<Args...>>, sizeof...(Args) == std::size_t(-1))
    return Fine{};
  }
};

/// A call with both a data module and a loader, which is ambiguous.
template <class M, bool Mixed>
struct MixRules {
  FULGURITE_JUDGE(MixRules) {
    FULGURITE_RULE("[fulgurite.data.module_and_loader] a data module brings its own loaders: pass it alone, or pass "
                   "loaders only",
                   accepts<M>, !Mixed)
    return Fine{};
  }
};

/// The type that an automatic training_step may return.
template <class R, class Result>
struct ResultRules {
  using M = typename R::Model;
  using S = typename R::Strategy;
  FULGURITE_JUDGE(ResultRules) {
    FULGURITE_RULE("[fulgurite.model.step_result] training_step must return the loss: a tensor, a struct with a "
                   "tensor `.loss`, or an optional of these",
                   accepts<M>, loop::StepOutput<typename R::Backend, Result>)
    FULGURITE_RULE("[fulgurite.model.hidden_result] the model declares Hidden, so training_step must also return the "
                   "next one: return a struct with `.loss` and `.hidden`",
                   accepts<M>, carries_hidden<M, Result>())
    FULGURITE_RULE("[fulgurite.policy.skip_distributed] training_step may return nothing, which other processes would "
                   "wait for: return a loss for every batch, or train in one process",
                   accepts<M>, !is_optional<Result> || !S::is_distributed)
    FULGURITE_RULE("[fulgurite.pipeline.loss] this strategy runs training_step to its end in one process, and the "
                   "others learn of nothing but the loss: return the loss itself, a tensor",
                   accepts<M>, !splits_model<S>() || R::Backend::template is_value<Result>)
    FULGURITE_RULE("[fulgurite.optimizer.skip_closure] training_step may return nothing, and an optimizer that "
                   "evaluates the loss several times needs one each time: return a loss for every batch",
                   accepts<M>, !is_optional<Result> || !loop::Optimizers<R>::needs_closure)
    FULGURITE_RULE("[fulgurite.capture.skip] training_step may return nothing, which this strategy would not notice, "
                   "since it replays steps without checks: return a loss for every batch, or use Captured",
                   accepts<M>, !is_optional<Result> || !S::captures || ChecksReplays<S>)
    return Fine{};
  }
};

/// Checks training_step with the batch `B`.
template <class R, class StepCtx, class B>
struct TrainingRules {
  using M = typename R::Model;
  using Taken = refusal::takes<M, B>;
  FULGURITE_JUDGE(TrainingRules) {
    if constexpr (Recurrent<M>) {
      FULGURITE_HOOKS(M, split_fault<R, StepCtx, B>())
      FULGURITE_RULE("[fulgurite.model.hidden] the model declares Hidden, so its step takes one: `auto "
                     "training_step(auto const& batch, std::optional<Hidden> const& hidden, auto& ctx)`",
                     accepts<M>, loop::HasRecurrentStep<M, Slice<R, StepCtx, B>, StepCtx>)
      return Fine{};
    } else {
      FULGURITE_HOOKS(Taken, step_fault<hook::training_step, M, B, StepCtx>(HookId::training_step))
      FULGURITE_RULE("[fulgurite.model.manual_result] under Manual, training_step steps its optimizers itself: "
                     "return nothing, or use Automatic",
                     accepts<M>, R::automatic || std::is_void_v<StepResult<hook::training_step, M, B, StepCtx>>)
      FULGURITE_RULE("[fulgurite.model.manual_step] under Manual, training_step has its optimizers from ctx, and this "
                     "one takes none: write `void training_step(auto const& batch, auto& ctx)`, or use Automatic",
                     accepts<M>, R::automatic || hook::training_step::accepts<M, B, StepCtx> ||
                     !hook::configure_optimizers::named<M>)
      return Fine{};
    }
  }
};

/// Checks the step of an evaluation with the batch `B`.
template <class R, class Kind, class B>
struct EvaluationRules {
  using M = typename R::Model;
  using Ctx = RunContext<R, typename Kind::Phase>;
  using Taken = refusal::takes<M, B>;
  FULGURITE_JUDGE(EvaluationRules) {
    FULGURITE_HOOKS(Taken, step_fault<typename Kind::Step, M, B, Ctx>(Ids<Kind>::step))
    FULGURITE_RULE("[fulgurite.model.predict_result] predict_step must return the batch's prediction, not void: the "
                   "call collects them",
                   accepts<M>, !std::is_void_v<StepResult<typename Kind::Step, M, B, Ctx>> ||
                   !std::is_same_v<Kind, loop::Prediction>)
    return Fine{};
  }
};

/// Several loaders of an evaluation. `InFit`: the evaluation is part of a fit, where no callback makes trial runs of
/// it.
template <class R, class Kind, class Pack, class Loaders, bool InFit>
struct LoadersRules {
  using M = typename R::Model;
  FULGURITE_JUDGE(LoadersRules) {
    FULGURITE_RULE("[fulgurite.data.loader_twice] two evaluation loaders have the same name, so their metrics would "
                   "be one: give each its own",
                   accepts<M>, !named_twice<Loaders>)
    FULGURITE_RULE("[fulgurite.callback.one_eval_loader] this callback tries evaluation on one loader, and several "
                   "were given: pass one, or leave it out",
                   accepts<typename wants_one_loader<Pack>::type>, InFit ||
                   std::tuple_size_v<Loaders> < 2 || !wants_one_loader<Pack>::found)
    FULGURITE_RULE("[fulgurite.data.combined_predict] predict takes loaders one after the other: pass them as a "
                   "std::tuple instead of combining them",
                   accepts<M>, !std::is_same_v<Kind, loop::Prediction> || !any_combines<Loaders>)
    return Fine{};
  }
};

/// A fit needs a training loader, and for validation both a step and a loader, or neither; `Waived` (NoValidation)
/// allows a step without a loader.
template <class R, class Source, bool Waived>
struct FitRules {
  using M = typename R::Model;
  static constexpr bool step = hook::validation_step::named<M>;
  static constexpr bool loader = Source::template evaluates<hook::val_dataloader>;
  FULGURITE_JUDGE(FitRules) {
    FULGURITE_RULE("[fulgurite.data.training_tuple] training reads one loader, and a std::tuple of several is for "
                   "evaluation: join them, data::combined(first, second)",
                   accepts<M>, !trains_on_tuple<Source>())
    FULGURITE_RULE("[fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with "
                   "train_dataloader()",
                   accepts<M>, Source::trains)
    FULGURITE_RULE("[fulgurite.data.unused_validation] the model has a validation_step, but no loader was given: pass "
                   "one, give the data module val_dataloader(), or pass NoValidation{} as fit's third argument",
                   accepts<M>, !step || loader || Waived)
    FULGURITE_RULE("[fulgurite.data.unused_loader] there is a validation loader, but the model has no "
                   "validation_step: add one, or pass NoValidation{} as fit's third argument",
                   accepts<M>, !loader || step)
    return Fine{};
  }
};
// clang-format on

}  // namespace fulgurite::judge
