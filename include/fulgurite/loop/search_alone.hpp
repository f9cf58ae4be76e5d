#pragma once
// A search between runs: a run of its own, in which nothing but what is tried out happens, and nobody but the search
// hears of it.

#include <csignal>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/kept_model.hpp>
#include <fulgurite/loop/put_back.hpp>
#include <fulgurite/loop/run_evaluation.hpp>
#include <fulgurite/loop/run_prediction.hpp>
#include <fulgurite/loop/snapshot.hpp>

namespace fulgurite::loop {

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

/// A callback that ends a run where the system asks for its end.
template <class Pack>
inline constexpr bool any_ends_if_asked = false;
template <class... Cs>
inline constexpr bool any_ends_if_asked<Pack<Cs...>> = (hook::end_if_asked::named<Cs> || ...);

/// Calls `in_run(own, pack)` with a run that has its own optimizers, and a copy of the strategy: those of the trainer's
/// last fit stay as they are. Model and data module are put back.
template <class R, class UserPack, class Source, class InRun>
void run_alone(State<R>& run, UserPack const&, typename R::Model& model, Source& source, RunSearch<R> const& search,
               InRun&& in_run) {
  refuse_open(run, "a search");
  FitIsOpen const is_open(run.loading);
  State<R> own{.asked = run.asked, .parts = {.strategy = run.parts.strategy, .precision = run.parts.precision}};
  own.progress = run.progress;
  own.parts.model = own.parts.fitted = &model;
  own.said = run.said;
  own.searching.alone = true;
  std::optional<CaughtSignals> caught;
  if constexpr (any_ends_if_asked<UserPack>) caught.emplace(std::vector{SIGINT, SIGTERM});
  Pack<SearchAlone<R>> pack{Slots<SearchAlone<R>>(SearchAlone<R>(search, caught.has_value()))};
  KeptModel<R, Source> kept(model, source);
  put_back_after([&] { in_run(own, pack); },
                 [&] {
                   run.said = std::move(own.said);
                   kept.put_back();
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

/// The same over the batches of an evaluation. `Predicted`: what predict_step returns, of a search over its batches.
template <class Kind, class Predicted, class R, class UserPack, class Source>
void search_evaluation(State<R>& run, UserPack const& users, typename R::Model& model, Source source,
                       RunSearch<R> const& search) {
  run_alone(run, users, model, source, search, [&](auto& own, auto& pack) {
    if constexpr (std::is_same_v<Kind, Prediction>) {
      own.asked.options.limit_predict_batches = Batches{0};
      run_prediction<Predicted>(own, pack, source, false, Anew{});
    } else {
      constexpr Stage stage = std::is_same_v<Kind, Testing> ? Stage::test : Stage::validate;
      run_evaluation<Kind>(own, pack, source, stage, Batches{0}, Anew{});
    }
  });
}

}  // namespace fulgurite::loop
