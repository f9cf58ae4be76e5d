#pragma once
// What a run decides: when validation runs inside an epoch (Lightning's rules, in their order), when training ends, and
// all that several ranks must decide together. With one process each of the functions for ranks returns its own
// argument, at no cost.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

// Decisions that several ranks must make together. The loops make them only through these functions.
//
// No decision within a step has its own collective: flags travel with the next gradients (exchange.hpp). At points that
// all ranks reach anyway (start and end of epochs, after validations) they are exchanged at once.

/// Requests a stop on this rank. With one process it is in effect at once; with several, after the next exchange.
void wish_stop(RunCore& run, bool by_time = false);
[[gnu::always_inline]] inline bool stop_wished(RunCore const& run) { return run.due.stop.holds || run.due.stop.waits; }

inline bool time_is_up(RunCore const& run) {
  auto const& most = run.asked.options.max_time;
  return most && run.training_seconds() >= most->count();
}
/// Puts a stop that some rank has requested into effect on all ranks. `by_time`: only its max_time is the reason.
void hear_stop(RunCore& run, bool by_time);

/// A collective: true if `says` is true on any rank. If the other ranks can no longer be reached, returns `says`.
template <class R>
[[gnu::always_inline]] inline bool any_rank(State<R>& run, bool says) {
  if constexpr (shares<R>)
    if (!run.shared.alone) return run.parts.strategy.agree(says);
  return says;
}

/// A collective: the mean of the ranks' values.
template <class R>
double mean_of_ranks([[maybe_unused]] State<R>& run, double mine) {
  if constexpr (shares<R>) return run.parts.strategy.reduce(mine, Reduce::mean);
  else return mine;
}

/// A collective: puts a stop that one rank has requested, and its reason, into effect on all ranks. Since clocks
/// differ, one rank's time may be up before another's.
template <class R>
[[gnu::always_inline]] inline void agree_on_stop(State<R>& run) {
  if constexpr (shares<R>) {
    int const mine = !std::exchange(run.due.stop.waits, false) ? 0 : run.due.stop.by_time ? 1 : 2;
    double const all = run.shared.alone ? mine : run.parts.strategy.reduce(double(mine), Reduce::max);
    if (all != 0) hear_stop(run, all < 2);
  }
}

/// A collective: returns rank 0's bytes on all ranks; with one process its own. For results that each rank might see
/// differently, such as the name of a file.
template <class R>
std::string of_first_rank(State<R>& run, std::string mine) {
  if constexpr (shares<R>)
    if (!run.shared.alone) return run.parts.strategy.broadcast(std::move(mine));
  return mine;
}

/// Waits until all ranks are here.
template <class R>
void meet(State<R>& run, [[maybe_unused]] std::string_view what) {
  if constexpr (shares<R>)
    if (!run.shared.alone) run.parts.strategy.barrier(what);
}

/// Runs work() on one process of each machine, while the others wait: for writes to a disk that they share.
template <class R, class Work>
void once_a_machine(State<R>& run, std::string_view what, Work&& work) {
  if constexpr (shares<R>) {
    if (run.parts.strategy.local_rank() == 0) work();
    meet(run, what);
  } else {
    work();
  }
}

/// True if this is rank zero: only this rank prints, logs and writes.
template <class R>
bool speaks_for_all(State<R> const& run) {
  return run.parts.strategy.rank() == 0;
}

/// The number of batches in an epoch, after limits (`taken`) and before (`size`); nullopt if it is not known.
/// `fewest_batches` gives all ranks the smallest number, since a rank with more batches would wait for the others at
/// its next step.
struct EpochBatches {
  std::optional<long> taken;
  std::optional<long> size;
};
template <class R>
EpochBatches fewest_batches(State<R>& run, EpochBatches mine) {
  if constexpr (shares<R>) {
    std::array<double, 3> numbers{static_cast<double>(mine.taken.value_or(0)),
                                  static_cast<double>(mine.taken.value_or(0)),
                                  static_cast<double>(mine.size.value_or(0))};
    constexpr std::array how{Reduce::min, Reduce::max, Reduce::min};
    run.parts.strategy.reduce_in_place(numbers, how);
    if (numbers[0] != numbers[1])
      run.warn("fulgurite.data.uneven",
               "the ranks have between " + std::to_string(static_cast<long>(numbers[0])) + " and " +
                   std::to_string(static_cast<long>(numbers[1])) +
                   " training batches an epoch: each epoch ends for all of them where the first one ends");
    if (mine.taken) mine.taken = static_cast<long>(numbers[0]);
    if (mine.size) mine.size = static_cast<long>(numbers[2]);
  }
  return mine;
}

