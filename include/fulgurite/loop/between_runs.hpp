#pragma once
// What a trainer does besides fit: validate and test; and between its runs new options, files and snapshots of
// everything that it owns, searches, access to its callbacks.

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/option_rules.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/resumption.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/safe_points.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// Makes trial runs of an evaluation. The trainer's callbacks are not notified, except that they may end the program.
template <class Kind, class R, class Source>
class EvaluationRehearsal final : public Rehearser<R> {
 public:
  EvaluationRehearsal(State<R>& run, Source& source)
      : Rehearser<R>(run, {}), users_(run.callbacks), source_(source), sizes_(run, source) {}

  /// Each step of the plan is a batch of a loader; steps are numbered through all loaders.
  void rehearse(RehearsalPlan const& plan) override {
    check_steps(plan);
    auto own = source_.fresh();
    SharedOut<R, Source, typename Kind::Loader> const shared_out(run_, own);
    KeptRun<R, Source, false> kept(run_, own);
    restore_after(
        [&] {
          auto& options = run_.asked.options;
          if (plan.options) plan.options(options);
          options.*Kind::limit_of = Batches{plan.steps};
          run_.asked.window_length = 1;
          begin_trying_out(run_);
          auto const loaders = evaluation_loaders<typename Kind::Loader>(run_, own);
          std::apply([&](auto&... loader) { (kept.keep_loader(loader), ...); }, loaders);
          auto& first = std::get<0>(loaders);
          if (plan.on_loader) plan.on_loader(facts_of(first, size_of(first)));
          evaluate_on(plan, own, loaders);
        },
        [&] { kept.restore(); });
    end_alone_if_asked(run_, users_);
  }
  BatchSizes& batch_sizes() override { return sizes_; }

 private:
  using Rehearser<R>::rates_;
  using Rehearser<R>::run_;

  template <class Loaders>
  void evaluate_on(RehearsalPlan const& plan, Source& own, Loaders const& loaders) {
    Pack<Conductor<R>> pack{Slots<Conductor<R>>(Conductor<R>(run_, plan, rates_, users_))};
    auto const alone = callbacks_of(pack);
    Instead const others(run_.callbacks, std::vector<AnyCallback>(alone.begin(), alone.end()));
    if constexpr (std::is_same_v<Kind, Prediction>)
      predict<judge::PredictedBy<R, Source>>(run_, pack, own, loaders, false);
    else evaluate<Kind>(run_, pack, own, loaders);
  }

  std::vector<AnyCallback> users_;
  Source& source_;
  BatchSizes sizes_;
};

/// Runs the searches of an evaluation, after all listeners of setup were notified and before any loader is requested.
/// If nothing is evaluated, they are dropped.
template <class Kind, class R, class Source>
void answer_searches(State<R>& run, Source& source) {
  auto& searching = run.searching;
  bool const drops = (run.asked.options.*Kind::limit_of).none() && !searching.alone;
  EvaluationRehearsal<Kind, R, Source> rehearsal(run, source);
  for (auto* const due : {&searching.settings, &searching.due})
    for (auto const& search : std::exchange(*due, {}))
      if (!drops) search(rehearsal);
  searching.sizes_changed = false;
}

/// What surrounds the pass of an evaluation. Returns the results of `pass()`, which is not called if its limit is 0.
template <class Kind, class R, class Pack, class Source, class From, class Pass>
auto around_evaluation(State<R>& run, Pack& pack, Source& source, From const& from, Pass&& pass) {
  set_callbacks(run, pack);
  check_special(run);
  Instead const evaluates(run.loading.evaluates, true);
  SharedOut<R, Source, typename Kind::Loader> shared_out(run, source);
  run.facts = {};
  run.facts.stage = Kind::stage;
  if constexpr (!std::is_same_v<Kind, Prediction>) run.values.forget();
  RunContext<R, typename Kind::Phase> ctx(run);
  constexpr bool searches = any_searches<Pack>;
  forget_searches(run);
  Instead const answers(run.searching.answers, searches);
  auto const& options = run.asked.options;
  [[maybe_unused]] auto const algorithms = R::Backend::algorithms(options.deterministic, options.benchmark);
  auto results = rescued(run, pack, source, [&] {
    EvaluatedFile<R, Source, From> file(run, source, from);
    set_up(run, pack, source, ctx, [&] { file.find(); }, [&] { file.load(); });
    if constexpr (searches) answer_searches<Kind>(run, source);
    auto all = (options.*Kind::limit_of).none() ? decltype(pass())() : pass();
    run.parts.strategy.teardown(*run.parts.model);
    shared_out.give_back();
    notify_with_module<hook::teardown>(run, pack, source, ctx);
    deliver_posted(run, pack, run.progress.logged_steps);
    if constexpr (searches) warn_of_unanswered(run);
    finalize_loggers(run.callbacks, Status::success);
    return all;
  });
  end_if_asked(run.callbacks);
  return results;
}

