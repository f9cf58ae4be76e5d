#pragma once
// The step of an optimizer that evaluates its closure several times, looked after for what is not finite.

#include <cstddef>
#include <span>

#include <fulgurite/loop/non_finite.hpp>

namespace fulgurite::loop {

/// Thrown to get out of the step of an optimizer, where the first evaluation of the closure is not finite.
struct LeftOut {};

/// After an evaluation of a closure: the first one is looked at, others are the optimizer's own trials.
template <class R>
void evaluated(State<R>& run) {
  if (run.watch.finite.look == Look::found) throw LeftOut{};
  run.watch.finite.look = Look::off;
}

/// A step that evaluates its closure several times. Weights that it leaves infinite are put back, but for those on a
/// device, which are looked at with what is noted.
template <class R, class O, class Step>
void closure_step(State<R>& run, O& optimizer, Step&& step) {
  using Backend = typename R::Backend;
  using Value = typename R::Value;
  auto& finite = run.watch.finite;
  if (finite.look == Look::off) return step();
  auto&& parameters = optimizer.parameters();
  std::span<Value const> const weights(parameters);
  bool const waits = Backend::gradients_wait(parameters);
  if (!waits && finite.before.size() != weights.size()) finite.before = Backend::clones(weights);
  else if (!waits)
    for (std::size_t i = 0; i != weights.size(); ++i) Backend::copy_into(finite.before[i], weights[i]);
  try {
    step();
  } catch (LeftOut const&) {}
  if (finite.look != Look::found) {
    finite.look = Look::on;
    if (!waits && !Backend::weights_finite(weights)) {
      for (std::size_t i = 0; i != weights.size(); ++i) {
        Value weight = weights[i];
        Backend::copy_into(weight, finite.before[i]);
      }
      found_non_finite(run, "the weights that the optimizer arrived at are not finite");
    }
  }
  if (finite.look == Look::found) {
    ++run.progress.skipped_steps;
    finite.look = Look::on;
  }
}

}  // namespace fulgurite::loop
