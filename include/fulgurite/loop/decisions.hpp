#pragma once
// What a run decides: when validation runs inside an epoch (Lightning's rules, in their order), when training ends, how
// long the next batch may take, and all that several ranks must decide together. With one process each of the functions
// for ranks returns its own argument, at no cost.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::loop {

// Decisions that several ranks must make together. The loops make them only through these functions.
//
// No decision within a step has its own collective: flags travel with the next gradients (`exchange`). At points that
// all ranks reach anyway (start and end of epochs, after validations) they are exchanged at once.

/// Requests a stop on this rank. With one process it is in effect at once; with several, after the next exchange.
void request_stop(RunCore& run, bool by_time = false);
[[gnu::always_inline]] inline bool stop_requested(RunCore const& run) {
  return run.due.stop.holds || run.due.stop.waits;
}

inline bool time_is_up(RunCore const& run) {
  auto const& most = run.asked.options.max_time;
  return most && run.training_seconds() >= most->count();
}
/// Puts a stop that some rank has requested into effect on all ranks. `by_time`: only its max_time is the reason.
void receive_stop(RunCore& run, bool by_time);

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

/// A collective: puts a stop that one rank has requested into effect on all ranks. One rank's time may be up first.
template <class R>
[[gnu::always_inline]] inline void agree_on_stop(State<R>& run) {
  if constexpr (shares<R>) {
    int const mine = !std::exchange(run.due.stop.waits, false) ? 0 : run.due.stop.by_time ? 1 : 2;
    double const all = run.shared.alone ? mine : run.parts.strategy.reduce(double(mine), Reduce::max);
    if (all != 0) receive_stop(run, all < 2);
  }
}

/// A collective: rank 0's bytes on all ranks. For what each rank might see differently, such as the name of a file.
template <class R>
std::string of_first_rank(State<R>& run, std::string mine) {
  if constexpr (shares<R>)
    if (!run.shared.alone) return run.parts.strategy.broadcast(std::move(mine));
  return mine;
}

/// Runs work() on one process of each machine, while the others wait: for writes to a disk that they share.
template <class R, class Work>
void once_a_machine([[maybe_unused]] State<R>& run, [[maybe_unused]] std::string_view what, Work&& work) {
  if constexpr (shares<R>) {
    if (run.parts.strategy.local_rank() == 0) work();
    if (!run.shared.alone) run.parts.strategy.barrier(what);
  } else {
    work();
  }
}

/// True if this is rank zero: only this rank prints, logs and writes.
template <class R>
bool speaks_for_all(State<R> const& run) {
  return run.parts.strategy.rank() == 0;
}

/// The number of batches in an epoch, after limits (`taken`) and before (`size`); nullopt if it is not known. All ranks
/// get the smallest number, since a rank with more batches would wait for the others at its next step.
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

/// True if the time of val_check_interval has passed since the last validation ended, or, before the first one, since
/// training began.
inline bool validation_time_is_up(RunCore const& run) {
  return Seconds(run.asked.options.now() - *run.clock.last_validation) >= run.asked.options.val_check_interval.time;
}

/// True if a validation by time is due. Rank 0's clock decides; its flag came with the last step's gradients.
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
    bool const notified = dynamic_cast<RankEnded const*>(&error) != nullptr;
    bool const ends_with_all = run.shared.ends_by != 0 && dynamic_cast<Interrupted const*>(&error) != nullptr;
    if (!notified && (run.shared.together || ends_with_all)) return;
    run.shared.alone = true;
    if constexpr (hook::of_strategy::abort::named<typename R::Strategy>)
      if (!notified) run.parts.strategy.abort(error.what());
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

// The windows of batches whose gradients make one step.

/// The position of a batch in its accumulation window.
struct WindowPlace {
  StepKey key;
  double rescale;  ///< factor for gradients of a window shorter than its divisor (loaders without a size), else 1
};