/// True if the time of val_check_interval has passed since the last validation began.
inline bool validation_time_is_up(RunCore const& run) {
  return Seconds(run.asked.options.now() - *run.clock.last_validation) >= run.asked.options.val_check_interval.time;
}

/// True if a validation by time is due after the current batch. Rank 0's clock decides; its flag came with the last
/// step's gradients.
template <class R>
bool clock_says_validate(State<R>& run) {
  if constexpr (shares<R>) return std::exchange(run.shared.validates, false);
  else return validation_time_is_up(run);
}

inline double seconds_now(RunCore const& run) { return Seconds(run.asked.options.now().time_since_epoch()).count(); }
/// True if the deadline `moment` has passed. Called after each step. Rank 0's clock decides, and is read when the
/// step's gradients are exchanged: if no deadline had passed then, this needs no message.
template <class R>
bool has_come(State<R>& run, double moment) {
  if constexpr (shares<R>) {
    if (run.shared.rang) {
      bool const first = run.parts.strategy.rank() == 0;
      if (any_rank(run, first && seconds_now(run) >= moment)) return true;
    }
    run.shared.alarm = std::min(run.shared.alarm, moment);
    return false;
  } else {
    return seconds_now(run) >= moment;
  }
}
/// At the start of a batch: clears the flag that came with the previous step.
template <class R>
[[gnu::always_inline]] inline void forget_alarm(State<R>& run) {
  if constexpr (shares<R>) run.shared.rang = false;
}

/// True if the epoch ends for all ranks with the current batch.
template <class R>
[[gnu::always_inline]] inline bool epoch_ends(State<R> const& run) {
  if constexpr (shares<R>) return run.shared.epoch_ends;
  else return false;
}

/// Clears the flags of the previous epoch.
template <class R>
[[gnu::always_inline]] inline void begin_shared_epoch(State<R>& run) {
  if constexpr (shares<R>) {
    run.shared.epoch_ends = run.shared.skipped = run.shared.validates = false;
    run.shared.skips = run.shared.together = false;
  }
}

/// A collective: makes all ranks count the same number of batches, if validation depends on that number. Ranks that
/// left an epoch inside a window have taken different numbers of batches.
template <class R>
void count_batches_alike(State<R>& run) {
  if constexpr (shares<R>) {
    if (run.asked.options.check_val_every_n_epoch) return;
    auto const mine = static_cast<std::int64_t>(run.progress.total_batches);
    run.progress.total_batches = static_cast<long>(run.parts.strategy.reduce(mine, Reduce::max));
  }
}

/// Called when the run has failed. If only this rank has failed, it notifies the other ranks, so that they do not wait
/// for it, and calls no collective any more. An exception that all ranks throw at the same point needs no message.
template <class R>
void fails(State<R>& run, [[maybe_unused]] std::exception const& error) {
  if constexpr (shares<R>) {
    bool const heard = dynamic_cast<RankEnded const*>(&error) != nullptr;
    bool const ends_with_all = run.shared.ends_by != 0 && dynamic_cast<Interrupted const*>(&error) != nullptr;
    if (!heard && (run.shared.together || ends_with_all)) return;
    run.shared.alone = true;
    if constexpr (hook::of_strategy::abort::named<typename R::Strategy>)
      if (!heard) run.parts.strategy.abort(error.what());
  }
}

/// A collective: the signal by which all ranks end; 0: none. `mine`: the signal that this rank received.
template <class R>
int shared_signal(State<R>& run, int mine) {
  if constexpr (shares<R>)
    if (!run.shared.alone)
      return static_cast<int>(run.parts.strategy.reduce(static_cast<std::int64_t>(mine), Reduce::max));
  return mine;
}

// Metrics over several ranks: logged values are combined at the ends of epochs and evaluations.

/// The figures of several cells, sent in one collective.
class FiguresOnTheWay {
 public:
  /// `of_last`: the model is split, and the values that the last rank has logged count for all.
  explicit FiguresOnTheWay(bool of_last) : of_last_(of_last) {}

