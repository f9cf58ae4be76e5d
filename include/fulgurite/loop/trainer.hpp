#pragma once
// Trainer: owns policies, callbacks and counters, borrows model and data. Assembled, and refused, by the compiler.

#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/loop/borrowed_optimizer.hpp>
#include <fulgurite/loop/checked_options.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/hook_refusals.hpp>
#include <fulgurite/loop/judge_call.hpp>
#include <fulgurite/loop/misspelt_evaluation.hpp>
#include <fulgurite/loop/misspelt_events.hpp>
#include <fulgurite/loop/misspelt_functions.hpp>
#include <fulgurite/loop/near_miss_refusals.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/refusals.hpp>

namespace fulgurite {

/// What a trainer holds, if it is well-formed. A refused one is hollow: it declares the interface, so that nothing else
/// is reported.
template <bool Sound, class M, class S, class P, class O, class... Cs>
class TrainerBody {
 public:
  template <class... Args>
  TrainerBody(Args&&...) {}
  template <class... Args>
  void fit(Args&&...) {}
  template <class... Args>
  std::vector<std::vector<MetricValue>> validate(Args&&...) {
    return {};
  }
  template <class... Args>
  std::vector<std::vector<MetricValue>> test(Args&&...) {
    return {};
  }
  template <class... Args>
  std::vector<std::vector<refusal::Nothing>> predict(Args&&...) {
    return {};
  }
  void save_checkpoint(std::filesystem::path const&) {}
  template <class T>
  T& callback();
  template <class Metric>
  std::optional<double> value(Metric const&) const {
    return {};
  }
  Progress const& progress() const;
  std::vector<std::string> const& warnings() const;
  Outcome const& outcome() const;
  TrainerOptions const& options() const;
  O const& optimization() const;
  S const& strategy() const;
};

template <class M, class S, class P, class O, class... Cs>
class TrainerBody<true, M, S, P, O, Cs...> {
 public:
  using Run = fulgurite::Run<M, S, P, O>;

 private:
  template <class T>
  static constexpr bool is_waiver = std::is_same_v<std::remove_cvref_t<T>, NoValidation>;

  /// A data module and a loader: which of its loaders would count?
  template <class Data, class Val, class Source>
  static constexpr bool mixed = !LoaderLike<std::remove_reference_t<Data>> && !is_waiver<Val> && Source::trains;

  /// Where batches come from: one thing given, which is a loader (of an evaluation: or a tuple of them) or a data
  /// module.
  template <class Data, bool Evaluation = false, class D = std::remove_reference_t<Data>>
  using Alone = std::conditional_t<
      LoaderLike<D> || (Evaluation && loop::is_tuple<std::remove_const_t<D>>),
      std::conditional_t<Evaluation, loop::GivenLoaders<NoModule, D>, loop::GivenLoaders<D, NoModule>>,
      loop::ModuleLoaders<D, true>>;
  /// The same of two things given: loaders, or a data module and NoValidation.
  template <class D, class V>
  using Pair = std::conditional_t<LoaderLike<D>, loop::GivenLoaders<D, V>, loop::ModuleLoaders<D, false>>;

  /// The type that a refused call is about.
  template <Verdict verdict, class Model, class Source, class Kind>
  using Culprit = typename judge::Culprit<verdict, Run, std::remove_cvref_t<Model>, Source, Kind, Cs...>::type;

  template <class Model, class Source, bool Waived>
  static consteval Verdict fitting() {
    if constexpr (constexpr auto bad = judge::borrowed<M, Model>(); !bad.ok()) return bad;
    else return judge::fit<Run, Pack<Cs...>, Source, Waived>();
  }
  template <class Model, class Kind, class Source>
  static consteval Verdict evaluating() {
    if constexpr (constexpr auto bad = judge::borrowed<M, Model>(); !bad.ok()) return bad;
    else return judge::evaluates<Run, Kind, Pack<Cs...>, Source>();
  }

 public:
  TrainerBody(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks)
      : state_{.options = loop::effective(std::move(options)),
               .strategy = std::move(strategy),
               .precision = std::move(precision),
               .optimization = std::move(optimization)},
        pack_{Slots<Cs...>(std::move(callbacks)...)} {
    if constexpr (O::automatic) loop::check(state_.optimization);
  }

