#pragma once
// What several ranks have to decide together. The loops ask here, and nowhere else; with one process each question is
// its own answer, and costs nothing.
//
// No question of a step is a collective of its own: what one rank wishes rides with the next gradients (exchange.hpp).
// Where all ranks meet anyway, at the beginnings and ends of epochs and after validations, they are asked at once.

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

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

/// This rank asks for the end of training. With one process that holds at once; with several, when all have heard it.
void wish_stop(RunCore& run, bool by_time = false);
[[gnu::always_inline]] inline bool stop_wished(RunCore const& run) { return run.due.stop.holds || run.due.stop.waits; }

inline bool time_is_up(RunCore const& run) {
  auto const& most = run.asked.options.max_time;
  return most && run.training_seconds() >= most->count();
}
/// Some rank has asked for a stop, and all ranks hear of it here. `by_time`: its max_time alone is why.
void hear_stop(RunCore& run, bool by_time);

/// Where all ranks meet: whether any of them says so. Where the others can no longer be asked, what this rank says.
template <class R>
[[gnu::always_inline]] inline bool any_rank(State<R>& run, bool says) {
  if constexpr (shares<R>)
    if (!run.shared.alone) return run.parts.strategy.agree(says);
  return says;
}

/// Where all ranks meet: the mean of what each of them has.
template <class R>
double mean_of_ranks([[maybe_unused]] State<R>& run, double mine) {
  if constexpr (shares<R>) return run.parts.strategy.reduce(mine, Reduce::mean);
  else return mine;
}

/// Where all ranks meet: a stop that one of them has wished for holds for all, and so does why. Clocks differ, so that
/// one rank's time may be up before another's.
template <class R>
[[gnu::always_inline]] inline void agree_on_stop(State<R>& run) {
  if constexpr (shares<R>) {
    int const mine = !std::exchange(run.due.stop.waits, false) ? 0 : run.due.stop.by_time ? 1 : 2;
    double const all = run.shared.alone ? mine : run.parts.strategy.reduce(double(mine), Reduce::max);
    if (all != 0) hear_stop(run, all < 2);
  }
}

/// Rank 0's answer, in bytes, for all; its own with one process. What is looked up outside of the program, such as the
/// name of a file, may be found differently by each.
template <class R>
std::string of_first_rank(State<R>& run, std::string mine) {
  if constexpr (shares<R>)
    if (!run.shared.alone) return run.parts.strategy.broadcast(std::move(mine));
  return mine;
}

/// All ranks wait here for each other.
template <class R>
void meet(State<R>& run, [[maybe_unused]] std::string_view what) {
  if constexpr (shares<R>)
    if (!run.shared.alone) run.parts.strategy.barrier(what);
}

/// work() on one process of each machine, while the others wait for it: what is written to a disk that they share.
template <class R, class Work>
void once_a_machine(State<R>& run, std::string_view what, Work&& work) {
  if constexpr (shares<R>) {
    if (run.parts.strategy.local_rank() == 0) work();
    meet(run, what);
  } else {
    work();
  }
}

/// Whether this rank alone prints, logs and writes.
template <class R>
bool speaks_for_all(State<R> const& run) {
  return run.parts.strategy.rank() == 0;
}

/// The batches of an epoch, after limits and before: the fewest of all ranks, since a rank that had more would wait for
/// the others at its next step. nullopt where no rank knows.
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

/// Whether val_check_interval, as a time, has gone by since the last validation began.
inline bool validation_time_is_up(RunCore const& run) {
  return Seconds(run.asked.options.now() - *run.clock.last_validation) >= run.asked.options.val_check_interval.time;
}

/// Whether a validation by time is due after the batch at hand. The clock is rank 0's, and was looked at with the
/// gradients of the last step.
template <class R>
bool clock_says_validate(State<R>& run) {
  if constexpr (shares<R>) return std::exchange(run.shared.validates, false);
  else return validation_time_is_up(run);
}

inline double seconds_now(RunCore const& run) { return Seconds(run.asked.options.now().time_since_epoch()).count(); }
/// Whether a moment has come, which is asked for after each step. The clock is rank 0's. It was looked at with the
/// step's gradients, and where no moment had come that somebody waits for, nobody is asked.
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
/// A batch is at hand: what came with the step before is over.
template <class R>
[[gnu::always_inline]] inline void forget_alarm(State<R>& run) {
  if constexpr (shares<R>) run.shared.rang = false;
}

/// A rank has heard that the epoch ends for all with the batch at hand.
template <class R>
[[gnu::always_inline]] inline bool epoch_ends(State<R> const& run) {
  if constexpr (shares<R>) return run.shared.epoch_ends;
  else return false;
}

