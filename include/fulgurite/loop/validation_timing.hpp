#pragma once
// When validation runs inside an epoch (Lightning's rules, in their order), and when training ends.

#include <algorithm>
#include <optional>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

/// The epoch's shape, fixed when its loader is known.
struct EpochPlan {
  std::optional<long> batches;   ///< known number of batches, after limits
  std::optional<long> limit;     ///< most batches taken, where the loader has no size
  std::optional<long> interval;  ///< validate after every so many batches; nullopt: at the epoch's end only, or by time

  std::optional<long> most() const { return batches ? batches : limit; }
};

/// Computes the plan, of batches after the limit (`taken`) and before (`size`); a validation interval that can never
/// come is an early Error.
inline EpochPlan plan_epoch(TrainerOptions const& o, std::optional<long> size, std::optional<long> taken,
                            bool has_validation) {
  EpochPlan plan;
  (size ? plan.batches : plan.limit) = taken;
  auto const& v = o.val_check_interval;
  if (!has_validation) return plan;
  if (v.kind == ValidationInterval::Kind::batches) {
    plan.interval = v.batches;
    if (plan.batches && v.batches > *plan.batches && o.check_val_every_n_epoch)
      throw Error(
          "fulgurite.options.val_check_interval",
          "val_check_interval = " + std::to_string(v.batches) + " batches is more than the " +
              std::to_string(*plan.batches) +
              " of an epoch, so validation would never run: lower it, or set check_val_every_n_epoch = std::nullopt");
  } else if (v.kind == ValidationInterval::Kind::fraction) {
    if (plan.batches) plan.interval = std::max(1L, static_cast<long>(static_cast<double>(*plan.batches) * v.part));
    else if (!v.epoch_end())
      throw Error("fulgurite.options.fraction_of_unsized",
                  "val_check_interval is a Fraction, but the training loader has no size(): use a count of batches");
  }
  return plan;
}

/// Whether this epoch ends with, or contains, a validation.
inline bool validates_in(TrainerOptions const& o, int epoch) {
  return !o.check_val_every_n_epoch || (epoch + 1) % *o.check_val_every_n_epoch == 0;
}
/// Loaders asked for before the epochs whose validation they are meant for: the first validation asks again.
inline constexpr int never_loaded = -1'000'000'000;

template <class R>
bool minima_met(State<R> const& run) {
  auto const& o = run.asked.options;
  int const epochs = o.min_epochs.value_or(o.min_steps ? 1 : 0);
  return run.progress.epoch >= epochs && run.progress.global_step >= o.min_steps.value_or(0);
}

template <class R>
bool steps_exhausted(State<R> const& run) {
  auto const& most = run.asked.options.max_steps;
  return most && *most >= 0 && run.progress.global_step >= *most;
}

template <class R>
bool epochs_exhausted(State<R> const& run) {
  auto const& most = run.asked.options.max_epochs;
  return most && *most >= 0 && run.progress.epoch >= *most;
}

template <class R>
void check_time(State<R>& run) {
  if (time_is_up(run) && !stop_wished(run)) wish_stop(run, true);
}

/// Training leaves now: a stop was asked for and the minima are met.
template <class R>
bool stops(State<R> const& run) {
  return run.due.stop.holds && minima_met(run);
}

template <class R>
bool done(State<R> const& run) {
  return steps_exhausted(run) || epochs_exhausted(run) || stops(run);
}

/// Whether a run that was left at `point` asks its loader for more batches of the epoch that is open.
template <class R>
bool asks_for_batches(State<R> const& run, SafePoint const& point) {
  if (point.at >= At::epoch_end) return false;
  if (point.at == At::before_batch && !point.began && run.progress.batch == 0) return false;
  return point.at <= At::batch_end || !(point.last || steps_exhausted(run) || stops(run));
}

/// After a batch of an epoch that validates. An unsized loader that ends below the interval validates at its end.
/// Inlined by force, since it is asked after each batch.
template <class R>
[[gnu::always_inline]] inline bool validation_due(State<R>& run, EpochPlan const& plan, bool last) {
  auto const& o = run.asked.options;
  bool const beyond =
      plan.interval && o.check_val_every_n_epoch && *plan.interval > run.progress.batch;  // the loader ended before it
  if (last && !plan.batches && (o.val_check_interval.epoch_end() || beyond)) return true;
  if (stops(run)) return true;
  if (o.val_check_interval.kind == ValidationInterval::Kind::time) return clock_says_validate(run);
  if (!plan.interval) return false;
  long const batches = o.check_val_every_n_epoch ? run.progress.batch : run.progress.total_batches;
  return batches % *plan.interval == 0;
}

}  // namespace fulgurite::loop