  /// Trains on a data module, which may bring validation loaders; or on a loader, without validation.
  template <class Model, class Data, Verdict verdict = fitting<Model, Alone<Data>, false>()>
  void fit(Model&& model, Data&& data) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Data>, loop::Validation>>();
    if constexpr (verdict.ok()) fit_from(model, alone(data));
  }
  /// Trains on a loader, validates on one (or a std::tuple of them). NoValidation{} says that there is none on purpose.
  template <class Model, class Data, class Val,
            class Source = Pair<std::remove_reference_t<Data>, std::remove_reference_t<Val>>,
            Verdict verdict = mixed<Data, Val, Source> ? Verdict{Fault::module_and_loaders}
                                                       : fitting<Model, Source, is_waiver<Val>>()>
  void fit(Model&& model, Data&& data, Val&& val) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Source, loop::Validation>>();
    if constexpr (verdict.ok()) {
      if constexpr (LoaderLike<std::remove_reference_t<Data>>) fit_from(model, Source{data, val});
      else fit_from(model, Source(data));
    }
  }
  /// The model has the loaders itself.
  template <class Model, Verdict verdict = fitting<Model, Alone<Model>, false>()>
  void fit(Model&& model) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Model>, loop::Validation>>();
    if constexpr (verdict.ok()) fit_from(model, Alone<Model>(model));
  }

  /// The same without validation.
  template <class Model, class Source = loop::ModuleLoaders<std::remove_reference_t<Model>, false>, Verdict verdict = fitting<Model, Source, true>()>
  void fit(Model&& model, NoValidation) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Source, loop::Validation>>();
    if constexpr (verdict.ok()) fit_from(model, Source(model));
  }

  /// One pass of validation_step, gradients off; the values of each loader.
  template <class Model, class Data, Verdict verdict = evaluating<Model, loop::Validation, Alone<Data, true>>()>
  std::vector<std::vector<MetricValue>> validate(Model&& model, Data&& data) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Data, true>, loop::Validation>>();
    if constexpr (verdict.ok())
      return evaluate_from<loop::Validation>(model, alone<true>(data), Stage::validate,
                                             state_.options.limit_val_batches);
    else return {};
  }
  /// One pass of test_step, gradients off; the values of each loader.
  template <class Model, class Data, Verdict verdict = evaluating<Model, loop::Testing, Alone<Data, true>>()>
  std::vector<std::vector<MetricValue>> test(Model&& model, Data&& data) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Data, true>, loop::Testing>>();
    if constexpr (verdict.ok())
      return evaluate_from<loop::Testing>(model, alone<true>(data), Stage::test, state_.options.limit_test_batches);
    else return {};
  }
  /// What predict_step returned for each batch, for each loader.
  template <class Model, class Data, Verdict verdict = evaluating<Model, loop::Prediction, Alone<Data, true>>()>
  auto predict(Model&& model, Data&& data) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Data, true>, loop::Prediction>>();
    if constexpr (verdict.ok()) return predict_from(model, alone<true>(data), true);
    else return std::vector<std::vector<refusal::Nothing>>{};
  }
  /// The same for callbacks that take predictions as they come: nothing is collected.
  template <class Model, class Data, Verdict verdict = evaluating<Model, loop::Prediction, Alone<Data, true>>()>
  void predict(Model&& model, Data&& data, DiscardPredictions) {
    refusal::About<verdict.hook.hook>::template say<verdict, Culprit<verdict, Model, Alone<Data, true>, loop::Prediction>>();
    if constexpr (verdict.ok()) predict_from(model, alone<true>(data), false);
  }

  /// Weights, counters and the state of schedules and callbacks, now; between fits, or from a hook through
  /// ctx.request_checkpoint.
  void save_checkpoint(std::filesystem::path const& path) {
    if (!state_.model || !state_.optimizers)
      throw Error("fulgurite.trainer.nothing_to_save",
                  "there is no run to save to " + path.string() + " yet: call fit first");
    loop::write_checkpoint(state_, pack_, path);
  }

  template <class T>
  T& callback() {
    constexpr bool found = (std::is_same_v<T, Cs> || ...);
    static_assert(found, "[fulgurite.trainer.callback] this trainer has no callback of that type: name one of those "
                         "given to make_trainer");
    if constexpr (found) return pack_.slots.template get<T>();
    else return refusal::nothing<T>();
  }

  /// A metric's value of the last finished epoch or evaluation.
  template <class Metric>
  std::optional<double> value(Metric const& metric) {
    state_.facts.validating = false;
    return Context<Run, phase::Validate>(state_).value(metric);
  }

  Progress const& progress() const { return state_.progress; }
  /// What was said once on stderr, each with its identifier.
  std::vector<std::string> const& warnings() const { return state_.warned; }
  Outcome const& outcome() const { return state_.outcome; }
  TrainerOptions const& options() const { return state_.options; }
  O const& optimization() const { return state_.optimization; }
  S const& strategy() const { return state_.strategy; }

 private:
  template <bool Evaluation = false, class D>
  auto alone(D& data) {
    using Source = Alone<D, Evaluation>;
    if constexpr (!Evaluation && LoaderLike<D>) return Source{data, none_};
    else if constexpr (LoaderLike<D> || (Evaluation && loop::is_tuple<std::remove_const_t<D>>))
      return Source{none_, data};
    else return Source(data);
  }

  template <class Source>
  void fit_from(M& model, Source source) {
    state_.model = &model;
    loop::fit(state_, pack_, source);
  }

  template <class Kind, class Source>
  std::vector<std::vector<MetricValue>> evaluate_from(M& model, Source source, Stage stage, Limit const& limit) {
    state_.model = &model;
    return loop::run_evaluation<Kind>(state_, pack_, source, stage, limit);
  }

  template <class Source>
  auto predict_from(M& model, Source source, bool keep) {
    using Loaders = decltype(source.template evaluation<hook::predict_dataloader>());
    using Loader = std::remove_reference_t<std::tuple_element_t<0, Loaders>>;
    using T = loop::Predicted<Run, judge::Batch<Run, Source, phase::Predict, Loader>>;
    state_.model = &model;
    auto const& limit = state_.options.limit_predict_batches;
    loop::check_special(state_, pack_);
    state_.facts = {};
    state_.facts.stage = Stage::predict;
    Context<Run, phase::Predict> ctx(state_);
    return loop::framed(state_, pack_, source, [&] {
      loop::set_up(state_, pack_, source, ctx);
      std::vector<std::vector<T>> predictions;
      if (!limit.none())
        predictions = loop::predict<T>(state_, pack_, source, source.template evaluation<hook::predict_dataloader>(), keep);
      state_.strategy.teardown(model);
      loop::tell_all<hook::teardown>(state_, pack_, source, ctx);
      loop::finalize_loggers(pack_, Status::success);
      return predictions;
    });
  }

  loop::State<Run> state_;
  Pack<Cs...> pack_;
  NoModule none_{};
};

