#pragma once
// The verdict on one call of fit, validate, test or predict, in stages.
//
// Compilers print every instantiation between the program and an error in the body of a user's function, and naming a
// function's return type compiles its body. A verdict is therefore not a chain of calls: one class evaluates its stages
// one after the other, each after those before it are known, so that all of them are close to the program.

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/data_rules.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_rules.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/whole_run.hpp>

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

namespace fulgurite::judge {

/// Checks how the model was passed, and that the arguments after it go together.
template <class M, bool Mixed, class Model, class... Data>
consteval auto passed() {
  FULGURITE_RULES(BorrowRules<M, Model, Data...>::judge())
  return MixRules<M, Mixed>::judge();
}

/// The first checks of every call: how the model was passed (`Passed` is the verdict on that), the data module, and
/// what callbacks need of the source.
template <class Passed, class R, class Source, class... Cs>
consteval auto given() {
  using Module = ModuleOf<Source>;
  FULGURITE_RULES(Passed{})
  if constexpr (std::is_same_v<Module, NoModule> || std::is_same_v<Module, typename R::Model>)
    return sources<R, Source, Cs...>();
  else {
    FULGURITE_RULES(ModuleRules<Module>::judge())
    FULGURITE_HOOKS(Module, module_hooks<R, Module>())
    return sources<R, Source, Cs...>();
  }
}

/// Checks a loader, and its batch on the way to a step of `Phase`.
template <class R, class Source, class Phase, class Loader>
consteval auto loader() {
  FULGURITE_RULES(LoaderRules<R, Loader>::judge())
  FULGURITE_RULES(TrainingLoaderRules<R, Loader, std::is_same_v<Phase, phase::Train>>::judge())
  return transfer_from<R, Source, Phase, Loader>();
}

/// The return type of an automatic training_step.
template <class R, class Ctx, class B, bool Cut = Recurrent<typename R::Model>>
struct Returns {
  using Result = std::remove_cvref_t<StepResult<hook::training_step, typename R::Model, B, Ctx>>;
};
template <class R, class Ctx, class B>
struct Returns<R, Ctx, B, true> {
  using Result = SliceResult<R, Ctx, B>;
};

/// The outputs that the hooks after a training step receive.
template <class R, class Ctx, class B, bool Automatic = R::automatic>
struct AfterStep {
  using Outputs = loop::NoOutput;
  using Loss = typename R::Value;
};
template <class R, class Ctx, class B>
struct AfterStep<R, Ctx, B, true> {
  using Result = typename Returns<R, Ctx, B>::Result;
  using Outputs = typename loop::OutputsOf<typename R::Backend, Result>::type;
  using Loss = std::remove_pointer_t<decltype(loop::loss_of<typename R::Backend>(std::declval<Result&>()))>;
};

/// The loader that a fit trains on.
template <class Source>
using TrainLoader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
/// The batch that training_step receives.
template <class R, class Source>
using TrainBatch = Batch<R, Source, phase::Train, TrainLoader<Source>>;

/// The stages of fit up to its evaluation; `judge` is the last.
template <class Passed, class R, class Source, bool Waived, class... Cs>
struct TrainingStages {
  using M = typename R::Model;
  using S = typename R::Strategy;
  using Ctx = std::conditional_t<R::automatic, RunContext<R, phase::Train>, StepContext<R, Pack<Cs...>>>;
  static consteval auto step() {
    FULGURITE_RULES(given<Passed, R, Source, Cs...>())
    FULGURITE_RULES(ReturnedLoaderRules<ModuleOf<Source>, hook::train_dataloader, hook::val_dataloader>::judge())
    FULGURITE_RULES(FitRules<R, Source, Waived>::judge())
    FULGURITE_RULES(loader<R, Source, phase::Train, TrainLoader<Source>>())
    FULGURITE_RULES(place_remembered<TrainLoader<Source>, Cs...>())
    FULGURITE_RULES(TrainingRules<R, Ctx, TrainBatch<R, Source>>::judge())
    if constexpr (!R::automatic) {
      constexpr HookVerdict found{
          hook::override_fault<hook::backward, M, false, RunContext<R, phase::Train>, typename R::Value>(),
          HookId::backward};
      return about<found, M>();
    } else {
      using B = TrainBatch<R, Source>;
      FULGURITE_RULES(ResultRules<R, typename Returns<R, Ctx, B>::Result>::judge())
      return about<training_overrides<R, typename AfterStep<R, Ctx, B>::Loss>(), M>();
    }
  }
  /// Checks the batch hooks of the model, the callbacks and the strategy.
  static consteval auto judge() {
    FULGURITE_RULES(step()) {
      using B = TrainBatch<R, Source>;
      using Outputs = typename AfterStep<R, Ctx, B>::Outputs;
      using Loss = typename AfterStep<R, Ctx, B>::Loss;
      return first(about<training_fault<R, M, Outputs, Loss, B>(), M>(),
                   about<training_fault<R, Cs, Outputs, Loss, B>(), Cs>()...,
                   about<worst(training_fault<R, S, Outputs, Loss, B>(), seam_calls<S, Loss>()), S>());
    }
  }
};

/// The stages of validate, test or predict up to its loaders.
template <class Passed, class R, class Kind, class Source, class... Cs>
struct RequestStages {
  using M = typename R::Model;
  static consteval auto judge() {
    FULGURITE_RULES(given<Passed, R, Source, Cs...>())
    FULGURITE_RULES(ReturnedLoaderRules<ModuleOf<Source>, typename Kind::Loader>::judge())
    return about<missing_half<Kind, M, Source>(), M>();
  }
};

/// The stages for one loader of an evaluation.
template <class R, class Kind, class Source, class Loaders, bool InFit, class L, class... Cs>
struct EvaluationStages {
  using M = typename R::Model;
  using S = typename R::Strategy;
  using Phase = typename Kind::Phase;
  static consteval auto step() {
    FULGURITE_RULES(LoadersRules<R, Kind, Pack<Cs...>, Loaders, InFit>::judge())
    FULGURITE_RULES(loader<R, Source, Phase, L>())
    FULGURITE_RULES(place_remembered_in<InFit, L, Cs...>())
    return EvaluationRules<R, Kind, Batch<R, Source, Phase, L>>::judge();
  }
  static consteval auto judge() {
    FULGURITE_RULES(step()) {
      using B = Batch<R, Source, Phase, L>;
      using Outputs = OutputsOf<StepResult<typename Kind::Step, M, B, RunContext<R, Phase>>>;
      return first(about<evaluation_fault<R, Kind, M, Outputs, B>(), M>(),
                   about<evaluation_fault<R, Kind, Cs, Outputs, B>(), Cs>()...,
                   about<evaluation_fault<R, Kind, S, Outputs, B>(), S>());
    }
  }
};

/// The loaders of an evaluation as the source gives them; void if there is no evaluation to check.
template <bool Evaluates, class Kind, class Source>
struct LoadersOf : std::type_identity<void> {};
template <class Kind, class Source>
struct LoadersOf<true, Kind, Source>
    : std::type_identity<decltype(std::declval<Source&>().template evaluation<typename Kind::Loader>())> {};

/// The stages of fit, including its validation if there is a loader for it.
template <class Passed, class R, class Source, bool Waived, class... Cs>
struct Training {
  using Stages = TrainingStages<Passed, R, Source, Waived, Cs...>;
  using Given = decltype(given<Passed, R, Source, Cs...>());
  using Step = decltype(Stages::step());
  using Verdict = decltype(Stages::judge());
  using Loaders =
      typename LoadersOf<Verdict::ok && FitRules<R, Source, Waived>::loader, loop::Validation, Source>::type;
  template <class L>
  using Evaluates = EvaluationStages<R, loop::Validation, Source, Loaders, true, std::remove_reference_t<L>, Cs...>;
};
/// The stages of validate, test or predict.
template <class Passed, class R, class Kind, class Source, class... Cs>
struct Request {
  using Stages = RequestStages<Passed, R, Kind, Source, Cs...>;
  using Given = decltype(given<Passed, R, Source, Cs...>());
  using Verdict = decltype(Stages::judge());
  using Loaders = typename LoadersOf<Verdict::ok, Kind, Source>::type;
  template <class L>
  using Evaluates = EvaluationStages<R, Kind, Source, Loaders, false, std::remove_reference_t<L>, Cs...>;
};

/// The verdict on a call, which is Training or Request: after all other stages, each loader of its evaluation is
/// checked. `judge` returns the verdict with its sentence.
template <class Call, class Loaders = typename Call::Loaders>
struct VerdictOnCall;
template <class Call>
struct VerdictOnCall<Call, void> {
  using type = typename Call::Verdict;
  static consteval auto judge() { return Call::Stages::judge(); }
};
template <class Call, class... Ls>
struct VerdictOnCall<Call, std::tuple<Ls...>> {
  using Step = decltype(first(Call::template Evaluates<Ls>::step()...));
  using type = decltype(first(Call::template Evaluates<Ls>::judge()...));
  static consteval auto judge() { return first(Call::template Evaluates<Ls>::judge()...); }
};
template <class Call>
struct VerdictOnCall<Call, std::tuple<>> : VerdictOnCall<Call, std::tuple<std::tuple<>>> {};  // no loader

// The verdict on each call of a trainer, from the arguments of the call.

/// `Run` is the key of the trainer's runs, `Cs` are its callbacks. Declarations of calls use VerdictOnCall directly on
/// one of these types: g++ adds a line to every refusal for each alias in between.
template <class Run, class... Cs>
struct Calls {
  using M = typename Run::Model;
  template <class Model, class Source, bool Waived, bool Mixed, class... Data>
  using Fit = Training<decltype(passed<M, Mixed, Model, Data...>()), Run, Source, Waived, Cs...>;
  template <class Model, class Kind, class Data>
  using Evaluation = Request<decltype(passed<M, false, Model, Data>()), Run, Kind, loop::SourceOf<Data, true>, Cs...>;
};

/// The predictions that predict_step makes from a source.
template <class Run, class Source>
using PredictedBy =
    loop::Predicted<Run,
                    Batch<Run, Source, phase::Predict,
                          std::remove_reference_t<std::tuple_element_t<
                              0, decltype(std::declval<Source&>().template evaluation<hook::predict_dataloader>())>>>>;

/// True if `From` is a file, or a snapshot of the same kind of run.
template <class Run, class From>
consteval bool of_this_run() {
  constexpr bool fits = !loop::is_snapshot<From> || std::is_same_v<From, Snapshot<Run>>;
  static_assert(fits, "[fulgurite.trainer.snapshot] the snapshot is of a trainer of another model, strategy, precision "
                      "or optimization: take one of this trainer, by snapshot(trainer)");
  return fits;
}

// Calls of a trainer with a number of arguments that no overload has, or with a file as an option.

/// Each of these calls is refused with a sentence. `M`: the trainer's model.
template <class M>
class OtherCalls {
  using Option = refusal::CkptPathOption;

 public:
  template <class Model, bool Fine = false>
  void fit(Model&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, bool Fine = false>
  void fit(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, class Val, bool Fine = false>
  void fit(Model&&, Data&&, Val&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<MetricValue>> validate(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<MetricValue>> test(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<refusal::Nothing>> predict(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }

  template <class... Args>
    requires(sizeof...(Args) == 0 || (sizeof...(Args) > 3 && !loop::names_file<Args...>))
  void fit(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !is_model<M, Args...>)
  std::vector<std::vector<MetricValue>> validate(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !is_model<M, Args...>)
  std::vector<std::vector<MetricValue>> test(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> &&
             !(std::is_same_v<std::remove_cvref_t<Args>, DiscardPredictions> || ...))
  std::vector<std::vector<refusal::Nothing>> predict(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
};

}  // namespace fulgurite::judge