/// Returns one list of values for each loader.
template <class Kind, class R, class Pack, class Source, class From>
std::vector<std::vector<MetricValue>> run_evaluation(State<R>& run, Pack& pack, Source& source, From const& from) {
  return around_evaluation<Kind>(run, pack, source, from, [&] {
    return evaluate<Kind>(run, pack, source, evaluation_loaders<typename Kind::Loader>(run, source));
  });
}

/// Returns one list of predictions for each loader; the lists are empty unless `keep`.
template <class R, class Pack, class Source, class From>
auto run_prediction(State<R>& run, Pack& pack, Source& source, bool keep, From const& from) {
  if constexpr (splits_model<R>)
    throw Error("fulgurite.pipeline.predict",
                "predict returns what predict_step makes, and under this strategy one process alone would have it: "
                "load the file into a program with SingleDevice{cpu}, and predict there");
  return around_evaluation<Prediction>(run, pack, source, from, [&] {
    return predict<judge::PredictedBy<R, Source>>(run, pack, source,
                                                  evaluation_loaders<hook::predict_dataloader>(run, source), keep);
  });
}

/// The data module of a trainer's last fit, for validate(model) and test(model): a reference, with functions that
/// evaluate on it, since the trainer's type does not contain the module's.
template <class Trainer, class M>
class LastData {
 public:
  using Results = std::vector<std::vector<MetricValue>>;

  /// `Validates`, `Tests`: the module has the loaders, and the model has the step that takes their batches.
  template <bool Validates, bool Tests, class Module>
  void remember(Module& module) {
    module_ = const_cast<void*>(static_cast<void const*>(std::addressof(module)));
    validate_ = test_ = nullptr;
    if constexpr (Validates)
      validate_ = [](Trainer& trainer, M& model, void* data) {
        return trainer.validate(model, *static_cast<Module*>(data));
      };
    if constexpr (Tests)
      test_ = [](Trainer& trainer, M& model, void* data) { return trainer.test(model, *static_cast<Module*>(data)); };
  }
  void forget() { *this = {}; }

  template <class Kind>
  Results evaluate(Trainer& trainer, M& model) const {
    constexpr bool tests = std::is_same_v<Kind, Testing>;
    auto const evaluate = tests ? test_ : validate_;
    if (evaluate) return evaluate(trainer, model, module_);
    std::string const verb = tests ? "test" : "validate";
    std::string why = verb;
    why += "(model) takes the data module of the last fit, and ";
    why += module_ ? "that one has no " + std::string(tests ? "test" : "val") + "_dataloader(), or the model no " +
                         (tests ? "test" : "validation") + "_step for it"
                   : std::string("there was no fit with one that is still a variable");
    throw Error("fulgurite.trainer.no_data", why + ": pass the data, trainer." + verb + "(model, data)");
  }

 private:
  using Evaluate = Results (*)(Trainer&, M&, void*);
  void* module_ = nullptr;
  Evaluate validate_ = nullptr, test_ = nullptr;
};

// A search between runs: a separate run that makes the search's trial runs, and of which only the search is notified.

/// The only callback of that run. A fit ends before training.
template <class R>
class SearchAlone {
 public:
  using Stateless = ByChoice;
  static constexpr bool searches = true;

  SearchAlone(RunSearch<R> const& search, bool heeds_signals) : search_(&search), heeds_signals_(heeds_signals) {}

  void setup(auto& ctx) { ctx.request_search(*search_); }
  Flow on_fit_start(auto&) { return Flow::stop; }
  void end_if_asked() {
    if (!heeds_signals_) return;
    if (int const signal = CaughtSignals::caught()) throw Interrupted(signal);
  }

 private:
  RunSearch<R> const* search_;
  bool heeds_signals_;
};

/// True if a callback ends the run when a signal asks for it.
FULGURITE_OF_ARGUMENTS(any_ends_if_asked, Pack, hook::end_if_asked::named<Ts> || ...);

