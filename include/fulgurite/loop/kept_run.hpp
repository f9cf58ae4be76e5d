#pragma once
// Copies everything of an open run that steps can change, between two epochs, and restores it: for trial runs, and to
// go back to the last state in which every replayed step was known to be right.

#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// What a trial run can change: weights, buffers, gradients and what is switched off; the saved state of model and data
/// module; options, counters, facts, waiting rows and requests, logged values, clocks; random numbers. `Trains`: steps
/// are made, so the saved state of strategy, precision, optimizers and schedules, too. Not included: callbacks, since a
/// trial run does not notify them; warnings; the flags of a failure, which stay true; a thread that writes files.
template <class R, class Source, bool Trains>
class KeptRun : Pinned {
  using Backend = typename R::Backend;

 public:
  KeptRun(State<R>& run, Source& source) : run_(run), source_(source), place_(run), typed_(run) {
    auto& model = *run.parts.model;
    weights_.keep(model);
    for (auto const& parameter : Backend::weights(model)) {
      auto const gradient = Backend::gradient(parameter);
      gradients_.push_back(gradient.defined() ? Backend::clone(gradient) : gradient);
    }
    each_optimizer([&](auto& optimizer) {
      if constexpr (requires { optimizer.received(); }) received_.push_back(optimizer.received());
    });
    parts_.save([&](auto& archive) { fold(archive); });
  }

  /// Keeps the position of a loader that the trial run reads.
  template <class Loader>
  void keep_loader(Loader& loader) {
    if constexpr (Stateful<Loader, StateSaver>) {
      // A loader with resume_at saves the position of a pass that has begun, and cannot say that the last one is over.
      if constexpr (!Trains && Jumps<Loader>) static_cast<void>(std::begin(loader));
      auto const fold = [&loader](auto& archive) { archive.child("loader", loader); };
      auto place = std::make_shared<StateMemory>();
      place->save(fold);
      restore_loaders_.push_back([place, fold] { place->restore(fold); });
    }
    if constexpr (Trains)
      restore_loaders_.push_back([this, &loader] {
        notify_epoch(loader, place_.progress.epoch);
        // If a pass was over when it was kept, the next pass would otherwise start at its last batch.
        if constexpr (Jumps<Loader>) loader.resume_at(0);
      });
  }

  void restore() {
    auto& model = *run_.parts.model;
    run_.searching.rehearsing = false;
    run_.asked = place_.asked;  // first: the trial's limits must not stay if something cannot be restored
    // Recorded trial steps are freed first: restoring may need their memory.
    if constexpr (Trains && R::Strategy::captures) {
      auto& strategy = run_.parts.strategy;
      if constexpr (requires { strategy.drop_recordings(model); }) strategy.drop_recordings(model);
      else strategy.setup(model, run_.parts.precision);
    }
    // Layers that configure_model has just made did not exist when the weights were kept.
    bool const is_same = Trains || weights_.difference(model).empty();
    if (is_same) weights_.restore(model);
    parts_.restore([&](auto& archive) { fold(archive); });
    each_optimizer([&](auto& optimizer) { optimizer.zero_grad(); });
    if (is_same)
      for (std::size_t at = 0; auto const& parameter : Backend::weights(model))
        if (at != gradients_.size()) Backend::set_gradient(parameter, gradients_[at++]);
    each_optimizer([&, i = std::size_t{0}](auto& optimizer) mutable {
      if constexpr (requires { optimizer.received(); }) optimizer.set_received(received_[i++]);
    });
    static_cast<RunPlace&>(run_) = place_;
    auto const shared = run_.shared;
    static_cast<TypedPlace<R>&>(run_) = typed_;
    if constexpr (shares<R>) run_.shared.together = shared.together, run_.shared.alone = shared.alone;
    random_.restore();
    for (auto const& restore_loader : restore_loaders_) restore_loader();
  }

 private:
  template <class Archive>
  void fold(Archive& archive) {
    fold_weights_state(run_, archive);
    fold_data_module<R>(source_, archive);
    if constexpr (Trains) {
      fold_policies(run_, archive);
      fold_optimizers(run_, archive);
    }
  }
  template <class F>
  void each_optimizer([[maybe_unused]] F&& f) {
    if constexpr (Trains) each_of(run_.parts.optimizers->optimizers, f);
  }

  State<R>& run_;
  Source& source_;
  RunPlace place_;
  TypedPlace<R> typed_;
  KeptWeights<R> weights_{};
  std::vector<typename R::Value> gradients_{};
  std::vector<std::vector<bool>> received_{};
  StateMemory parts_{};
  std::vector<std::function<void()>> restore_loaders_{};
  decltype(Backend::rng_state()) random_ = Backend::rng_state();
};

// Common parts of trial runs of training and of evaluations.