  void add(Figures& figures);
  bool empty() const { return all_.empty(); }
  std::span<double> values() { return values_; }
  std::span<Reduce const> how() const { return how_; }

  /// Replaces the figures by those of all ranks; `last` becomes the mean of the ranks' last values. With a split model
  /// throws [fulgurite.pipeline.metric] on all ranks if another rank has logged a metric that the last one has not:
  /// that value would be lost.
  void arrive();

 private:
  void add(double value, Reduce how);

  bool of_last_;
  std::vector<Figures*> all_;
  std::vector<double> values_;
  std::vector<Reduce> how_;
};

void share(RunCore& run, FiguresOnTheWay& figures);

/// Replaces the training epoch's figures by those of all ranks. `origin`: those logged in steps, or those logged in
/// hooks of the epoch. A collective, also for ranks that have logged nothing.
void share_epoch(RunCore& run, Origin origin);

/// Sums figures that a decision needs over all ranks. `news`: this rank has figures that were not shared yet. Returns
/// true if any rank has.
bool share_found(RunCore& run, Figures& mine, bool news);

/// Replaces the figures of an evaluation, for all of its loaders, by those of all ranks. Counted values already are the
/// same on each rank.
void share_evaluation(RunCore& run);

template <class Metrics>
inline constexpr bool any_sync_on_step = [] {
  bool any = false;
  for (auto const& metric : declared_metrics<Metrics>) any = any || metric.sync_on_step;
  return any;
}();

/// Replaces a step's values by those of all ranks before its row is logged, for metrics with sync_on_step.
void share_step_values(RunCore& run);
/// Copies what the last rank has logged in this epoch to all ranks, so that rank 0 can log it.
void share_last_rank(RunCore& run);
template <class R>
void share_step(State<R>& run) {
  if constexpr (splits_model<R>) {
    if constexpr (State<R>::metrics != 0) share_last_rank(run);
  } else if constexpr (shares<R> && any_sync_on_step<typename R::Metrics>) {
    share_step_values(run);
  }
}

// The value of a meter over all ranks.

/// True if there were too few samples for a value to be defined, such as samples of only one class.
bool is_too_few(Error const& error);

/// The value of a meter over all ranks; nullopt if no rank has updated it. A collective.
template <class R, class Meter>
auto counted_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  if constexpr (shares<R>)
    if (!run.shared.alone) return meter.value(run.parts.strategy);
  if (meter.updates() == 0) return std::nullopt;
  return meter.compute();
}

// How many batches and optimizer steps a run will have, if that is known.

/// The number of batches of a loader; nullopt if it has no size.
template <class Loader>
std::optional<long> size_of(Loader& loader) {
  if constexpr (SizedLoader<Loader>) return static_cast<long>(loader.size());
  else return std::nullopt;
}

/// The number of batches after the limit. Throws [fulgurite.options.fraction_of_unsized] for a fraction of a loader
/// without a size, and [fulgurite.options.fraction_too_small] if it is less than one batch.
std::optional<long> limited(std::optional<long> size, Limit const& limit, std::string const& name);

/// The number of batches of a loader after the limit. For combined loaders a fraction applies to each of them.
template <class Loader>
std::optional<long> batches_of(Loader& loader, Limit const& limit, std::string const& name) {
  if constexpr (requires { loader.limit_each(1.0); }) {
    bool const part = limit.kind == Limit::Kind::fraction && !limit.none();
    loader.limit_each(part ? limit.part : 1.0);
    if (part) return size_of(loader);
  }
  return limited(size_of(loader), limit, name);
}

/// ceil(batches / window) * epochs, at most max_steps (Lightning's estimated_stepping_batches). If called in
/// configure_optimizers, it loads the training data early.
template <class State>
std::optional<long> estimated_steps(State const& state) {
  auto const& o = state.asked.options;
  std::optional<long> const most = o.max_steps && *o.max_steps >= 0 ? o.max_steps : std::nullopt;
  if (!o.max_epochs || *o.max_epochs < 0 || Recurrent<typename State::Key::Model>)
    return most;  // the number of slices is known only batch by batch
  auto batches = state.facts.train_batches;
  if (!batches && state.loading.count_training) batches = state.loading.count_training();
  if (!batches) return most;
  long const window = std::max(1, state.asked.window_length);
  long const steps = (*batches + window - 1) / window * std::max(*o.max_epochs, 1);
  return most ? std::min(*most, steps) : steps;
}