/// Calls `in_run(own, pack)` with a run that has its own optimizers and a copy of the strategy, so that those of the
/// trainer's last fit stay unchanged. Model and data module are restored.
template <class R, class UserPack, class Source, class InRun>
void run_alone(State<R>& run, UserPack const&, typename R::Model& model, Source& source, RunSearch<R> const& search,
               InRun&& in_run) {
  refuse_open(run, "a search");
  Instead const is_open(run.loading.fit_is_open, true);
  State<R> own(Asked(run.asked), typename R::Optimization(run.optimization), typename R::Strategy(run.parts.strategy),
               typename R::Precision(run.parts.precision));
  own.progress = run.progress;
  own.parts.model = own.parts.fitted = &model;
  own.said = run.said;
  own.searching.alone = true;
  std::optional<CaughtSignals> caught;
  if constexpr (any_ends_if_asked<UserPack>) caught.emplace(std::vector{SIGINT, SIGTERM});
  Pack<SearchAlone<R>> pack{Slots<SearchAlone<R>>(SearchAlone<R>(search, caught.has_value()))};
  KeptRun<R, Source, false> kept(own, source);
  restore_after([&] { in_run(own, pack); },
                [&] {
                  run.said = std::move(own.said);
                  kept.restore();
                });
}

template <class R, class UserPack, class Source>
void search_alone(State<R>& run, UserPack const& users, typename R::Model& model, Source source,
                  RunSearch<R> const& search) {
  run_alone(run, users, model, source, search, [&](auto& own, auto& pack) {
    auto& options = own.asked.options;
    options.num_sanity_val_steps = 0;
    options.max_time.reset();
    options.min_epochs.reset();
    options.min_steps.reset();
    fit(own, pack, source);
  });
}

/// Searches over the batches of an evaluation. The options that the search gets have a limit of no batches, which it
/// sets for each trial.
template <class Kind, class R, class UserPack, class Source>
void search_evaluation(State<R>& run, UserPack const& users, typename R::Model& model, Source source,
                       RunSearch<R> const& search) {
  run_alone(run, users, model, source, search, [&](auto& own, auto& pack) {
    own.asked.options.*Kind::limit_of = Batches{0};
    if constexpr (std::is_same_v<Kind, Prediction>) run_prediction(own, pack, source, false, FromScratch{});
    else run_evaluation<Kind>(own, pack, source, FromScratch{});
  });
}

struct AddedCallbacks {
  std::size_t count = 0;
};

/// What a trainer owns between its calls: options, policies, callbacks `Cs`, counters. `R` is the key of its runs.
template <class R, class... Cs>
class BetweenRuns {
  using Calls = judge::Calls<R, Cs...>;

 public:
  /// The value of a metric in the last finished epoch or evaluation: `trainer.value(Net::val_loss)`.
  template <class Metric>
  std::optional<double> value(Metric const& metric) {
    Instead const outside(state_.facts.validating, false);
    return RunContext<R, phase::Validate>(state_).value(metric);
  }

  /// The counters of the run: epochs, batches and steps. They are kept from fit to fit, as in a file.
  Progress const& progress() const { return state_.progress; }
  /// The warnings of the trainer's runs, each once and with its identifier.
  std::vector<std::string> const& warnings() const { return state_.said.all(); }
  /// The results of the last run, such as the best file and its score. It names files that exist, no others: while
  /// another thread writes a file (`save_in_background`), these are the results before that file.
  Outcome outcome() const { return loop::written_outcome(state_).with_present_files(); }
  /// The options in effect: fast_dev_run, overfit_batches and barebones have replaced some.
  TrainerOptions const& options() const { return state_.asked.options; }
  /// The options as they were given.
  TrainerOptions const& given_options() const { return state_.asked.given; }
  /// Automatic or manual optimization, as given to make_trainer or set_optimization.
  typename R::Optimization const& optimization() const { return state_.optimization; }
  /// The device, or the strategy of several processes, that make_trainer was given.
  typename R::Strategy const& strategy() const { return state_.parts.strategy; }

