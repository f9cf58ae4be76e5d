#pragma once
// The verdict on what a strategy that captures would replay: tensor operations, and none of the calls that led to them.

#include <fulgurite/concept/fault.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/loop/recurrent.hpp>

namespace fulgurite::judge {

/// Everything that loop/automatic.hpp calls inside the strategy's seam, beside training_step.
#define FULGURITE_INSIDE_THE_SEAM(ROW) \
  ROW(on_before_zero_grad)             \
  ROW(optimizer_zero_grad)             \
  ROW(on_before_backward)              \
  ROW(backward)                        \
  ROW(on_after_backward)

/// The first hook of T that replays would leave out.
template <class T>
consteval Verdict replayed() {
  if (acts_on_tensors<T>()) return {};
#define FULGURITE_ROW(NAME) \
  if (hook::NAME::named<T>) return {Fault::capture_hook, {HookFault::none, HookId::NAME}};
  FULGURITE_INSIDE_THE_SEAM(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}
#undef FULGURITE_INSIDE_THE_SEAM

/// What the model and the callbacks of a captured step may be.
template <class R, class... Cs>
consteval Verdict captured() {
  using M = typename R::Model;
  if (!R::Strategy::captures) return {};
  if (Recurrent<M>) return {Fault::capture_hidden};
  Verdict found = replayed<M>();
  int who = 0;
  ((++who, found = found.ok() ? replayed<Cs>().by(who) : found), ...);
  if (!found.ok()) return found;
  // It receives the loss already multiplied, by a number that the scaler has read.
  if (R::Precision::scales_loss && hook::backward::named<M>) return {Fault::capture_scale};
  return {};
}

}  // namespace fulgurite::judge
