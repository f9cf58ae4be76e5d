#pragma once
// The part of a run's state that only a fit can go on from: where exactly it was, and what was open there. The rest is
// in run_state.hpp.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/before_validation.hpp>
#include <fulgurite/loop/open_slices.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_gradients.hpp>

namespace fulgurite::loop {

/// The gradients of one optimizer's parameters. Where all of them are there all the time, as slices of one memory, the
/// optimizer knows which were received.
template <class Backend, class Optimizer, class Archive>
void fold_gradients(Optimizer& optimizer, Archive& archive) {
  std::vector<bool> received;
  if constexpr (requires { optimizer.received(); }) received = optimizer.received();
  else
    for (auto const& parameter : optimizer.parameters()) received.push_back(Backend::gradient(parameter).defined());
  archive("received", received);
  long at = 0;
  for (auto const& parameter : optimizer.parameters()) {
    auto const name = std::to_string(at++);
    if constexpr (Archive::loading) {
      if (lacks(archive, name)) continue;
      auto gradient = Backend::clone(parameter);
      auto saved = Backend::saved(gradient);
      archive.tensor(name, saved);
      Backend::restore(gradient, saved);
      Backend::set_gradient(parameter, gradient);
    } else if (auto const gradient = Backend::gradient(parameter); gradient.defined()) {
      archive.tensor(name, Backend::saved(gradient));
    }
  }
  if constexpr (Archive::loading && requires { optimizer.set_received(received); }) optimizer.set_received(received);
}

/// The loss of the last batch of a window that is open: what a closure returns where the window is stepped before it is
/// full.
template <class R, class Archive>
void fold_loss(State<R>& run, Archive& archive) {
  if constexpr (R::automatic) {
    if constexpr (closure_is_shown<R>) {
      using Backend = typename R::Backend;
      if (!run.point.accumulating) return;
      if constexpr (Archive::loading) {
        auto const& parameters = std::get<0>(run.parts.optimizers->optimizers).parameters();
        if (lacks(archive, "loss") || parameters.empty()) return;
        auto saved = Backend::saved(parameters.front());
        archive.tensor("loss", saved);
        run.carried.loss = Backend::made_from(saved, parameters.front());
      } else if (run.carried.loss.defined()) {
        archive.tensor("loss", Backend::saved(run.carried.loss));
      }
    }
  }
}

/// The values of the last finished epoch and of the last evaluation, by the names of metrics and loaders.
template <class R, class Archive>
void fold_results(State<R>& run, Archive& archive) {
  auto& measured = run.measured;
  archive("loader_names", measured.loader_names);
  if constexpr (Archive::loading) measured.loader_results.resize(measured.loader_names.size());
  auto const fold = [&](auto& inner, auto& results) {
    R::Metrics::each([&](std::size_t i, auto const& metric) {
      if (!lacks(inner, metric.name())) inner.child(metric.name(), results[i]);
    });
    leave_out_others(inner);
  };
  archive.child("logged", [&](auto& inner) {
    R::Metrics::each([&](std::size_t i, auto const& metric) {
      if (!lacks(inner, metric.name())) inner(metric.name(), measured.logged[i]);
    });
    leave_out_others(inner);
  });
  archive.child("merged", [&](auto& inner) { fold(inner, measured.results); });
  for (std::size_t loader = 0; loader != measured.loader_results.size(); ++loader)
    archive.child(std::to_string(loader), [&](auto& inner) { fold(inner, measured.loader_results[loader]); });
}

/// How long the windows to come are, which hooks may change.
template <class R, class Archive>
void fold_window_length(State<R>& run, Archive& archive) {
  if constexpr (R::automatic)
    archive.option("accumulate_grad_batches", run.asked.optimization.accumulate_grad_batches, run.asked.window_length);
}
/// Options of the optimization beside it.
template <class R, class Archive>
void fold_clip(State<R>& run, Archive& archive) {
  if constexpr (R::automatic) {
    auto const& clip = run.asked.optimization.clip;
    archive.option("clip", std::string(clip.kind == Clip::Kind::none   ? "none"
                                       : clip.kind == Clip::Kind::norm ? "norm"
                                                                       : "value"));
    archive.option("clip limit", clip.limit);
  }
}

/// What ends a fit.
struct Limits {
  std::optional<int> epochs;
  std::optional<long> steps;
  std::optional<double> seconds;

