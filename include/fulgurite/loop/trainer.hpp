#pragma once
// Trainer: owns policies, callbacks and counters, borrows model and data. Assembled, and refused, by the compiler.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// In this order, so that each header with sentences is included from here: compilers print every #include between a
// sentence and the program.
#include <fulgurite/loop/not_here.hpp>

#include <fulgurite/loop/context_place.hpp>

#include <fulgurite/loop/context_values.hpp>

#include <fulgurite/loop/context_log.hpp>

#include <fulgurite/loop/context.hpp>

#include <fulgurite/loop/borrowed_optimizer.hpp>

#include <fulgurite/loop/manual.hpp>

#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/policy_rules.hpp>

#include <fulgurite/diagnose/model_rules.hpp>

#include <fulgurite/diagnose/callback_rules.hpp>

#include <fulgurite/diagnose/optimizer_rules.hpp>

#include <fulgurite/diagnose/state_rules.hpp>

#include <fulgurite/diagnose/trainer_rules.hpp>

#include <fulgurite/diagnose/data_rules.hpp>

#include <fulgurite/diagnose/call_rules.hpp>

#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/diagnose/hook_refusals.hpp>
#include <fulgurite/diagnose/misspelt_evaluation.hpp>
#include <fulgurite/diagnose/misspelt_events.hpp>
#include <fulgurite/diagnose/misspelt_functions.hpp>
#include <fulgurite/diagnose/near_miss_refusals.hpp>
#include <fulgurite/diagnose/option_rules.hpp>

#include <fulgurite/diagnose/checked_options.hpp>
#include <fulgurite/diagnose/hollow_trainer.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/last_data.hpp>
#include <fulgurite/loop/make_trainer.hpp>
#include <fulgurite/loop/run_evaluation.hpp>
#include <fulgurite/loop/run_prediction.hpp>
#include <fulgurite/loop/save_checkpoint.hpp>
#include <fulgurite/loop/search_alone.hpp>
#include <fulgurite/loop/snapshot.hpp>

namespace fulgurite {

template <class M, class S, class P, class O, class... Cs>
class TrainerBody<true, M, S, P, O, Cs...> {
 public:
  using Run = fulgurite::Run<M, S, P, O>;
  using Results = std::vector<std::vector<MetricValue>>;  ///< for each loader

 private:
  using Refused = std::vector<std::vector<refusal::Nothing>>;
  template <class T>
  static constexpr bool is_waiver = std::is_same_v<std::remove_cvref_t<T>, NoValidation>;

  /// A data module and a loader, where the data module has loaders of its own.
  template <class Data, class Val, class Source>
  static constexpr bool mixed = !LoaderLike<std::remove_reference_t<Data>> && !is_waiver<Val> && Source::trains;

  /// Where batches come from: one thing given, a loader (of an evaluation: or a tuple of them) or a data module.
  template <class Data, bool Evaluation = false, class D = std::remove_reference_t<Data>>
  using Alone = std::conditional_t<
      LoaderLike<D> || (Evaluation && loop::is_tuple<std::remove_const_t<D>>),
      std::conditional_t<Evaluation, loop::GivenLoaders<NoModule, D>, loop::GivenLoaders<D, NoModule>>,
      loop::ModuleLoaders<D, true>>;
  /// The same of two things given: loaders, or a data module and NoValidation.
  template <class D, class V>
  using Pair = std::conditional_t<LoaderLike<D>, loop::GivenLoaders<D, V>, loop::ModuleLoaders<D, false>>;

  // What is judged of each call: judge::VerdictOnCall<...>::type is the verdict.
  template <class Model, class Source, bool Waived, bool Mixed, class... Data>
  using Fitting = judge::Training<decltype(judge::passed<M, Mixed, Model, Data...>()), Run, Source, Waived, Cs...>;
  template <class Model, class Kind, class Data>
  using Evaluating =
      judge::Request<decltype(judge::passed<M, false, Model, Data>()), Run, Kind, Alone<Data, true>, Cs...>;

