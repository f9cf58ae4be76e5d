#pragma once
// Losses and gradients that are infinite or not a number: found before the update, which then does not happen.
//
// On the CPU a loss is one load and the gradients one pass over memory (or their norm, where clipping has it anyway). A
// GPU is not waited for: there the losses are added up, times zero, in a tensor that is read together with the metrics,
// at the cadence of the logs, and before anything is written; the weights are looked at then. The gradients of a scaled
// loss (Fp16Mixed) are left to its scaler (guarded_update.hpp); the loss itself is never multiplied, and is looked at.

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/warnings.hpp>

namespace fulgurite::loop {

/// Infinite, or not a number: the only ones whose difference to themselves is no number.
[[gnu::always_inline]] inline bool is_finite(double value) { return !std::isnan(value - value); }

/// When a fit begins.
template <class R>
void watch_finite(State<R>& run) {
  run.watch.finite = {};
  if (run.asked.options.non_finite != NonFinite::ignore) run.watch.finite.look = Look::on;
  run.watch.finite.read_at = run.progress.global_step;
}

/// A buffer that the batch at hand has made no number of, such as the statistics of a batch norm: it was written before
/// the loss was known, and nobody has it as it was.
template <class R>
[[gnu::cold, gnu::noinline]] std::string spoiled_buffer(State<R>& run) {
  std::string name;
  if constexpr (requires { R::Backend::buffer_with_nan(*run.parts.model); })
    name = R::Backend::buffer_with_nan(*run.parts.model);
  return name.empty() ? name
                      : ". The buffer '" + name +
                            "' holds a nan: buffers are written while the loss is computed, and are not put back";
}

FULGURITE_COLD std::string place_of_batch(long batch, int epoch, bool no_rows) {
  return "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
         (no_rows ? ", which has no rows," : "");
}
[[noreturn]] FULGURITE_COLD void refuse_update(std::string const& what, std::string const& where, long step,
                                               std::string const& buffer) {
  throw Error("fulgurite.loop.non_finite",
              what + " after " + where + ". The update was not made: the weights are those after step " +
                  std::to_string(step) + buffer +
                  ". Look at that batch, at the learning rate and at clipping; detect_anomaly = true names the "
                  "function. non_finite = NonFinite::skip leaves such updates out, NonFinite::ignore makes them");
}
FULGURITE_COLD void warn_of_skipped(Warn warn, std::string const& what, std::string const& where,
                                    std::string const& buffer) {
  warn("fulgurite.loop.non_finite_skipped",
       what + " after " + where +
           ": the update of its window is left out, and so are others like it (ctx.skipped_steps() counts them)" +
           buffer);
}

/// `what` is not finite in the batch at hand: the fit ends, or the update of its window will be left out.
template <class R>
[[gnu::cold, gnu::noinline]] void found_non_finite(State<R>& run, std::string const& what) {
  auto const where =
      place_of_batch(run.facts.batch_idx, run.progress.epoch, run.facts.batch_size == 0 && run.facts.no_rows);
  if (run.asked.options.non_finite == NonFinite::stop) {
    if constexpr (shares<R>) run.shared.together = true;  // gradients are those of all ranks, too
    refuse_update(what, where, run.progress.global_step, spoiled_buffer(run));
  }
  run.watch.finite.look = Look::found;
  warn_of_skipped(Warn::to<&State<R>::warn>(run), what, where, spoiled_buffer(run));
}

template <class R>
[[gnu::cold, gnu::noinline]] void found_loss(State<R>& run, double loss) {
  if (run.watch.finite.look != Look::on) return;
  if constexpr (shares<R>) {  // all ranks hear it with their gradients
    run.shared.not_finite = true;
    run.shared.loss = loss;
  } else {
    found_non_finite(run, "the loss is " + std::to_string(loss));
  }
}
/// A loss of several elements has a backward of the model's own, and is left to its gradients.
template <class R, class Loss>
[[gnu::always_inline]] inline bool is_number([[maybe_unused]] Loss const& loss) {
  if constexpr (requires { R::Backend::is_number(loss); }) return R::Backend::is_number(loss);
  else return true;
}
/// `loss`: of the batch at hand, or nullptr.
template <class R>
[[gnu::cold, gnu::noinline]] void found_gradient(State<R>& run, typename R::Value const* loss) {
  auto const of =
      loss && is_number<R>(*loss) ? " (the loss is " + std::to_string(R::Backend::read(*loss)) + ")" : std::string();
  found_non_finite(run, "a gradient is not finite" + of);
}

[[noreturn]] FULGURITE_COLD void refuse_non_finite(long from, long to) {
  throw Error("fulgurite.loop.non_finite",
              "a loss or a weight is not finite since one of the steps " + std::to_string(from) + " to " +
                  std::to_string(to) +
                  " (a GPU is asked at the cadence of the logs, log_every_n_steps). Nothing was written since: the "
                  "last checkpoint is good. non_finite = NonFinite::skip waits for the GPU in each step and leaves "
                  "such updates out, NonFinite::ignore makes them");
}

/// What was noted on a device is read, together with the metrics that wait, and the weights are looked at. Error where
/// one of them is not finite: nothing that is written afterwards may hold them.
template <class R>
[[gnu::noinline]] void collect_and_check(State<R>& run) {
  auto& finite = run.watch.finite;
  if (!finite.fresh || run.asked.options.non_finite != NonFinite::stop) return void(run.measured.train_board.collect());
  if (run.parts.optimizers)
    each_of(run.parts.optimizers->optimizers, [&](auto& o) { R::Backend::note_weights(finite.noted, o.parameters()); });
  double const value = run.measured.train_board.collect(&*finite.noted);
  if (!is_finite(value)) [[unlikely]]
    refuse_non_finite(finite.read_at + 1, run.progress.global_step);
  finite.fresh = false;
  finite.read_at = run.progress.global_step;
}

/// Remembers a value of a device without waiting for it; at the cadence of the logs, where no log reads, what was
/// remembered is read.
template <class R, class Value>
[[gnu::noinline]] void note(State<R>& run, Value const& value) {
  auto& finite = run.watch.finite;
  if (finite.look != Look::on) return;
  R::Backend::note_finite(finite.noted, value);
  finite.fresh = true;
  long const every = run.asked.options.log_every_n_steps;
  if (every != 0 && run.asked.options.non_finite == NonFinite::stop &&
      run.progress.global_step - finite.read_at > every)
    collect_and_check(run);
}

/// The loss of a batch, before the update.
template <class R, class Loss>
[[gnu::always_inline]] inline void check_loss(State<R>& run, Loss const& loss) {
  using Backend = typename R::Backend;
  if (!is_number<R>(loss)) return;
  if (Backend::reading_waits(loss)) return note(run, loss);
  double const value = Backend::read(loss);
  if (!is_finite(value)) [[unlikely]]
    found_loss(run, value);
}
template <class R, class Output>
[[gnu::always_inline]] inline void check_output(State<R>& run, Output const& output) {
  if (auto* loss = loss_of<typename R::Backend>(output)) check_loss(run, *loss);
}

/// Skipping on a device is the one case that waits: once a step, as a gradient scaler does.
template <class R, class Parameters>
[[gnu::noinline]] void wait_for_finite(State<R>& run, Parameters const& parameters) {
  auto& finite = run.watch.finite;
  R::Backend::note_gradients(finite.noted, parameters);
  double value = 0;
  R::Backend::read_all(std::span<typename R::Value const>(&*finite.noted, 1), std::span<double>(&value, 1));
  finite.fresh = false;
  if (is_finite(value)) return;
  finite.noted.reset();
  found_non_finite(run, "a loss or a gradient is not finite");
}

/// The gradients of one optimizer, before they are clipped and stepped with. On a device `stop` leaves them to a look
/// at the weights. `as_made`: nothing has touched them since backward made them.
template <class R, class O>
[[gnu::always_inline]] inline void check_gradients(State<R>& run, O& optimizer, typename R::Value const* loss = nullptr,
                                                   [[maybe_unused]] bool as_made = false) {
  using Backend = typename R::Backend;
  if constexpr (!scales_loss<R>) {
    if (run.watch.finite.look != Look::on) return;
    if constexpr (requires { Backend::gradients_finite(optimizer.parameters(), *run.parts.looks); })
      if (as_made && run.parts.looks && !run.parts.looks->empty()) [[unlikely]] {
        if (!Backend::gradients_finite(optimizer.parameters(), *run.parts.looks)) found_gradient(run, loss);
        return;
      }
    if constexpr (requires { optimizer.gradients_finite(); }) {
      if (std::optional<bool> const finite = optimizer.gradients_finite()) {
        if (!*finite) [[unlikely]]
          found_gradient(run, loss);
        return;
      }
    }
    auto&& parameters = optimizer.parameters();
    if (Backend::gradients_wait(parameters)) {
      if (run.asked.options.non_finite == NonFinite::skip) wait_for_finite(run, parameters);
    } else if (!Backend::gradients_finite(parameters)) [[unlikely]] {
      found_gradient(run, loss);
    }
  }
}

/// The same after clipping by norm: a finite norm speaks for all gradients. One that is not may only be too large for
/// its type.
template <class R, class O>
[[gnu::always_inline]] inline void check_norm(State<R>& run, O& optimizer, typename R::Value const& norm,
                                              typename R::Value const* loss) {
  using Backend = typename R::Backend;
  if constexpr (!scales_loss<R>) {
    if (run.watch.finite.look != Look::on) return;
    bool const waits = Backend::reading_waits(norm);
    if (waits && run.asked.options.non_finite == NonFinite::stop) note(run, norm);
    else if (waits || !is_finite(Backend::read(norm))) check_gradients(run, optimizer, loss);
  }
}

}  // namespace fulgurite::loop
