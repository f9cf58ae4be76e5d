#pragma once
// The update, and what leaves it out: a loss or a gradient that is not finite, or the scaler of a scaled loss.

#include <limits>
#include <span>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// A scale is halved some 40 times on its way from the largest that is sensible to one that makes no difference any
/// more: what is still not finite then is not so because of the scale.
inline constexpr int most_scaled_out = 100;

/// After each update that the scaler has left out. Waits for the device, as the scaler just did.
template <class R>
[[gnu::cold, gnu::noinline]] void scaled_out(State<R>& run) {
  double const scale = run.parts.scaler->scale();
  if (++run.watch.finite.scaled_out < most_scaled_out && scale >= double{std::numeric_limits<float>::min()}) return;
  auto const who = "the scaler of " + std::string(R::Precision::name);
  auto const count = std::to_string(run.watch.finite.scaled_out), left = std::to_string(scale);
  if (run.asked.options.non_finite == NonFinite::stop)
    throw Error("fulgurite.loop.scaler_skips",
                who + " has left out the last " + count + " updates, and its scale has come down to " + left +
                    ": gradients that are not finite at any scale do not come from the scale. Look at the losses and "
                    "at the learning rate; detect_anomaly = true names the function. Bf16Mixed has the range of "
                    "float32 and needs no scaler; non_finite = NonFinite::skip warns and goes on");
  run.warn("fulgurite.loop.scaler_skips", who + " has left out the last " + count +
                                              " updates, and its scale has come down to " + left +
                                              ": the fit goes on without a step, as non_finite asks for");
}

/// The update. One whose loss or gradients are not finite is left out and counted; a scaled one without gradients is
/// left out.
template <class R, class Update>
void guarded(State<R>& run, [[maybe_unused]] bool has_gradients, Update&& update) {
  auto& finite = run.watch.finite;
  if constexpr (scales_loss<R>) {
    if (!has_gradients) return;
    bool const fits = run.parts.scaler->finite();
    // The scaler has waited for the gradients. A loss that was noted is read now, unless the update is left out anyway.
    if (finite.fresh && run.asked.options.non_finite == NonFinite::skip) {
      if (fits) wait_for_finite(run, std::span<typename R::Value const>());
      else finite.noted.reset(), finite.fresh = false;
    }
    if (fits && finite.look != Look::found) update();
    else ++run.progress.skipped_steps;
    if (finite.look == Look::found) finite.look = Look::on;
    run.parts.scaler->update();
    if (fits) finite.scaled_out = 0;
    else scaled_out(run);
  } else if (finite.look == Look::found) [[unlikely]] {
    ++run.progress.skipped_steps;
    finite.look = Look::on;
  } else {
    update();
  }
}

/// After a model's own optimizer_step: an update that was to be left out went through optimizer.step(closure), or
/// nobody has left it out.
template <class R>
void require_left_out(State<R>& run) {
  if (run.watch.finite.look != Look::found) return;
  throw Error("fulgurite.hook.stepped_past_skip",
              "a loss or a gradient is not finite, and optimizer_step did not call optimizer.step(closure), which "
              "would have left the update out: what it did instead, such as optimizer.optimizer().step(), was done "
              "with these gradients. Call optimizer.step(closure), or look in optimizer_step itself and say "
              "non_finite = NonFinite::ignore");
}

}  // namespace fulgurite::loop
