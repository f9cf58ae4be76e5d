#pragma once
// When validation runs inside an epoch (Lightning's rules, in their order), and when training ends.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

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
#include <fulgurite/loop/validation_timing.ipp>
#endif
