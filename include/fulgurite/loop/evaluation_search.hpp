#pragma once
// A search over the batches of an evaluation, between fits: they are tried out, and everything is put back.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/loop/batch_sizes.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run_evaluation.hpp>
#include <fulgurite/loop/run_prediction.hpp>
#include <fulgurite/loop/search_alone.hpp>

namespace fulgurite::loop {

/// An evaluation moves no rates.
class NoRates final : public LearningRates {
 public:
  std::vector<double> now() const override { return {}; }
  std::vector<double> initial() const override { return {}; }
  void set(std::span<double const>) override {}
  void begin_from(std::span<double const>) override {}
};

/// The one callback of an evaluation that is tried out: it calls the functions of the plan at each batch.
template <class R>
class EvaluationConductor {
 public:
  using Stateless = ByChoice;

  EvaluationConductor(State<R>& run, RehearsalPlan const& plan, LearningRates& rates,
                      std::function<void()> end_if_asked)
      : run_(&run), plan_(&plan), rates_(&rates), end_if_asked_(std::move(end_if_asked)) {}

  void on_validation_batch_start(auto&) { before(); }
  void on_test_batch_start(auto&) { before(); }
  void on_predict_batch_start(auto&) { before(); }
  void on_validation_batch_end(auto&) { after(); }
  void on_test_batch_end(auto&) { after(); }
  void on_predict_batch_end(auto&) { after(); }

 private:
  void before() {
    auto step = here();
    if (plan_->before_step) plan_->before_step(step);
  }
  void after() {
    end_if_asked_();
    auto step = here();
    if (plan_->after_step) plan_->after_step(step);
  }
  RehearsedStep here() {
    RehearsedStep step(*rates_, run_->facts.batch_idx);
    step.set_batch(run_->facts.batch_size, nullptr);
    return step;
  }

  State<R>* run_;
  RehearsalPlan const* plan_;
  LearningRates* rates_;
  std::function<void()> end_if_asked_;
};

/// `Predicted`: what predict_step returns, of a search over its batches.
template <class Kind, class Predicted, class R, class Source>
class EvaluationRehearsal final : public Rehearser<R> {
 public:
  EvaluationRehearsal(State<R>& run, Source& source, std::function<void()> end_if_asked)
      : run_(run), source_(source), end_if_asked_(std::move(end_if_asked)), sizes_(run, source) {}

  /// Each step of the plan is a batch.
  void rehearse(RehearsalPlan const& plan) override {
    auto own = source_.anew();
    KeptModel<R, Source> kept(*run_.parts.model, own);
    auto const asked = run_.asked;
    auto& options = run_.asked.options;
    if (plan.options) plan.options(options);
    options.limit_predict_batches = Batches{plan.steps};
    Conducted pack{Slots<EvaluationConductor<R>>(EvaluationConductor<R>(run_, plan, rates_, end_if_asked_))};
    run_.searching.rehearsing = true;
    std::function<void()> put_loader_back = [] {};
    auto const put_back = [&] {
      run_.searching.rehearsing = false;
      run_.asked = asked;
      run_.due = {};
      kept.put_back();
      put_loader_back();
    };
    try {
      auto const loaders = evaluation_loaders<typename Kind::Loader>(run_, own);
      auto& loader = std::get<0>(loaders);
      put_loader_back = place_of(loader);
      if (plan.on_loader) plan.on_loader(facts_of(loader, size_of(loader)));
      evaluate_on(plan, own, pack);
    } catch (...) {
      put_back();
      throw;
    }
    put_back();
  }
  LearningRates& rates() override { return rates_; }
  Context<R, phase::Fit> context() override { return Context<R, phase::Fit>(run_); }
  BatchSizes& batch_sizes() override { return sizes_; }

 private:
  using Conducted = Pack<EvaluationConductor<R>>;
  using RunFile = typename R::Backend::RunFile;

  /// What puts a loader back to where it is, if it keeps its place.
  template <class Loader>
  static std::function<void()> place_of(Loader& loader) {
    if constexpr (Stateful<Loader, typename RunFile::Saver>) {
      auto place = std::make_shared<typename RunFile::Memory>();
      place->save([&](auto& archive) { archive.child("loader", loader); });
      return [place, &loader] { place->put_back([&](auto& archive) { archive.child("loader", loader); }); };
    } else {
      return [] {};
    }
  }

  void evaluate_on(RehearsalPlan const& plan, Source& own, Conducted& pack) {
    if constexpr (std::is_same_v<Kind, Prediction>) run_prediction<Predicted>(run_, pack, own, false, Anew{});
    else {
      constexpr Stage stage = std::is_same_v<Kind, Testing> ? Stage::test : Stage::validate;
      run_evaluation<Kind>(run_, pack, own, stage, Batches{plan.steps}, Anew{});
    }
  }

  State<R>& run_;
  Source& source_;
  std::function<void()> end_if_asked_;
  NoRates rates_{};
  BatchSizesOf<R, Source> sizes_;
};

/// The run is one of its own, with a copy of the strategy; see search_alone.
template <class Kind, class Predicted, class R, class UserPack, class Source>
void search_evaluation(State<R>& run, UserPack const&, typename R::Model& model, Source source,
                       RunSearch<R> const& search) {
  refuse_open(run, "a search");
  State<R> own{.asked = run.asked, .parts = {.strategy = run.parts.strategy, .precision = run.parts.precision}};
  own.asked.window_length = 1;  // each batch is a step
  own.progress = run.progress;
  own.parts.model = own.parts.fitted = &model;
  own.said = run.said;
  own.searching.alone = true;
  std::optional<CaughtSignals> caught;
  if constexpr (any_ends_if_asked<UserPack>) caught.emplace(std::vector{SIGINT, SIGTERM});
  EvaluationRehearsal<Kind, Predicted, R, Source> rehearsal(own, source, [&] {
    if (!caught) return;
    if (int const signal = CaughtSignals::caught()) throw Interrupted(signal);
  });
  try {
    search(rehearsal);
  } catch (...) {
    run.said = std::move(own.said);
    throw;
  }
  run.said = std::move(own.said);
}

}  // namespace fulgurite::loop