/// The window of batch `b`. Windows restart in each epoch; the last window may be shorter, and then averages over the
/// batches that it has. `seen`: the batches of the window before this one, without those that the loader left out.
/// `end`: the batch after the window, if the loader has that many.
inline WindowPlace window_of(long b, long start, long seen, long end, std::optional<long> batches, bool last) {
  long const divisor = (batches ? std::min(end, *batches) : end) - start;
  bool const closes = b + 1 == end || last;
  double const rescale =
      closes && seen + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(seen + 1) : 1.0;
  return {{seen == 0, closes, static_cast<int>(divisor)}, rescale};
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
std::optional<long> limited(std::optional<long> size, Limit const& limit, char const* name);

/// The number of batches of a loader after the limit. For combined loaders a fraction applies to each of them.
template <class Loader>
std::optional<long> batches_of(Loader& loader, Limit const& limit, char const* name) {
  if constexpr (requires { loader.limit_each(1.0); }) {
    bool const part = limit.kind == Limit::Kind::fraction && !limit.none();
    loader.limit_each(part ? limit.part : 1.0);
    if (part) return size_of(loader);
  }
  return limited(size_of(loader), limit, name);
}

/// The shape of an epoch, fixed when its loader is known.
struct EpochPlan {
  std::optional<long> batches;   ///< number of batches after limits, if known
  std::optional<long> limit;     ///< maximum number of batches for a loader without a size
  std::optional<long> interval;  ///< validate every N batches; nullopt: only at the epoch's end, or by time

  std::optional<long> most() const { return batches ? batches : limit; }
};

/// The plan of training when its loader has been prepared. Throws [fulgurite.data.empty] if that has no batch, and
/// [fulgurite.options.val_check_interval] for an interval that an epoch never reaches.
EpochPlan plan_training(RunCore& run, EpochBatches const& batches);

/// Warns if an accumulation window is longer than an epoch, since each window ends with its epoch.
void warn_of_long_window(RunCore& run, EpochPlan const& plan);
/// Warns of a schedule that ends after `steps` of many steps, if the fit has as many epochs: it probably counts these.
void warn_of_short_schedule(RunCore& run, std::string_view schedule, long steps);

/// Implements out_of_count of rehearsal.hpp for a loader with a state, which `save` and `load` fold.
void out_of_count(FunctionRef<void()> stand_between_epochs, FunctionRef<void(StateSaver&)> save,
                  FunctionRef<void(StateLoader&)> load, FunctionRef<void()> pass);

/// True if this epoch ends with, or contains, a validation.
bool validates_in(TrainerOptions const& o, int epoch);
/// Marks loaders that were requested before the epochs of their validation: the first validation requests them again.
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
  if (time_is_up(run) && !stop_requested(run)) request_stop(run, true);
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

/// How long the last batches took, and how many more fit into a budget of time.
class BatchTimes {
 public:
  using Duration = TrainerOptions::Clock::duration;

  void add(Duration batch);
  /// The second longest of the last batches: a single one that takes longer, as with a check of captured steps, says
  /// nothing of those that follow. 0 before the first one.
  Duration expected() const;
  /// Forgets the oldest batch. Called if no batch fits into a budget, so that slow batches do not end training.
  void forget_one();

 private:
  static constexpr std::size_t most = 8;
  std::array<Duration, most> times_{};  ///< the oldest first
  std::size_t count_ = 0;
};

/// The reason for which a fit has ended, as text; empty if nothing has.
std::string end_reason(RunCore const& run);
/// The reason if the program has closed the open fit before its end.
inline constexpr char const* closed_early = "close() of the open fit";

// Epochs that a limit or a stop ended before their data, in a run that resumes with other limits.

/// If a run was left at `point`, at or after the end of such an epoch, and training may continue: sets it back behind
/// the epoch's last batch, or to the start of an epoch without batches. Returns true if the run was set back.
bool reopen_epoch(RunCore& run, SafePoint& point);

/// Does the same for the whole loaded state, including the figures of the epoch.
template <class R>
bool reopen_epoch(State<R>& run) {
  if (!reopen_epoch(run, run.point)) return false;
  run.measured.train_board = run.measured.cut_short;
  run.measured.cut_short.clear();
  run.due.notified = {};
  run.facts.batch_idx = std::max(0L, run.progress.batch - 1);
  return true;
}

// The one reduction of a step with several ranks is that of its gradients. All else that ranks exchange goes with them.

/// The flags that are summed along with the gradients: each becomes the number of ranks that set it. `place` is the
/// first bit of a number by which ranks in manual optimization check that the gradients belong to the same batch. After
/// it follows one bit for each optimizer that the rank has stepped since the last exchange.
enum class Rider : std::uint8_t {
  contributes,
  stop,
  time_is_up,
  epoch_ends,
  skips,
  not_finite,
  validates,
  signal,
  rings,
  place
};
/// A number is sent bit by bit, each bit as the count of ranks that have it set, because a gradient's type may not hold
/// large integers. 32 bits are enough for two thousand million batches an epoch.
template <class R>
inline constexpr std::size_t place_bits = R::automatic ? 0 : 32;
template <class R>
inline constexpr std::size_t step_bits = R::automatic ? 0 : Optimizers<R>::count;

/// Reads losses that are still on a device before the reduction, if all ranks must skip an update together.
template <class R>
void read_waiting_loss(State<R>& run) {
  if (run.watch.finite.noted.empty() || run.asked.options.non_finite != NonFinite::skip) return;
  double const value = read_noted(run);
  if (is_finite(value)) return;
  run.shared.not_finite = true;
  run.shared.loss = value;
}

template <class R>
bool first_clock_is_due(State<R> const& run) {
  if (run.asked.options.val_check_interval.kind != ValidationInterval::Kind::time) return false;
  if (run.parts.strategy.rank() != 0 || !run.facts.has_validation || !run.clock.last_validation) return false;
  return validation_time_is_up(run);
}

template <class R>
bool first_clock_rings(State<R> const& run) {
  return run.parts.strategy.rank() == 0 && run.shared.alarm != std::numeric_limits<double>::infinity() &&
         seconds_now(run) >= run.shared.alarm;
}

/// Replaces the gradients by their mean over the ranks that have some, and exchanges the flags. `contributes`: this
/// rank has gradients. Returns true if any rank has; with one process, `contributes`. Every rank must call this once a
/// step, before anything reads the gradients. Throws on all ranks if a loss of one is not finite and training must stop
/// for that.
template <class R>
[[gnu::always_inline]] inline bool exchange(State<R>& run, bool contributes = true) {
  if constexpr (shares<R>) return exchange_riders(run, contributes);
  else return contributes;
}

/// Checks gradients that only this rank has. If they are not finite, the other ranks learn of it in the next exchange.
template <class R>
void look_at_own_gradients(State<R>& run) {
  if (run.watch.finite.look != Look::on || run.shared.not_finite) return;
  bool finite = true;
  each_of(run.parts.optimizers->optimizers,
          [&](auto& o) { finite = finite && R::Backend::gradients_finite(o.parameters()); });
  run.shared.not_finite = run.shared.in_gradients = !finite;
}

/// Manual optimization: records that this rank steps an optimizer. The other ranks learn of it with the next gradients.
template <class R, class Optimizer>
void note_step([[maybe_unused]] State<R>& run, [[maybe_unused]] Optimizer const& stepped) {
  if constexpr (shares<R>) {
    auto const bit = std::uint64_t{1} << run.parts.optimizers->place_of(stepped);
    run.shared.stepped |= bit;
    run.shared.own_gradients &= ~bit;
  }
}

/// Throws [fulgurite.distributed.parted] on all ranks if only some of them have stepped an optimizer manually. `bits`:
/// for each optimizer, the number of ranks that have stepped it since the last exchange.
template <class R>
void require_same_steps(State<R>& run, std::span<double const> bits) {
  for (std::size_t i = 0; i != bits.size(); ++i) {
    if (bits[i] == 0 || bits[i] == run.parts.strategy.world()) continue;
    run.shared.together = true;
    throw Error("fulgurite.distributed.parted",
                "ranks have parted under manual optimization: some have stepped optimizer " + std::to_string(i) +
                    " and some have not, so their weights differ. All ranks have to step the same optimizers in each "
                    "batch: let nothing that decides it depend on the rank");
  }
}
template <class R>
void share_steps(State<R>& run, std::span<double> bits) {
  auto const stepped = std::exchange(run.shared.stepped, 0);
  for (std::size_t i = 0; i != bits.size(); ++i) bits[i] = static_cast<double>(stepped >> i & 1);
}
/// Compares the last steps of a fit, after which no gradients are exchanged. A collective.
template <class R>
void compare_last_steps([[maybe_unused]] State<R>& run) {
  if constexpr (shares<R> && !R::automatic) {
    std::array<double, step_bits<R>> bits{};
    std::array<Reduce, step_bits<R>> how{};
    how.fill(Reduce::sum);
    share_steps(run, bits);
    run.parts.strategy.reduce_in_place(bits, how);
    require_same_steps(run, bits);
  }
}

/// Manual optimization: each rank steps in its own training_step, so no rank can make the step of a batch that it left
/// out. Throws [fulgurite.distributed.parted] on all ranks if the summed `bits` show that their batches differ.
template <class R>
void require_same_place(State<R>& run, std::span<double const> bits) {
  for (double const bit : bits) {
    if (bit == 0 || bit == run.parts.strategy.world()) continue;
    run.shared.together = true;
    throw Error("fulgurite.distributed.parted",
                "ranks have parted under manual optimization: rank " + std::to_string(run.parts.strategy.rank()) +
                    " is at batch " + std::to_string(run.facts.batch_idx) + " of epoch " +
                    std::to_string(run.progress.epoch) +
                    " and another rank at another one. All ranks have to leave out the same batches, skip the same "
                    "epochs, and call ctx.backward equally often, since each steps for itself");
  }
}

template <class R>
[[gnu::noinline]] bool exchange_riders(State<R>& run, bool contributes) {
  auto& shared = run.shared;
  read_waiting_loss(run);
  if constexpr (splits_model<R>) look_at_own_gradients(run);
  std::array<double, static_cast<std::size_t>(Rider::place) + place_bits<R> + step_bits<R>> riders{};
  auto const rider = [&](Rider which) -> double& { return riders[static_cast<std::size_t>(which)]; };
  auto const says = [&](Rider which, bool so) { rider(which) = so ? 1 : 0; };
  says(Rider::contributes, contributes);
  bool const requests = std::exchange(run.due.stop.waits, false);
  says(Rider::stop, requests && !run.due.stop.by_time);
  says(Rider::time_is_up, requests && run.due.stop.by_time);
  says(Rider::epoch_ends, run.facts.is_last_batch);
  says(Rider::skips, std::exchange(shared.skips, false));
  says(Rider::not_finite, shared.not_finite);
  says(Rider::validates, first_clock_is_due(run));
  says(Rider::signal, shared.signal != 0);
  says(Rider::rings, first_clock_rings(run));
  if constexpr (!R::automatic) {
    long const place = 2 * run.facts.batch_idx + (contributes ? 0 : 1);
    for (std::size_t bit = 0; bit != place_bits<R>; ++bit)
      riders[static_cast<std::size_t>(Rider::place) + bit] = (place >> bit & 1) != 0 ? 1 : 0;
    share_steps(run, std::span(riders).last(step_bits<R>));
  }
  run.parts.strategy.reduce_gradients(std::span<double>(riders), run.parts.optimizers->optimizers);

  if constexpr (!R::automatic) {
    std::span<double const> const all(riders);
    require_same_place(run, all.subspan(static_cast<std::size_t>(Rider::place), place_bits<R>));
    require_same_steps(run, all.last(step_bits<R>));
  }
  double const world = run.parts.strategy.world(), with = rider(Rider::contributes);
  if (with != 0 && with != world)
    each_of(run.parts.optimizers->optimizers,
            [&](auto& o) { R::Backend::scale_gradients(o.parameters(), world / with); });
  if (rider(Rider::stop) != 0 || rider(Rider::time_is_up) != 0) receive_stop(run, rider(Rider::stop) == 0);
  shared.skipped = rider(Rider::skips) != 0;
  shared.epoch_ends = shared.skipped || rider(Rider::epoch_ends) != 0;
  if (shared.epoch_ends) run.facts.is_last_batch = true;
  shared.validates = rider(Rider::validates) != 0;
  if (rider(Rider::rings) != 0) {
    shared.rang = true;
    shared.alarm = std::numeric_limits<double>::infinity();
  }
  if (rider(Rider::signal) != 0) shared.ends_by = shared_signal(run, shared.signal);
  if (rider(Rider::not_finite) != 0) [[unlikely]] {
    std::string what = splits_model<R> ? "a loss or a gradient of another rank is not finite"
                                       : "the loss of another rank is not finite";
    bool const in_gradients = std::exchange(shared.in_gradients, false);
    if (std::exchange(shared.not_finite, false)) {
      what = in_gradients ? "a gradient is not finite" : "the loss is " + std::to_string(shared.loss);
      what += " on rank " + std::to_string(run.parts.strategy.rank());
    }
    if (run.watch.finite.look == Look::on) found_non_finite(run, what);
  }
  return with != 0;
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/decisions.ipp>
#endif