  /// Writes a checkpoint of the whole run: `trainer.save_checkpoint("last.safetensors")`. Call it between fits; in
  /// hooks use ctx.request_checkpoint. Does not compile if a part of the trainer could not be saved.
  void save_checkpoint(std::filesystem::path const& path) {
    using Verdict = decltype(judge::remembered_in_files<R>());
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) loop::save_checkpoint(state_, path);
  }

  /// Implements snapshot(trainer).
  Snapshot<R> snapshot() { return take_snapshot(state_); }
  /// Implements restore(trainer, snapshot).
  template <class Other>
  void restore(Snapshot<Other> const& from) {
    if constexpr (judge::of_this_run<R, Snapshot<Other>>()) restore_snapshot(state_, from);
  }

  /// Implements tune::rehearse between fits: calls `what(rehearser)` after the optimizers are made.
  template <class Model, class Data, class Source = SourceOfTwo<std::remove_reference_t<Data>, NoModule>,
            class Verdict =
                typename judge::VerdictOnCall<typename Calls::template Fit<Model, Source, true, false, Data>>::type>
  void search(Model&& model, Data&& data, RunSearch<R> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (!Verdict::ok) return;
    else if constexpr (ReadItself<std::remove_reference_t<Data>>)
      search_alone(state_, pack_, model, Source{data, none_}, what);
    else search_alone(state_, pack_, model, Source(data), what);
  }

  /// Searches over batches of an evaluation. `Kind`: Validation, Testing or Prediction.
  template <class Kind, class Model, class Data,
            class Verdict = typename judge::VerdictOnCall<typename Calls::template Evaluation<Model, Kind, Data>>::type>
  void search_evaluation(Model&& model, Data&& data, RunSearch<R> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) loop::search_evaluation<Kind>(state_, pack_, model, source_of<true>(data, none_), what);
  }

  /// Sets new options for later runs. Everything else stays as it is, except that a requested stop, such as
  /// EarlyStopping's, ends where max_epochs, max_steps or max_time changes. Call it between runs. If the options are
  /// wrong, it throws and the old ones stay.
  ///
  ///     auto options = trainer.given_options();
  ///     options.max_epochs = 20;
  ///     trainer.set_options(options);
  ///     trainer.fit(net, data);  // trains the remaining epochs
  void set_options(TrainerOptions options) {
    refuse_open(state_, "set_options");
    check(options);
    auto in_effect = effective(options);
    // A requested stop lasts until a limit changes; a file or snapshot of this moment has the new limits.
    if (Limits(in_effect) != Limits(state_.asked.options)) state_.due.stop = state_.due.stop_before_cut = {};
    state_.asked.options = std::move(in_effect);
    state_.asked.given = std::move(options);
  }

  /// Sets accumulation, clipping or slices for later runs: `trainer.set_optimization({.clip = ClipNorm{1}})`.
  void set_optimization(typename R::Optimization optimization) {
    refuse_open(state_, "set_optimization");
    if constexpr (R::automatic) {
      check(optimization);
      // A file or snapshot of this moment holds the new length. One that a hook has set stays while this is the same.
      auto const batches = optimization.accumulate_grad_batches;
      if (batches != state_.optimization.accumulate_grad_batches) state_.asked.window_length = batches;
    }
    state_.optimization = std::move(optimization);
  }

  /// The trainer's callback of type T: `trainer.callback<Timer>().elapsed()`. Does not compile if there is none.
  template <class T>
  T& callback() {
    constexpr bool found = (std::is_same_v<T, Cs> || ...);
    static_assert(found, FULGURITE_SENTENCE_TRAINER_CALLBACK);
    if constexpr (found) return pack_.slots.template get<T>();
    else return refusal::nothing<T>();
  }
  /// The trainer's callback of a class template, if there is exactly one: `trainer.callback<ModelCheckpoint>()`.
  template <template <class...> class T>
  auto& callback() {
    using Found = refusal::Only<T, Cs...>;
    constexpr bool found = Found::found;
    static_assert(found, FULGURITE_SENTENCE_TRAINER_CALLBACK_OF_TEMPLATE);
    if constexpr (found) return pack_.slots.template get<typename Found::type>();
    else return refusal::nothing<typename Found::type>();
  }

 protected:
  /// The arguments are passed by reference, so that nothing is moved twice.
  BetweenRuns(AddedCallbacks added, TrainerOptions&& options, typename R::Strategy&& strategy,
              typename R::Precision&& precision, typename R::Optimization&& optimization, Cs&&... callbacks)
      : state_(Asked((check(options), std::move(options)), added.count, has_logger<Pack<Cs...>>),
               std::move(optimization), std::move(strategy), std::move(precision)),
        pack_{Slots<Cs...>(std::move(callbacks)...)} {
    if constexpr (R::automatic) check(state_.optimization);
  }

  State<R> state_;
  Pack<Cs...> pack_;
  NoModule none_{};
};

}  // namespace fulgurite::loop