  explicit Limits(TrainerOptions const& options)
      : epochs(options.max_epochs),
        steps(options.max_steps),
        seconds(options.max_time ? std::optional(options.max_time->count()) : std::nullopt) {}
  void state(auto& archive) { archive("max_epochs", epochs)("max_steps", steps)("max_time", seconds); }
  bool operator==(Limits const&) const = default;
};

/// A stop that somebody asked for, and no limit, holds until a limit is another, or an option of a callback that ends
/// training: a program that is started again as it was trains nothing more, whether the epoch was whole or was cut
/// short by the stop.
template <class R, class Archive>
void fold_stop(State<R>& run, Archive& archive) {
  auto stop = run.before_cut ? run.due.stop_before_cut : run.due.stop.lasting();
  if (auto const* const before = before_repeated_validation(run)) stop = before->stop.lasting();
  archive("stop", stop.holds)("stop_asked", stop.asked)("stop_why", stop.why)("monitors", stop.monitors);
  Limits limits(run.asked.options);
  if (!lacks(archive, "limits")) archive.child("limits", limits);
  if constexpr (Archive::loading) {
    if (limits != Limits(run.asked.options)) stop = {};
    for (auto const& one : run.due.other_monitors) stop.set_monitor({.who = one}, false);
    auto& due = run.due;
    if (stop.asked) due.stop.asked = true, due.stop.by_time = false, due.stop.why = stop.why;
    for (auto const& one : stop.monitors) due.stop.set_monitor(one, true);
    due.stop.holds = due.stop.holds || stop.holds;
    due.stop_of_file = stop.holds;
    due.stop_before_cut = std::move(stop);
  }
}

/// How many ranks an epoch's batches are shared out between; stages of a split model all have the same ones.
template <class R>
long shares_of_data(State<R> const& run) {
  if constexpr (shares<R> && !splits_model<R>) return run.parts.strategy.world();
  else return 1;
}

/// What was logged, asked for and timed: what the run itself knows beside its parts.
template <class R, class Archive>
void fold_run(State<R>& run, Archive& archive) {
  archive("point", run.point)("heard", run.due.heard);
  if (long shares_of_epoch = shares_of_data(run); !lacks(archive, "shares_of_epoch"))
    archive("shares_of_epoch", shares_of_epoch);  // compared before training: see resumed_loaders.hpp
  fold_window_length(run, archive);
  fold_clip(run, archive);
  if (auto const* const before = before_repeated_validation(run)) {
    auto since = before->validation_since;
    archive("validation_since", since);
  } else {
    archive("validation_since", run.loading.validation_since);
  }
  archive("statistics_pass", run.due.statistics_pass)("training_since", run.loading.training_since)(
      "finite_read_at", run.watch.finite.read_at)("scaled_out", run.watch.finite.scaled_out)("outcome",
                                                                                             run.made.outcome);
  fold_stop(run, archive);
  double elapsed = run.training_seconds();
  auto const now = run.asked.options.now();
  std::optional<double> validated;
  if (run.clock.last_validation) validated = Seconds(now - *run.clock.last_validation).count();
  archive("elapsed", elapsed)("since_validation", validated);
  // Rows are counted anew in each process.
  long in_window = run.due.rows_of_window(run.due.window.batches);
  if (auto const* const before = before_repeated_validation(run)) in_window -= run.due.rows - before->rows;
  archive("window_began", run.due.window.batches)("window_rows", in_window);
  archive.child("epoch_so_far", run.measured.train_board).child("epoch_cut_short", run.measured.cut_short);
  if (!add_before_validation(run, "results", archive))
    archive.child("results", [&](auto& inner) { fold_results(run, inner); });
  // In manual optimization nobody but the user knows whether gradients are kept for a later step.
  bool const open = run.point.accumulating || !R::automatic;
  if (open && !lacks(archive, "gradients"))
    archive.child("gradients", [&](auto& inner) {
      auto one = [&, i = 0](auto& optimizer) mutable {
        inner.child(std::to_string(i++),
                    [&](auto& innermost) { fold_gradients<typename R::Backend>(optimizer, innermost); });
      };
      each_of(run.parts.optimizers->optimizers, one);
    });
  fold_loss(run, archive);
  fold_slices(run, archive);
  if constexpr (Archive::loading) {
    using Clock = TrainerOptions::Clock;
    auto const ago = [&](double seconds) {
      return now - std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
    };
    run.due.window.before = run.due.rows - in_window;
    run.clock.earlier = elapsed;
    if (run.clock.training_began) run.clock.training_began = now;  // a fit that goes back
    if (validated) run.clock.last_validation = ago(*validated);
    run.facts.accumulating = run.facts.has_gradients = run.point.accumulating;
    run.facts.is_last_batch = run.point.last;
    run.facts.batch_idx = std::max(0L, run.progress.batch - 1);
  }
}

}  // namespace fulgurite::loop