/// An epoch begins: nothing is known of its end, and nothing of the one before is left to be told.
template <class R>
[[gnu::always_inline]] inline void begin_shared_epoch(State<R>& run) {
  if constexpr (shares<R>) {
    run.shared.epoch_ends = run.shared.skipped = run.shared.validates = false;
    run.shared.skips = run.shared.together = false;
  }
}

/// Where all ranks meet: batches are counted alike where validations are due by their count. Ranks that left an epoch
/// inside a window have taken different numbers of them.
template <class R>
void count_batches_alike(State<R>& run) {
  if constexpr (shares<R>) {
    if (run.asked.options.check_val_every_n_epoch) return;
    auto const mine = static_cast<std::int64_t>(run.progress.total_batches);
    run.progress.total_batches = static_cast<long>(run.parts.strategy.reduce(mine, Reduce::max));
  }
}

/// The run has failed. Where that is this rank's own fault, the others are told, so that none of them waits for it, and
/// nothing is asked of them any more; an exception that all of them throw at the same place is no news.
template <class R>
void fails(State<R>& run, [[maybe_unused]] std::exception const& error) {
  if constexpr (shares<R>) {
    bool const heard = dynamic_cast<RankEnded const*>(&error) != nullptr;
    bool const ends_with_all = run.shared.ends_by != 0 && dynamic_cast<Interrupted const*>(&error) != nullptr;
    if (!heard && (run.shared.together || ends_with_all)) return;
    run.shared.alone = true;
    if constexpr (requires { run.parts.strategy.abort(error.what()); })
      if (!heard) run.parts.strategy.abort(error.what());
  }
}

/// By which signal all ranks end, 0: by none. `mine`: what has come to this one. Where all of them meet.
template <class R>
int shared_signal(State<R>& run, int mine) {
  if constexpr (shares<R>)
    if (!run.shared.alone)
      return static_cast<int>(run.parts.strategy.reduce(static_cast<std::int64_t>(mine), Reduce::max));
  return mine;
}

// Metrics over several ranks: what each has logged becomes what all have logged, at the ends of epochs and evaluations.

/// The figures of several cells on their way through one collective.
class FiguresOnTheWay {
 public:
  /// `of_last`: the model is split, and what the last rank has logged is what all have.
  explicit FiguresOnTheWay(bool of_last) : of_last_(of_last) {}

  void add(Figures& figures);
  bool empty() const { return all_.empty(); }
  std::span<double> values() { return values_; }
  std::span<Reduce const> how() const { return how_; }

  /// What came back is what all ranks have logged; the last value is the mean of theirs. An Error on all ranks where
  /// the last one has not logged what another has: the model is split, and it would be lost.
  void arrive();

 private:
  void add(double value, Reduce how);

  bool of_last_;
  std::vector<Figures*> all_;
  std::vector<double> values_;
  std::vector<Reduce> how_;
};

void share(RunCore& run, FiguresOnTheWay& figures);

/// The training epoch's figures, of what was logged in steps, or in hooks of the epoch (`origin`), become those of all
/// ranks. Called by every rank, also where it has logged nothing.
void share_epoch(RunCore& run, Origin origin);

/// Sums the figures that a decision needs over all ranks. `news`: this rank has some that it has not shared yet.
/// Whether any rank has.
bool share_found(RunCore& run, Figures& mine, bool news);

/// The figures of an evaluation, of all its loaders, become those of all ranks. Values that were counted are that
/// already, on each rank.
void share_evaluation(RunCore& run);

template <class Metrics>
inline constexpr bool any_sync_on_step = [] {
  bool any = false;
  for (auto const& metric : declared_metrics<Metrics>) any = any || metric.sync_on_step;
  return any;
}();

/// A step's values of metrics that ask for it become those of all ranks, before their row.
void share_step_values(RunCore& run);
/// What the last rank has logged in this epoch is what everybody has, so that rank 0 can tell of it.
void share_last_rank(RunCore& run);
template <class R>
void share_step(State<R>& run) {
  if constexpr (splits_model<R>) {
    if constexpr (State<R>::metrics != 0) share_last_rank(run);
  } else if constexpr (shares<R> && any_sync_on_step<typename R::Metrics>) {
    share_step_values(run);
  }
}

// The value of what a meter has counted, over all ranks.

/// There were too few samples for a value to be defined, such as those of one class alone.
bool is_too_few(Error const& error);

/// What a meter has come to on all ranks, each of which asks; nothing where none of them has updated it.
template <class R, class Meter>
auto counted_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  if constexpr (shares<R>)
    if (!run.shared.alone) return meter.value(run.parts.strategy);
  if (meter.updates() == 0) return std::nullopt;
  return meter.compute();
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/shared_decisions.ipp>
#endif
