#pragma once
// Rollback: the last state of a run in which every replayed step was known to be right.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// A loader whose `begin()` can yield the batches of an epoch again: stored batches, or a loader that knows its
/// position in an epoch.
template <class Loader>
concept Repeats = StoredBatches<Loader> || requires(Loader& loader) {
  loader.set_epoch(long{});
  loader.resume_at(long{});
};

/// A rollback point, taken at the start of an accumulation window: a snapshot of weights, buffers, and the saved state
/// of the optimizer, the schedules, the callbacks and the model; also counters, logged values, random numbers.
template <class R>
class Retreat {
  using Backend = typename R::Backend;

 public:
  bool is_taken() const { return batch_.has_value(); }
  /// Drops the rollback point, such as after a validation, whose hooks must not be called twice.
  void drop() { batch_.reset(); }

  /// Sets whether the loader can yield the epoch again. If not, no state is kept.
  void set_repeats(bool repeats) { repeats_ = repeats; }
  /// True if steps may be replayed, and a rollback is possible.
  bool is_wanted(State<R> const& run) const {
    return possible && repeats_ && run.parts.strategy.goes_back() && run.parts.strategy.may_replay();
  }
  /// The reason why the fit cannot roll back, for an Error.
  std::string why_not(State<R> const& run, bool same_model) const {
    if (!same_model) return "the model has other parameters, buffers or modules by now";
    if (!run.parts.strategy.goes_back()) return "CaptureOptions has go_back = false";
    if (!possible) return "an optimizer has no state(archive)";
    if (!repeats_) return "the loader cannot yield the epoch's batches again (set_epoch and resume_at)";
    return "a validation or a checkpoint came in between";
  }

  /// Called at the start of each batch. Takes a new rollback point, unless the last one is still valid or no step can
  /// be replayed.
  void offer(State<R>& run, long batch) {
    if constexpr (possible) {
      if (batch != run.progress.window_start || run.parts.strategy.unchecked() != 0 || !is_wanted(run)) return;
      if (batch_ && replays_ == run.parts.strategy.replays()) return;
      take(run, batch);
    }
  }

  /// Restores everything to the start of a batch, and returns that batch's number.
  long put_back(State<R>& run) {
    if constexpr (possible) {
      kept_->put_back(*run.parts.model, [&](auto& archive) { fold(run, archive); });
      run.facts = facts_;
      run.progress = progress_;
      run.asked.window_length = window_;
      run.due.stop = stop_;
      run.due.statistics_pass = statistics_requested_;
      run.measured.train_board = board_;
      run.values.results = results_;
      run.carried.loss = last_loss_;
      run.carried.slices = slices_;
      run.carried.hidden = hidden_;
      run.watch.finite.look = look_;
      run.due.requests = requests_;
      run.due.posted = posted_;
      run.due.heard = {};
      run.made.outcome = outcome_;
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
  using Value = typename R::Value;
  /// False if an optimizer has no `state(archive)`: then no rollback is possible.
  static constexpr bool possible = optimizers_remember<R, typename Backend::RunFile::Saver>;

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
    kept_.reset();  // frees its memory for the next one
    kept_.emplace(*run.parts.model, [&](auto& archive) { fold(run, archive); });
    facts_ = run.facts;
    progress_ = run.progress;
    window_ = run.asked.window_length;
    stop_ = run.due.stop;
    statistics_requested_ = run.due.statistics_pass;
    board_ = run.measured.train_board;
    results_ = run.values.results;
    last_loss_ = run.carried.loss;
    slices_ = run.carried.slices;
    hidden_ = run.carried.hidden;
    look_ = run.watch.finite.look;
    requests_ = run.due.requests;
    posted_ = run.due.posted;
    outcome_ = run.made.outcome;
    random_ = Backend::rng_state();
    batch_ = batch;
  }

  std::optional<long> batch_;
  bool repeats_ = false;
  long replays_ = 0, from_ = 0;
  std::optional<Snapshot<R>> kept_;
  Facts facts_;
  Progress progress_;
  int window_ = 1;
  StopRequest stop_{};
  bool statistics_requested_ = false;
  typename State<R>::Board board_;
  AllFigures results_{};
  Value last_loss_{};
  long slices_ = 0;
  decltype(Carried<R>::hidden) hidden_{};
  Look look_ = Look::off;
  std::vector<CheckpointRequest> requests_;
  std::vector<std::pair<std::string, double>> posted_;
  Outcome outcome_;
  std::optional<decltype(Backend::rng_state())> random_;
};
/// Stands for Retreat if no step is replayed.
struct NoRetreat {};

}  // namespace fulgurite::loop
