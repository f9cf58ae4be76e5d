#pragma once
// validate and test: one evaluation, with setup and teardown around it.

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/found_checkpoints.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::loop {

/// The learning rates of an evaluation, which has none.
class NoRates final : public LearningRates {
 public:
  std::vector<double> now() const override { return {}; }
  std::vector<double> initial() const override { return {}; }
  void set(std::span<double const> rates) override;
  void begin_from(std::span<double const> rates) override;
};

/// The only callback of an evaluation in a trial run. It calls the plan's functions for each batch.
template <class R>
class EvaluationConductor {
 public:
  using Stateless = ByChoice;

  EvaluationConductor(State<R>& run, RehearsalPlan const& plan, LearningRates& rates, Callbacks users)
      : run_(&run), plan_(&plan), rates_(&rates), users_(users) {}

  void on_validation_batch_start(auto&) { before(); }
  void on_test_batch_start(auto&) { before(); }
  void on_predict_batch_start(auto&) { before(); }
  void on_validation_batch_end(auto&) { after(); }
  void on_test_batch_end(auto&) { after(); }
  void on_predict_batch_end(auto&) { after(); }

  /// True if one of the plan's functions has called stop().
  bool ends_pass() const { return ends_pass_; }

 private:
  void before() {
    step_.emplace(*rates_, number_++);
    step_->set_batch(run_->facts.batch_idx, run_->facts.batch_size, nullptr);
    if (plan_->before_step) plan_->before_step(*step_);
  }
  void after() {
    end_alone_if_asked(*run_, users_);
    if (!step_) return;  // the loader left this batch out
    if (plan_->after_step) plan_->after_step(*step_);
    ends_pass_ = step_->stops();
    step_.reset();
  }

  State<R>* run_;
  RehearsalPlan const* plan_;
  LearningRates* rates_;
  Callbacks users_;
  std::optional<RehearsedStep> step_ = std::nullopt;
  long number_ = 0;
  bool ends_pass_ = false;
};
template <class R>
inline constexpr bool tries_pass_out<Pack<EvaluationConductor<R>>> = true;

/// Makes trial runs of an evaluation. The trainer's callbacks are not notified, except that they may end the program.
/// `Predicted`: the result of predict_step, if the evaluation is predict.
template <class Kind, class Predicted, class R, class Source>
class EvaluationRehearsal final : public Rehearser<R> {
 public:
  EvaluationRehearsal(State<R>& run, Source& source)
      : run_(run), users_(run.callbacks), source_(source), sizes_(run, source) {}

  /// Each step of the plan is a batch of a loader; steps are numbered through all loaders.
  void rehearse(RehearsalPlan const& plan) override {
    check_steps(plan);
    auto own = source_.anew();
    KeptPlace<R> const place(run_);
    KeptModel<R, Source> kept(*run_.parts.model, own);
    std::vector<std::function<void()>> put_loaders_back;
    put_back_after(
        [&] {
          auto& options = run_.asked.options;
          if (plan.options) plan.options(options);
          options.limit_predict_batches = Batches{plan.steps};
          run_.asked.window_length = 1;
          begin_trying_out(run_);
          auto const loaders = evaluation_loaders<typename Kind::Loader>(run_, own);
          std::apply([&](auto&... loader) { (put_loaders_back.push_back(place_of(loader)), ...); }, loaders);
          auto& first = std::get<0>(loaders);
          if (plan.on_loader) plan.on_loader(facts_of(first, size_of(first)));
          evaluate_on(plan, own, loaders);
        },
        [&] {
          run_.searching.rehearsing = false;
          place.put_back(run_);
          kept.put_back();
          for (auto const& put_loader_back : put_loaders_back) put_loader_back();
        });
    end_alone_if_asked(run_, users_);
  }
  LearningRates& rates() override { return rates_; }
  RunContext<R, phase::Fit> context() override { return RunContext<R, phase::Fit>(run_); }
  BatchSizes& batch_sizes() override { return sizes_; }

 private:
  using Conductor = EvaluationConductor<R>;
  using RunFile = typename R::Backend::RunFile;

  /// Returns a function that sets a loader back to the start of its next pass, if the loader saves its position.
  template <class Loader>
  static std::function<void()> place_of(Loader& loader) {
    if constexpr (Stateful<Loader, typename RunFile::Saver>) {
      // A loader with resume_at saves the position of a pass that has begun, and cannot say that the previous pass has
      // ended.
      if constexpr (Jumps<Loader>) static_cast<void>(std::begin(loader));
      auto place = std::make_shared<typename RunFile::Memory>();
      place->save([&](auto& archive) { archive.child("loader", loader); });
      return [place, &loader] { place->put_back([&](auto& archive) { archive.child("loader", loader); }); };
    } else {
      return [] {};
    }
  }

  template <class Loaders>
  void evaluate_on(RehearsalPlan const& plan, Source& own, Loaders const& loaders) {
    Pack<Conductor> pack{Slots<Conductor>(Conductor(run_, plan, rates_, users_))};
    OtherCallbacks const others(run_, pack);
    if constexpr (std::is_same_v<Kind, Prediction>) predict<Predicted>(run_, pack, own, loaders, false);
    else evaluate<Kind>(run_, pack, own, loaders, Batches{plan.steps}, std::nullopt);
  }

  State<R>& run_;
  std::vector<AnyCallback> users_;
  Source& source_;
  NoRates rates_{};
  BatchSizesOf<R, Source> sizes_;
};

/// For its lifetime, an evaluation runs the searches of its callbacks.
template <class R>
class AnswersSearches {
 public:
  explicit AnswersSearches(State<R>& run) : run_(run) {
    forget_searches(run);
    run.searching.answers = true;
  }
  ~AnswersSearches() { forget_searches(run_); }
  AnswersSearches(AnswersSearches const&) = delete;
  AnswersSearches& operator=(AnswersSearches const&) = delete;

  /// Runs the searches, after all listeners of setup were notified and before any loader is requested. If nothing is
  /// evaluated, they are dropped.
  template <class Kind, class Predicted, class Source>
  void answer(Source& source, Limit const& limit) const {
    if (limit.none() && !run_.searching.alone) {
      run_.searching.settings.clear();
      run_.searching.due.clear();
      return;
    }
    EvaluationRehearsal<Kind, Predicted, R, Source> rehearsal(run_, source);
    for (auto* const due : {&run_.searching.settings, &run_.searching.due})
      for (auto const& search : std::exchange(*due, {})) search(rehearsal);
    run_.searching.sizes_changed = false;
  }
  void warn() const { warn_of_unanswered(run_); }

 private:
  State<R>& run_;
};
/// For a trainer whose callbacks request no searches.
struct NoSearches {
  template <class R>
  explicit NoSearches(State<R>&) {}
  template <class Kind, class Predicted, class Source>
  void answer(Source&, Limit const&) const {}
  void warn() const {}
};
template <class R, class Pack>
using SearchesOf = std::conditional_t<any_searches<Pack>, AnswersSearches<R>, NoSearches>;

/// Returns one list of values for each loader.
template <class Kind, class R, class Pack, class Source, class From>
std::vector<std::vector<MetricValue>> run_evaluation(State<R>& run, Pack& pack, Source& source, Stage stage,
                                                     Limit limit, From const& from) {
  set_callbacks(run, pack);
  check_special(run);
  run.facts = {};
  run.facts.stage = stage;
  run.values.forget();
  RunContext<R, typename Kind::Phase> ctx(run);
  SearchesOf<R, Pack> const searches(run);
  auto results = framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx, EvaluatedFile<R, Source, From>(run, source, from));
    searches.template answer<Kind, NoModule>(source, limit);
    auto values = limit.none()
                      ? std::vector<std::vector<MetricValue>>{}
                      : evaluate<Kind>(run, pack, source, evaluation_loaders<typename Kind::Loader>(run, source), limit,
                                       std::nullopt);
    run.parts.strategy.teardown(*run.parts.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    searches.warn();
    finalize_loggers(run.callbacks, Status::success);
    return values;
  });
  end_if_asked(run.callbacks);
  return results;
}