/// The shape of an epoch, fixed when its loader is known.
struct EpochPlan {
  std::optional<long> batches;   ///< number of batches after limits, if known
  std::optional<long> limit;     ///< maximum number of batches for a loader without a size
  std::optional<long> interval;  ///< validate every N batches; nullopt: only at the epoch's end, or by time

  std::optional<long> most() const { return batches ? batches : limit; }
};

/// Computes the plan from the number of batches before the limit (`size`) and after it (`taken`). Throws
/// [fulgurite.options.val_check_interval] for an interval that the epoch never reaches.
EpochPlan plan_epoch(TrainerOptions const& o, std::optional<long> size, std::optional<long> taken, bool has_validation);

/// Warns if an epoch has fewer steps than log_every_n_steps.
void warn_of_few_rows(RunCore& run, EpochPlan const& plan);

/// Warns if an accumulation window is longer than an epoch, since each window ends with its epoch.
void warn_of_long_window(RunCore& run, EpochPlan const& plan);

/// True if this epoch ends with, or contains, a validation.
bool validates_in(TrainerOptions const& o, int epoch);
/// Marks loaders that were requested before the epochs whose validation they are meant for: the first validation
/// requests them again.
inline constexpr int never_loaded = -1'000'000'000;

inline bool minima_met(RunCore const& run) {
  auto const& o = run.asked.options;
  int const epochs = o.min_epochs.value_or(o.min_steps ? 1 : 0);
  return run.progress.epoch >= epochs && run.progress.global_step >= o.min_steps.value_or(0);
}

inline bool steps_exhausted(RunCore const& run) {
  auto const& most = run.asked.options.max_steps;
  return most && *most >= 0 && run.progress.global_step >= *most;
}

inline bool epochs_exhausted(RunCore const& run) {
  auto const& most = run.asked.options.max_epochs;
  return most && *most >= 0 && run.progress.epoch >= *most;
}

template <class R>
void check_time(State<R>& run) {
  if (time_is_up(run) && !stop_wished(run)) wish_stop(run, true);
}

/// True if training ends now: a stop was requested and the minima are met.
inline bool stops(RunCore const& run) { return run.due.stop.holds && minima_met(run); }

inline bool done(RunCore const& run) { return steps_exhausted(run) || epochs_exhausted(run) || stops(run); }

/// True if a run that was left at `point` needs more batches of the open epoch from its loader.
bool asks_for_batches(RunCore const& run, SafePoint const& point);

/// Called after each batch of an epoch that validates. A loader without a size that ends below the interval validates
/// at its end. Force-inlined, since it runs for each batch.
template <class R>
[[gnu::always_inline]] inline bool validation_due(State<R>& run, EpochPlan const& plan, bool last) {
  auto const& o = run.asked.options;
  bool const beyond =
      plan.interval && o.check_val_every_n_epoch && *plan.interval > run.progress.batch;  // the loader was too short
  if (last && !plan.batches && (o.val_check_interval.epoch_end() || beyond)) return true;
  if (stops(run)) return true;
  if (o.val_check_interval.kind == ValidationInterval::Kind::time) return clock_says_validate(run);
  if (!plan.interval) return false;
  long const batches = o.check_val_every_n_epoch ? run.progress.batch : run.progress.total_batches;
  return batches % *plan.interval == 0;
}

// The reason for which a fit has ended, as text.

/// Empty if nothing has ended the fit.
std::string end_reason(RunCore const& run);

// Epochs that a limit or a stop ended before their data, in a run that resumes with other limits.

/// If a run was left at `point`, at or after the end of such an epoch, and training may continue: sets it back behind
/// the epoch's last batch, as if the epoch had not ended. An epoch without batches begins again. Returns true if the
/// run was set back.
bool reopen_epoch(RunCore& run, SafePoint& point);

/// Does the same for the whole loaded state, including the figures of the epoch.
template <class R>
bool reopen_epoch(State<R>& run) {
  if (!reopen_epoch(run, run.point)) return false;
  run.measured.train_board = std::exchange(run.measured.cut_short, {});
  run.due.heard = {};
  run.facts.batch_idx = std::max(0L, run.progress.batch - 1);
  return true;
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/decisions.ipp>
#endif
