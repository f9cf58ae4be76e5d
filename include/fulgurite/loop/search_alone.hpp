#pragma once
// A search between fits: a fit of its own, which ends before training, with nobody but the search to hear of it.

#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/snapshot.hpp>

namespace fulgurite::loop {

/// The only callback of that fit.
template <class R>
class SearchAlone {
 public:
  using Stateless = ByChoice;
  static constexpr bool searches = true;

  SearchAlone(RunSearch<R> const& search, bool heeds_signals) : search_(&search), heeds_signals_(heeds_signals) {}

  Flow on_fit_start(auto& ctx) {
    ctx.request_search(*search_);
    return Flow::stop;
  }
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

/// Model, data module and random numbers as they were, however the search ends.
template <class R, class Source>
class KeptModel {
  using Backend = typename R::Backend;

 public:
  KeptModel(typename R::Model& model, Source& source) : model_(model), source_(source) {
    weights_.keep(model);
    gradients_.keep(model);
    state_.save([&](auto& archive) { fold(archive); });
  }
  void put_back() {
    // Layers that configure_model has only just made were not there to be kept.
    if (weights_.difference(model_).empty()) {
      weights_.put_back(model_);
      gradients_.put_back(model_);
    }
    state_.put_back([&](auto& archive) { fold(archive); });
    random_.restore();
  }

 private:
  template <class Archive>
  void fold(Archive& archive) {
    fold_data_module<R>(source_, archive);
    if constexpr (Stateful<typename R::Model, Archive>) archive.child("model", model_);
  }

  typename R::Model& model_;
  Source& source_;
  KeptWeights<R> weights_{};
  KeptGradients<R> gradients_{};
  typename Backend::RunFile::Memory state_{};
  decltype(Backend::rng_state()) random_ = Backend::rng_state();
};

/// The run has its own optimizers, and a copy of the strategy: those of the trainer's last fit stay as they are.
template <class R, class UserPack, class Source>
void search_alone(State<R>& run, UserPack const&, typename R::Model& model, Source source, RunSearch<R> const& search) {
  refuse_open(run, "a search");
  FitIsOpen const is_open(run.loading);
  State<R> own{.asked = run.asked, .parts = {.strategy = run.parts.strategy, .precision = run.parts.precision}};
  auto& options = own.asked.options;
  options.num_sanity_val_steps = 0;
  options.max_time.reset();
  options.min_epochs.reset();
  options.min_steps.reset();
  own.progress = run.progress;
  own.parts.model = own.parts.fitted = &model;
  own.said = run.said;
  own.searching.alone = true;
  std::optional<CaughtSignals> caught;
  if constexpr (any_ends_if_asked<UserPack>) caught.emplace(std::vector{SIGINT, SIGTERM});
  Pack<SearchAlone<R>> pack{Slots<SearchAlone<R>>(SearchAlone<R>(search, caught.has_value()))};
  KeptModel<R, Source> kept(model, source);
  try {
    fit(own, pack, source);
  } catch (...) {
    kept.put_back();
    run.said = std::move(own.said);
    throw;
  }
  kept.put_back();
  run.said = std::move(own.said);
}

}  // namespace fulgurite::loop