// predict: one pass, with setup and teardown around it.

/// Returns one list of predictions of type `T` for each loader; the lists are empty unless `keep`.
template <class T, class R, class Pack, class Source, class From>
std::vector<std::vector<T>> run_prediction(State<R>& run, Pack& pack, Source& source, bool keep, From const& from) {
  if constexpr (splits_model<R>)
    throw Error("fulgurite.pipeline.predict",
                "predict returns what predict_step makes, and under this strategy one process alone would have it: "
                "load the file into a program with SingleDevice{cpu}, and predict there");
  auto const limit = run.asked.options.limit_predict_batches;
  set_callbacks(run, pack);
  check_special(run);
  run.facts = {};
  run.facts.stage = Stage::predict;
  RunContext<R, phase::Predict> ctx(run);
  SearchesOf<R, Pack> const searches(run);
  auto all = framed(run, pack, source, [&] {
    set_up(run, pack, source, ctx, EvaluatedFile<R, Source, From>(run, source, from));
    searches.template answer<Prediction, T>(source, limit);
    std::vector<std::vector<T>> predictions;
    if (!limit.none())
      predictions = predict<T>(run, pack, source, evaluation_loaders<hook::predict_dataloader>(run, source), keep);
    run.parts.strategy.teardown(*run.parts.model);
    tell_all<hook::teardown>(run, pack, source, ctx);
    searches.warn();
    finalize_loggers(run.callbacks, Status::success);
    return predictions;
  });
  end_if_asked(run.callbacks);
  return all;
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run_evaluation.ipp>
#endif