 public:
  TrainerBody(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks)
      : state_{.asked = {.options = loop::effective(loop::checked(options)),
                         .given = std::move(options),
                         .optimization = std::move(optimization),
                         .logs = loop::has_logger<Pack<Cs...>>},
               .parts = {.strategy = std::move(strategy), .precision = std::move(precision)}},
        pack_{Slots<Cs...>(std::move(callbacks)...)} {
    if constexpr (O::automatic) loop::check(state_.asked.optimization);
  }
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
            class Verdict = typename judge::VerdictOnCall<Fitting<Model, Alone<Data>, false, false, Data>>::type>
    requires(!loop::names_file<Data>)
  void fit(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) remember<Data>(data), fit_from(model, alone(data), from);
  }
  /// Trains on a loader, validates on one (or a std::tuple of them). NoValidation{} says that there is none on purpose.
  template <class Model, class Data, class Val,
            class Source = Pair<std::remove_reference_t<Data>, std::remove_reference_t<Val>>,
            loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<
                Fitting<Model, Source, is_waiver<Val>, mixed<Data, Val, Source>, Data, Val>>::type>
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
            class Verdict = typename judge::VerdictOnCall<Fitting<Model, Alone<Model>, false, false>>::type>
  void fit(Model&& model, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) last_.forget(), fit_from(model, Alone<Model>(model), from);
  }

  /// The same without validation.
  template <class Model, class Source = loop::ModuleLoaders<std::remove_reference_t<Model>, false>,
            loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Fitting<Model, Source, true, false>>::type>
  void fit(Model&& model, NoValidation, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) last_.forget(), fit_from(model, Source(model), from);
  }

  /// One pass of validation_step, gradients off; the values of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluating<Model, loop::Validation, Data>>::type>
  Results validate(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok)
      return evaluate_from<loop::Validation>(model, alone<true>(data), Stage::validate,
                                             state_.asked.options.limit_val_batches, from);
    else return {};
  }
  /// One pass of test_step, gradients off; the values of each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluating<Model, loop::Testing, Data>>::type>
  Results test(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok)
      return evaluate_from<loop::Testing>(model, alone<true>(data), Stage::test,
                                          state_.asked.options.limit_test_batches, from);
    else return {};
  }
  /// The same on the model's own loaders, else on the data module of the last fit. The trainer borrows that one, so the
  /// variable that was given to fit has to live until then. Error [fulgurite.trainer.no_data] where the last fit had
  /// loaders, or a module that was no variable.
  Results validate(M& model) {
    if constexpr (Alone<M, true>::template evaluates<hook::val_dataloader>) return validate(model, model);
    else return last_.template evaluate<loop::Validation>(*this, model);
  }
  Results test(M& model) {
    if constexpr (Alone<M, true>::template evaluates<hook::test_dataloader>) return test(model, model);
    else return last_.template evaluate<loop::Testing>(*this, model);
  }
  /// What predict_step returned for each batch, for each loader.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluating<Model, loop::Prediction, Data>>::type>
  auto predict(Model&& model, Data&& data, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) return predict_from(model, alone<true>(data), true, from);
    else return Refused{};
  }
  /// The same for callbacks that take predictions as they come: nothing is collected.
  template <class Model, class Data, loop::StartingPoint From = loop::Anew,
            class Verdict = typename judge::VerdictOnCall<Evaluating<Model, loop::Prediction, Data>>::type>
  void predict(Model&& model, Data&& data, DiscardPredictions, From from = {}) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) predict_from(model, alone<true>(data), false, from);
  }

  /// Calls with another number of arguments; each is refused in the same sentence.
  template <class... Args>
    requires(sizeof...(Args) == 0 || (sizeof...(Args) > 3 && !loop::names_file<Args...>))
  void fit(Args&&...) {
    static_cast<void>(judge::CallRules<Args...>::template judge<true>());
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !judge::is_model<M, Args...>)
  Results validate(Args&&...) {
    static_cast<void>(judge::CallRules<Args...>::template judge<true>());
    return {};
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !judge::is_model<M, Args...>)
  Results test(Args&&...) {
    static_cast<void>(judge::CallRules<Args...>::template judge<true>());
    return {};
  }
  /// predict(model) takes the model's own loader. That of the last fit's data module has to be passed: its batches
  /// decide the type of what is predicted.
  template <class... Args>
    requires(sizeof...(Args) != 2 && sizeof...(Args) != 3 && !loop::names_file<Args...>)
  auto predict(Args&&... args) {
    if constexpr (judge::is_model<M, Args...> && Alone<M, true>::template evaluates<hook::predict_dataloader>)
      return predict(args..., args...);
    else return static_cast<void>(judge::CallRules<Args...>::template judge<true>()), Refused{};
  }

  /// All of the run, now; between fits, or from a hook through ctx.request_checkpoint. Does not compile where a part of
  /// the trainer would be forgotten.
  void save_checkpoint(std::filesystem::path const& path) {
    using Verdict = decltype(judge::remembered_in_files<Run>());
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) loop::save_checkpoint(state_, pack_, none_, path);
  }

  /// What snapshot(trainer) does.
  Snapshot<Run> snapshot() { return loop::take_snapshot(state_, pack_, none_); }
  /// What restore(trainer, snapshot) does.
  template <class R>
  void restore(Snapshot<R> const& from) {
    if constexpr (of_this_run<Snapshot<R>>()) loop::restore_snapshot(state_, pack_, none_, from);
  }

  /// What tune::rehearse does between fits: `what(rehearser)` is called when the optimizers are made.
  template <class Model, class Data, class Source = Pair<std::remove_reference_t<Data>, NoModule>,
            class Verdict = typename judge::VerdictOnCall<Fitting<Model, Source, true, false, Data>>::type>
  void search(Model&& model, Data&& data, RunSearch<Run> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (!Verdict::ok) return;
    else if constexpr (LoaderLike<std::remove_reference_t<Data>>)
      loop::search_alone(state_, pack_, model, Source{data, none_}, what);
    else loop::search_alone(state_, pack_, model, Source(data), what);
  }

  /// The same for batches of an evaluation. `Kind`: loop::Validation, loop::Testing or loop::Prediction.
  template <class Kind, class Model, class Data,
            class Verdict = typename judge::VerdictOnCall<Evaluating<Model, Kind, Data>>::type>
  void search_evaluation(Model&& model, Data&& data, RunSearch<Run> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) {
      using Source = decltype(alone<true>(data));
      if constexpr (std::is_same_v<Kind, loop::Prediction>)
        loop::search_evaluation<Kind, PredictedBy<Source>>(state_, pack_, model, alone<true>(data), what);
      else loop::search_evaluation<Kind, NoModule>(state_, pack_, model, alone<true>(data), what);
    }
  }

  /// Other options for the runs to come, between runs; all else stays as it is. Wrong ones leave those before:
  ///   auto options = trainer.given_options();
  ///   options.max_epochs = 20;
  ///   trainer.set_options(options);
  ///   trainer.fit(net, data);  // the epochs that are missing
  void set_options(TrainerOptions options) {
    loop::refuse_open(state_, "set_options");
    loop::check(options);
    state_.asked.options = loop::effective(options);
    state_.asked.given = std::move(options);
  }

  /// The same for accumulation, clipping, slices: `trainer.set_optimization({.clip = ClipNorm{1}})`.
  void set_optimization(O optimization) {
    loop::refuse_open(state_, "set_optimization");
    if constexpr (O::automatic) loop::check(optimization);
    state_.asked.optimization = std::move(optimization);
  }

  template <class T>
  T& callback() {
    constexpr bool found = (std::is_same_v<T, Cs> || ...);
    static_assert(found, "[fulgurite.trainer.callback] this trainer has no callback of that type: name one of those "
                         "given to make_trainer");
    if constexpr (found) return pack_.slots.template get<T>();
    else return refusal::nothing<T>();
  }
  /// The same by its class template: `trainer.callback<ModelCheckpoint>()`, where there is one such.
  template <template <class...> class T>
  auto& callback() {
    using Found = refusal::Only<T, Cs...>;
    constexpr bool found = Found::found;
    static_assert(
        found, "[fulgurite.trainer.callback] this trainer has none, or several, of these callbacks: name the type of "
               "the one that is meant");
    if constexpr (found) return pack_.slots.template get<typename Found::type>();
    else return refusal::nothing<typename Found::type>();
  }

  /// A metric's value of the last finished epoch or evaluation.
  template <class Metric>
  std::optional<double> value(Metric const& metric) {
    state_.facts.validating = false;
    return Context<Run, phase::Validate>(state_).value(metric);
  }

  Progress const& progress() const { return state_.progress; }
  /// What was said once on stderr, each with its identifier.
  std::vector<std::string> const& warnings() const { return state_.said.all(); }
  Outcome const& outcome() const { return state_.made.outcome; }
  /// That the runs go by: fast_dev_run, overfit_batches and barebones have replaced some.
  TrainerOptions const& options() const { return state_.asked.options; }
  /// As they were given.
  TrainerOptions const& given_options() const { return state_.asked.given; }
  O const& optimization() const { return state_.asked.optimization; }
  S const& strategy() const { return state_.parts.strategy; }

 private:
  template <bool Evaluation = false, class D>
  auto alone(D& data) {
    using Source = Alone<D, Evaluation>;
    if constexpr (!Evaluation && LoaderLike<D>) return Source{data, none_};
    else if constexpr (LoaderLike<D> || (Evaluation && loop::is_tuple<std::remove_const_t<D>>))
      return Source{none_, data};
    else return Source(data);
  }

  template <class From>
  static consteval bool of_this_run() {
    constexpr bool fits = !loop::is_snapshot<From> || std::is_same_v<From, Snapshot<Run>>;
    static_assert(fits,
                  "[fulgurite.trainer.snapshot] the snapshot is of a trainer of another model, strategy, precision "
                  "or optimization: take one of this trainer, by snapshot(trainer)");
    return fits;
  }

  template <class Source, class From>
  void fit_from(M& model, Source source, From const& from) {
    loop::check_end(state_.asked.options);
    state_.parts.model = state_.parts.fitted = &model;
    if constexpr (of_this_run<From>()) loop::fit(state_, pack_, source, from);
  }

  template <class Kind, class Data>
  static constexpr bool can_evaluate = judge::VerdictOnCall<Evaluating<M&, Kind, Data&>>::type::ok;
  template <class Data, class D>
  void remember(D& data) {
    last_.forget();
    if constexpr (std::is_lvalue_reference_v<Data> && !LoaderLike<D>)
      last_.template remember<can_evaluate<loop::Validation, D>, can_evaluate<loop::Testing, D>>(data);
  }

  template <class Kind, class Source, class From>
  Results evaluate_from(M& model, Source source, Stage stage, Limit const& limit, From const& from) {
    state_.parts.model = &model;
    if constexpr (of_this_run<From>()) return loop::run_evaluation<Kind>(state_, pack_, source, stage, limit, from);
    else return {};
  }

  template <class Source>
  using PredictedBy = loop::Predicted<
      Run, judge::Batch<Run, Source, phase::Predict,
                        std::remove_reference_t<std::tuple_element_t<
                            0, decltype(std::declval<Source&>().template evaluation<hook::predict_dataloader>())>>>>;

  template <class Source, class From>
  auto predict_from(M& model, Source source, bool keep, From const& from) {
    state_.parts.model = &model;
    return loop::run_prediction<PredictedBy<Source>>(state_, pack_, source, keep, from);
  }

  loop::State<Run> state_;
  Pack<Cs...> pack_;
  NoModule none_{};
  loop::LastData<TrainerBody, M> last_{};
};

/// A trainer for one model type, of a strategy, a precision, an optimization and callbacks; see make_trainer.
template <class M, class S = refusal::Nothing, class P = refusal::Nothing, class O = refusal::Nothing, class... Cs>
class Trainer : public TrainerBody<judge::VerdictOn<M, S, P, O, Cs...>::ok, M, S, P, O, Cs...> {
  using Verdict = judge::VerdictOn<M, S, P, O, Cs...>;
  using Said = decltype(Verdict::Rules::template judge<true, typename Verdict::Whom>());

 public:
  using TrainerBody<Verdict::ok, M, S, P, O, Cs...>::TrainerBody;
};

}  // namespace fulgurite