/// True if a callback of the pack requests searches.
FULGURITE_OF_ARGUMENTS(any_searches, Pack, judge::searches<Ts>() || ...);

// Rollback: the last state of a run in which every replayed step was known to be right.

/// A loader whose `begin()` can yield the batches of an epoch again: they are stored, or it knows its position.
template <class Loader>
concept Repeats = StoredBatches<Loader> || (TakesEpoch<Loader> && Jumps<Loader> && loader_remembers<Loader>);

/// What a rollback restores beside the saved state of the parts.
template <class R>
auto rolled_back(State<R>& run) {
  return std::tie(run.facts, run.progress, run.asked.window_length, run.due.stop, run.due.statistics_pass,
                  run.due.requests, run.due.posted, run.measured.train_board, run.values.results, run.carried.loss,
                  run.slices, run.carried.hidden, run.watch.finite.look, run.made.outcome);
}
template <class... Ts>
std::tuple<Ts...> copied(std::tuple<Ts&...> const& all) {
  return all;
}

/// A rollback point, taken at the start of an accumulation window: a snapshot of weights, buffers, and the saved state
/// of the optimizer, the schedules, the callbacks and the model; also counters, logged values, random numbers. It is
/// kept only if the loader can yield the epoch again (`CanRepeat`).
template <class R, bool CanRepeat>
class Retreat {
  using Backend = typename R::Backend;

 public:
  bool is_taken() const { return batch_.has_value(); }
  /// Drops the rollback point, such as after a validation, whose hooks must not be called twice.
  void drop() { batch_.reset(); }

  /// True if steps may be replayed, and a rollback is possible.
  bool is_wanted(State<R> const& run) const {
    return possible && CanRepeat && run.parts.strategy.goes_back() && run.parts.strategy.may_replay();
  }
  /// The reason why the fit cannot roll back, for an Error.
  std::string why_not(State<R> const& run, bool same_model) const {
    if (!same_model) return "the model has other parameters, buffers or modules by now";
    if (!run.parts.strategy.goes_back()) return "CaptureOptions has go_back = false";
    if (!possible) return "an optimizer has no state(archive)";
    if (!CanRepeat)
      return "the loader cannot yield the epoch's batches again (a const begin(), or set_epoch and resume_at)";
    return "a validation or a checkpoint came in between";
  }

  /// Called at the start of each batch. Takes a new rollback point, unless the last one is still valid or no step can
  /// be replayed. Loggers have received no row since a valid one, or they would receive it twice.
  void offer(State<R>& run, long batch) {
    if constexpr (possible) {
      if (batch != run.progress.window_start || run.parts.strategy.unchecked() != 0 || !is_wanted(run)) return;
      if (batch_ && replays_ == run.parts.strategy.replays() && rows_ == run.due.rows) return;
      take(run, batch);
    }
  }

  /// Restores everything to the start of a batch, and returns that batch's number.
  long restore(State<R>& run) {
    if constexpr (possible) {
      kept_->restore(*run.parts.model, [&](auto& archive) { fold(run, archive); });
      rolled_back(run) = rest_;
      run.watch.finite.noted = noted_;
      run.watch.finite.read_at = read_at_;
      run.due.notified = {};
      run.due.held_rows.clear();
    }
    return from_ = *batch_;
  }
  /// True if a loader that is read from its beginning has reached that batch. Restores the random state there.
  bool reached(long batch) {
    if (batch == from_ && random_) random_->restore();
    return batch >= from_;
  }

 private:
  /// False if an optimizer has no `state(archive)`: then no rollback is possible.
  static constexpr bool possible = optimizers_remember<R>;

  template <class Archive>
  static void fold(State<R>& run, Archive& archive) {
    fold_weights_state(run, archive);
    fold_parts(run, archive);
    fold_optimizers(run, archive);
  }

  void take(State<R>& run, long batch) {
    deliver_held(run);  // their steps were checked, and no rollback goes back before them
    drop();
    replays_ = run.parts.strategy.replays();
    rows_ = run.due.rows;
    kept_.reset();  // frees its memory for the next one
    kept_.emplace(*run.parts.model, [&](auto& archive) { fold(run, archive); });
    rest_ = rolled_back(run);
    noted_ = run.watch.finite.noted;
    if (!noted_.empty()) Backend::condense(noted_);  // a replay may add to a number among them
    read_at_ = run.watch.finite.read_at;
    random_ = Backend::rng_state();
    batch_ = batch;
  }

  std::optional<long> batch_;
  long replays_ = 0, rows_ = 0, from_ = 0;
  std::optional<Snapshot<R>> kept_;
  decltype(copied(rolled_back(std::declval<State<R>&>()))) rest_{};
  std::vector<typename R::Value> noted_{};
  long read_at_ = 0;
  std::optional<decltype(Backend::rng_state())> random_;
};

}  // namespace fulgurite::loop