/// A trainer for one model type, assembled from a strategy, a precision, an optimization and callbacks; see
/// make_trainer.
template <class M, class S, class P, class O, class... Cs>
class Trainer : public TrainerBody<judge::trainer<M, S, P, O, Cs...>().ok(), M, S, P, O, Cs...> {
  static constexpr Verdict verdict = judge::trainer<M, S, P, O, Cs...>();
  using Subject = typename refusal::Participant<verdict.who, M, S, P, O, Cs...>::type;
  using Checked = decltype(refusal::About<verdict.hook.hook>::template say<verdict, Subject>());

 public:
  using TrainerBody<verdict.ok(), M, S, P, O, Cs...>::TrainerBody;
};

///   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, SingleDevice{cpu}, Float32{}, Automatic{},
///                                    ProgressBar{});
template <class M, class S, class P, class O, class... Cs>
Trainer<M, S, P, O, Cs...> make_trainer(TrainerOptions options, S strategy, P precision, O optimization,
                                        Cs... callbacks) {
  return Trainer<M, S, P, O, Cs...>(std::move(options), std::move(strategy), std::move(precision),
                                    std::move(optimization), std::move(callbacks)...);
}

namespace judge {
/// The arguments after the model's type are options and at least three policies.
template <class... Args>
inline constexpr bool in_order = false;
template <class Options, class S, class P, class O, class... Cs>
inline constexpr bool in_order<Options, S, P, O, Cs...> = std::is_convertible_v<Options, TrainerOptions>;
}  // namespace judge

template <class M, class... Args>
requires(!judge::in_order<Args...>) TrainerBody<false, M, int, int, int> make_trainer(Args&&...) {
  refusal::About<HookId::none>::say<Verdict{judge::in_order<Args...> ? Fault::none : Fault::arguments}, M>();
  return {};
}

}  // namespace fulgurite
