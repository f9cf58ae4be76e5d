#pragma once
// What a trainer that the compiler has found sound does: each call is judged, then handed to the loops.

#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/diagnose/hollow_trainer.hpp>
#include <fulgurite/diagnose/judged_calls.hpp>
#include <fulgurite/diagnose/other_calls.hpp>
#include <fulgurite/loop/between_runs.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/given_data.hpp>
#include <fulgurite/loop/last_data.hpp>
#include <fulgurite/loop/run_evaluation.hpp>
#include <fulgurite/loop/run_prediction.hpp>

namespace fulgurite {

template <class M, class S, class P, class O, class... Cs>
class TrainerBody<true, M, S, P, O, Cs...> : public loop::BetweenRuns<fulgurite::Run<M, S, P, O>, Cs...>,
                                             public judge::OtherCalls<M> {
  using Owned = loop::BetweenRuns<fulgurite::Run<M, S, P, O>, Cs...>;
  using Other = judge::OtherCalls<M>;
  using Owned::none_;
  using Owned::pack_;
  using Owned::state_;

 public:
  using Run = fulgurite::Run<M, S, P, O>;
  using Results = std::vector<std::vector<MetricValue>>;  ///< for each loader

 private:
  template <class Data, bool Evaluation = false>
  using SourceOf = loop::SourceOf<Data, Evaluation>;
  using Calls = judge::Calls<Run, Cs...>;
  template <class Model, class Source, bool Waived, bool Mixed, class... Data>
  using Fit = typename Calls::template Fit<Model, Source, Waived, Mixed, Data...>;
  template <class Model, class Kind, class Data>
  using Evaluation = typename Calls::template Evaluation<Model, Kind, Data>;

 public:
  using Other::fit;
  using Other::predict;
  using Other::test;
  using Other::validate;

  TrainerBody(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks)
      : Owned(std::move(options), std::move(strategy), std::move(precision), std::move(optimization),
              Pack<Cs...>{Slots<Cs...>(std::move(callbacks)...)}) {}
  /// Of make_trainer: so many of the last callbacks were not named.
  TrainerBody(loop::AddedCallbacks added, TrainerOptions options, S strategy, P precision, O optimization,
              Cs... callbacks)
      : TrainerBody(std::move(options), std::move(strategy), std::move(precision), std::move(optimization),
                    std::move(callbacks)...) {
    state_.asked.added = added.count;
  }

  /// Trains on a data module, which may bring validation loaders; or on a loader, without validation. Each of these
  /// takes as its last argument where the run goes on from: `trainer.fit(net, data, CkptPath{"last"})`.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Fit<Model, SourceOf<Data>, false, false, Data>>::type>
    requires(!loop::names_file<Data>)
  void fit(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) remember<Data>(data), fit_from(model, loop::source_of(data, none_), from);
  }
  /// Trains on a loader, validates on one (or a std::tuple of them). NoValidation{} says that there is none on purpose.
  template <class Model, class Data, class Val,
            class Source = loop::SourceOfTwo<std::remove_reference_t<Data>, std::remove_reference_t<Val>>,
            loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<
                Fit<Model, Source, loop::is_waiver<Val>, loop::is_mixed<Data, Val, Source>, Data, Val>>::type>
    requires(!loop::names_file<Val>)
  void fit(Model&& model, Data&& data, Val&& val, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) {
      remember<Data>(data);
      if constexpr (LoaderLike<std::remove_reference_t<Data>>) fit_from(model, Source{data, val}, from);
      else fit_from(model, Source(data), from);
    }
  }
  /// The model has the loaders itself.
  template <class Model, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Fit<Model, SourceOf<Model>, false, false>>::type>
  void fit(Model&& model, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) last_.forget(), fit_from(model, SourceOf<Model>(model), from);
  }

  /// The same without validation.
  template <class Model, class Source = loop::ModuleLoaders<std::remove_reference_t<Model>, false>,
            loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Fit<Model, Source, true, false>>::type>
  void fit(Model&& model, NoValidation, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) last_.forget(), fit_from(model, Source(model), from);
  }

  /// One pass of validation_step, gradients off; the values of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Validation, Data>>::type>
  Results validate(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok)
      return evaluate_from<loop::Validation>(model, loop::source_of<true>(data, none_), Stage::validate,
                                             state_.asked.options.limit_val_batches, from);
    else return {};
  }
  /// One pass of test_step, gradients off; the values of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Testing, Data>>::type>
  Results test(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok)
      return evaluate_from<loop::Testing>(model, loop::source_of<true>(data, none_), Stage::test,
                                          state_.asked.options.limit_test_batches, from);
    else return {};
  }
  /// The same on the model's own loaders, else on the data module of the last fit. The trainer borrows that one, so the
  /// variable that was given to fit has to live until then. Error [fulgurite.trainer.no_data] where the last fit had
  /// loaders, or a module that was no variable.
  Results validate(M& model) {
    if constexpr (SourceOf<M, true>::template evaluates<hook::val_dataloader>) return validate(model, model);
    else return last_.template evaluate<loop::Validation>(*this, model);
  }
  Results test(M& model) {
    if constexpr (SourceOf<M, true>::template evaluates<hook::test_dataloader>) return test(model, model);
    else return last_.template evaluate<loop::Testing>(*this, model);
  }
  /// What predict_step returned for each batch, for each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Prediction, Data>>::type>
  auto predict(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return predict_from(model, loop::source_of<true>(data, none_), true, from);
    else return std::vector<std::vector<refusal::Nothing>>{};
  }
  /// The same on the model's own loader. That of the last fit's data module has to be passed: its batches decide the
  /// type of what is predicted.
  template <class Model>
    requires(judge::is_model<M, Model&> && SourceOf<M, true>::template evaluates<hook::predict_dataloader>)
  auto predict(Model& model) {
    return predict(model, model);
  }
  /// The same for callbacks that take predictions as they come: nothing is collected.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluation<Model, loop::Prediction, Data>>::type>
  void predict(Model&& model, Data&& data, DiscardPredictions, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) predict_from(model, loop::source_of<true>(data, none_), false, from);
  }

 private:
  template <class Source, class From>
  void fit_from(M& model, Source source, From const& from) {
    loop::check_end(state_.asked.options);
    state_.parts.model = state_.parts.fitted = &model;
    if constexpr (judge::of_this_run<Run, From>()) loop::fit(state_, pack_, source, from);
  }

  template <class Kind, class Data>
  static constexpr bool can_evaluate = judge::VerdictOnCall<Evaluation<M&, Kind, Data&>>::type::ok;
  template <class Data, class D>
  void remember(D& data) {
    last_.forget();
    if constexpr (std::is_lvalue_reference_v<Data> && !LoaderLike<D>)
      last_.template remember<can_evaluate<loop::Validation, D>, can_evaluate<loop::Testing, D>>(data);
  }

  template <class Kind, class Source, class From>
  Results evaluate_from(M& model, Source source, Stage stage, Limit const& limit, From const& from) {
    state_.parts.model = &model;
    if constexpr (judge::of_this_run<Run, From>())
      return loop::run_evaluation<Kind>(state_, pack_, source, stage, limit, from);
    else return {};
  }

  template <class Source, class From>
  auto predict_from(M& model, Source source, bool keep, From const& from) {
    state_.parts.model = &model;
    return loop::run_prediction<judge::PredictedBy<Run, Source>>(state_, pack_, source, keep, from);
  }

  loop::LastData<TrainerBody, M> last_{};
};

}  // namespace fulgurite
