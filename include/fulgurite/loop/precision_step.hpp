#pragma once
// The parts of a step that depend on the precision: the seed of backward, unscaling, the guarded update.

#include <type_traits>

#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

template <class R>
inline constexpr bool scales_loss = R::Precision::scales_loss;

/// The gradient that backward starts from: 1/K, times the scale of a scaling precision. The loss itself is never multiplied.
template <class R, class Loss>
auto seed(State<R>& run, Loss& loss, double factor) {
  if constexpr (scales_loss<R>) return run.scaler->seed(loss, factor);
  else return R::Backend::seed(loss, factor);
}

/// backward, or the model's own in its place, which receives the loss already multiplied by what the seed would hold.
template <class R, class Ctx, class Loss>
void backward(State<R>& run, Ctx& ctx, Loss& loss, double factor) {
  auto& model = *run.model;
  if constexpr (Overrides<hook::backward, typename R::Model, Ctx, Loss>) {
    double by = factor;
    if constexpr (scales_loss<R>) by *= run.scaler->scale();
    auto scaled = R::Backend::scaled(loss, by);
    call_override<hook::backward>(model, ctx, scaled);
  } else {
    run.strategy.backward(loss, seed(run, loss, factor));
  }
}

template <class R, class O>
void unscale(State<R>& run, O& optimizer) {
  if constexpr (scales_loss<R>) run.scaler->unscale(optimizer.parameters());
}

/// The update; a scaled step whose gradients are not finite is skipped and counted, one that has none is left out.
template <class R, class Update>
void guarded(State<R>& run, [[maybe_unused]] bool has_gradients, Update&& update) {
  if constexpr (scales_loss<R>) {
    if (!has_gradients) return;
    if (run.scaler->finite()) update();
    else ++run.progress.skipped_steps;
    run.scaler->update();
  } else {
    update();
  }
}

}  // namespace fulgurite::loop
