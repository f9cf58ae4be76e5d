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

// How many batches and optimizer steps a run will have, as far as that is known.

/// Batches of a loader, nullopt where it does not say.
template <class Loader>
std::optional<long> size_of(Loader& loader) {
  if constexpr (SizedLoader<Loader>) return static_cast<long>(loader.size());
  else return std::nullopt;
}

/// Batches after the limit; a part of an unsized loader, or one that comes to nothing, is an early Error.
std::optional<long> limited(std::optional<long> size, Limit const& limit, std::string const& name);

/// Batches of a loader after the limit; a part of several combined loaders is that part of each.
template <class Loader>
std::optional<long> batches_of(Loader& loader, Limit const& limit, std::string const& name) {
  if constexpr (requires { loader.limit_each(1.0); }) {
    bool const part = limit.kind == Limit::Kind::fraction && !limit.none();
    loader.limit_each(part ? limit.part : 1.0);
    if (part) return size_of(loader);
  }
  return limited(size_of(loader), limit, name);
}

/// ceil(batches / window) * epochs, capped by max_steps (Lightning's estimated_stepping_batches). Asked for in
/// configure_optimizers, it loads the training data early.
template <class State>
std::optional<long> estimated_steps(State const& state) {
  auto const& o = state.asked.options;
  std::optional<long> const most = o.max_steps && *o.max_steps >= 0 ? o.max_steps : std::nullopt;
  if (!o.max_epochs || *o.max_epochs < 0 || Recurrent<typename State::Key::Model>)
    return most;  // slices are known batch by batch
  auto batches = state.facts.train_batches;
  if (!batches && state.loading.count_training) batches = state.loading.count_training();
  if (!batches) return most;
  long const window = std::max(1, state.asked.window_length);
  long const steps = (*batches + window - 1) / window * std::max(*o.max_epochs, 1);
  return most ? std::min(*most, steps) : steps;
}

/// The epoch's shape, fixed when its loader is known.
struct EpochPlan {
  std::optional<long> batches;   ///< known number of batches, after limits
  std::optional<long> limit;     ///< most batches taken, where the loader has no size
  std::optional<long> interval;  ///< validate after every so many batches; nullopt: at the epoch's end only, or by time

  std::optional<long> most() const { return batches ? batches : limit; }
};

/// Computes the plan, of batches after the limit (`taken`) and before (`size`); a validation interval that can never
/// come is an early Error.
EpochPlan plan_epoch(TrainerOptions const& o, std::optional<long> size, std::optional<long> taken, bool has_validation);

/// Whether this epoch ends with, or contains, a validation.
bool validates_in(TrainerOptions const& o, int epoch);
/// Loaders asked for before the epochs whose validation they are meant for: the first validation asks again.
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

/// Training leaves now: a stop was asked for and the minima are met.
inline bool stops(RunCore const& run) { return run.due.stop.holds && minima_met(run); }

inline bool done(RunCore const& run) { return steps_exhausted(run) || epochs_exhausted(run) || stops(run); }

/// Whether a run that was left at `point` asks its loader for more batches of the epoch that is open.
bool asks_for_batches(RunCore const& run, SafePoint const& point);

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

// Why a fit has ended, in words.

/// Empty where nothing has ended it.
std::string end_reason(RunCore const& run);

// An epoch that a limit or a stop has ended before its data, in a run that goes on with other limits.

/// Sets a run that was left at `point`, at such an epoch's end or after it, back inside the epoch, behind its last
/// batch, where training may go on: as if nothing had ended it. An epoch that was ended before its first batch begins
/// once more. Whether it was set back.
bool reopen_epoch(RunCore& run, SafePoint& point);

/// The same of all that was loaded, with the figures of the epoch.
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
