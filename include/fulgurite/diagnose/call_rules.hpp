#pragma once
// Rules about one call of fit, validate, test or predict: do the steps take what the loaders yield, and has every step
// its loader? call_stages.hpp asks them in order.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/diagnose/call_hooks.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::judge {

/// A data set, and no data module, which may have samples beside its loaders.
template <class D>
inline constexpr bool only_samples = IndexedSamples<D> && !DataModuleLike<D>;

// clang-format off
/// The model of a call is the trainer's own type, and a variable. `Given` is how it was passed: `M&` is right; `Data`
/// is what followed it.
template <class M, class Given, class... Data>
struct BorrowRules {
  using Rules = BorrowRules;
  using T = std::remove_cvref_t<Given>;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.swapped] the model comes first, the data after it: write trainer.fit(model, "
                   "data)",
                   accepts<T>, std::is_same_v<T, M> || !(std::is_same_v<std::remove_cvref_t<Data>, M> || ...))
    FULGURITE_RULE("[fulgurite.trainer.text] a text is no data: a file to go on from is CkptPath{\"last\"}, the last "
                   "argument, and a loader is a range of batches",
                   accepts<T>, !(std::is_convertible_v<Data, std::string_view> || ...))
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
    return Fine{};
  }
};

/// A call with another number of arguments.
template <class... Args>
struct CallRules {
  using Rules = CallRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.call] fit takes the model, its training data and perhaps validation data: "
                   "trainer.fit(net, train, val); validate, test and predict take the model and data: "
                   "trainer.test(net, data); a file to go on from is the last argument: CkptPath{\"last\"}",
                   accepts<refusal::given<Args...>>, sizeof...(Args) == std::size_t(-1))
    return Fine{};
  }
};

/// A data module and a loader: which of its loaders would count?
template <class M, bool Mixed>
struct MixRules {
  using Rules = MixRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.data.module_and_loader] a data module brings its own loaders: pass it alone, or pass "
                   "loaders only",
                   accepts<M>, !Mixed)
    return Fine{};
  }
};

/// What an automatic training_step returns.
template <class R, class Result>
struct ResultRules {
  using Rules = ResultRules;
  using M = typename R::Model;
  using S = typename R::Strategy;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.model.step_result] training_step must return the loss: a tensor, a struct with a "
                   "tensor `.loss`, or an optional of these",
                   accepts<M>, loop::StepOutput<typename R::Backend, Result>)
    FULGURITE_RULE("[fulgurite.model.hidden_result] the model declares Hidden, so training_step must also return the "
                   "next one: return a struct with `.loss` and `.hidden`",
                   accepts<M>, carries_hidden<M, Result>())
    FULGURITE_RULE("[fulgurite.policy.skip_distributed] training_step may return nothing, which other processes would "
                   "wait for: return a loss for every batch, or train in one process",
                   accepts<M>, !loop::is_optional<Result> || !S::is_distributed)
    FULGURITE_RULE("[fulgurite.pipeline.loss] this strategy runs training_step to its end in one process, and the "
                   "others learn of nothing but the loss: return the loss itself, a tensor",
                   accepts<M>, !splits_model<S>() || R::Backend::template is_value<Result>)
    FULGURITE_RULE("[fulgurite.optimizer.skip_closure] training_step may return nothing, and an optimizer that "
                   "evaluates the loss several times needs one each time: return a loss for every batch",
                   accepts<M>, !loop::is_optional<Result> || !loop::Optimizers<R>::needs_closure)
    FULGURITE_RULE("[fulgurite.capture.skip] training_step may return nothing, which a replay would not notice: "
                   "return a loss for every batch, or use the strategy without Captured",
                   accepts<M>, !loop::is_optional<Result> || !S::captures)
    return Fine{};
  }
};

/// training_step, against the batch `B`.
template <class R, class StepCtx, class B>
struct TrainingRules {
  using Rules = TrainingRules;
  using M = typename R::Model;
  using Taken = refusal::takes<M, B>;
  template <bool Says = false, class = void>
  static consteval auto judge() {
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

/// The step of an evaluation, against the batch `B`.
template <class R, class Kind, class B>
struct EvaluationRules {
  using Rules = EvaluationRules;
  using M = typename R::Model;
  using Ctx = Context<R, typename Kind::Phase>;
  using Taken = refusal::takes<M, B>;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_HOOKS(Taken, step_fault<typename Kind::Step, M, B, Ctx>(Ids<Kind>::step))
    FULGURITE_RULE("[fulgurite.model.predict_result] predict_step must return the batch's prediction, not void: the "
                   "call collects them",
                   accepts<M>, !std::is_void_v<StepResult<typename Kind::Step, M, B, Ctx>> ||
                   !std::is_same_v<Kind, loop::Prediction>)
    return Fine{};
  }
};

/// Several loaders of an evaluation. `InFit`: that of a fit, where nobody tries evaluation out.
template <class R, class Kind, class Pack, class Loaders, bool InFit>
struct LoadersRules {
  using Rules = LoadersRules;
  using M = typename R::Model;
  template <bool Says = false, class = void>
  static consteval auto judge() {
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

/// Training and validation, of which fit has both or says why not.
template <class R, class Source, bool Waived>
struct FitRules {
  using Rules = FitRules;
  using M = typename R::Model;
  static constexpr bool step = hook::validation_step::named<M>;
  static constexpr bool loader = Source::template evaluates<hook::val_dataloader>;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.data.training_tuple] training reads one loader, and a std::tuple of several is for "
                   "evaluation: join them, data::combined(first, second)",
                   accepts<M>, !trains_on_tuple<Source>())
    FULGURITE_RULE("[fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with "
                   "train_dataloader()",
                   accepts<M>, Source::trains)
    FULGURITE_RULE("[fulgurite.data.unused_validation] the model has a validation_step, but no loader was given: pass "
                   "one, or NoValidation{} as fit's third argument",
                   accepts<M>, !step || loader || Waived)
    FULGURITE_RULE("[fulgurite.data.unused_loader] there is a validation loader, but the model has no "
                   "validation_step: add one, or pass NoValidation{} as fit's third argument",
                   accepts<M>, !loader || step)
    return Fine{};
  }
};
// clang-format on

}  // namespace fulgurite::judge
