#pragma once
// Large gradients of steps that this process makes alone: they are looked at as soon as backward has made them, not
// when the update is due, where nobody can have changed them in between; and they stay there where nobody needs them in
// one piece.

#include <utility>

#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/policy/checks_replays.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite::loop {

/// Nobody hears an event between backward and the look that comes before the update, where a gradient could be written
/// to in a way that its version does not tell.
template <class R, class Pack>
inline constexpr bool nobody_between =
    !Pack::template names<hook::on_after_backward> && !Pack::template names<hook::on_before_optimizer_step> &&
    !hook::on_after_backward::named<typename R::Model> && !hook::on_before_optimizer_step::named<typename R::Model> &&
    !requires(typename R::Strategy& strategy, typename R::Value& loss) { strategy.post_backward(loss); };

template <class R, class Pack>
inline constexpr bool looks_early = R::automatic && !scales_loss<R> && !shares<R> && !Optimizers<R>::needs_closure &&
                                    nobody_between<R, Pack> && requires { typename R::Backend::GradientLooks; };

/// Nobody needs gradients in one piece, or after another backward: a window of several batches adds to them, where two
/// that share their memory would both receive what is added to one.
template <class R>
inline constexpr bool may_leave_gradients =
    R::automatic && !shares<R> && !ChecksReplays<typename R::Strategy> &&
    !hook::configure_gradient_clipping::named<typename R::Model> &&
    requires(Optimizers<R>& all) { R::Backend::leave_gradients(all.optimizers, true); };

/// Large gradients stay where backward makes them, or do not, from the clearing of this batch on.
template <class R>
[[gnu::always_inline]] inline void leave_gradients([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  if constexpr (may_leave_gradients<R>) {
    auto const& asked = run.asked;
    bool const leave = asked.window_length == 1 && asked.optimization.clip.kind == Clip::Kind::none;
    if (key.first && leave != run.parts.leaves_gradients) [[unlikely]]
      R::Backend::leave_gradients(run.parts.optimizers->optimizers, run.parts.leaves_gradients = leave);
  }
}

/// When the optimizers of a fit are there.
template <class R, class Pack>
void arrange_gradients([[maybe_unused]] State<R>& run, Pack const&) {
  run.parts.leaves_gradients = false;
  if constexpr (looks_early<R, Pack>) {
    bool const clips_by_norm = run.asked.optimization.clip.kind == Clip::Kind::norm;  // the norm tells
    if (run.watch.finite.look == Look::on && !clips_by_norm) run.parts.looks.attach(*run.parts.model);
  }
}
/// When it has ended: model and optimizers are the user's again.
template <class R>
void leave_gradients_alone([[maybe_unused]] State<R>& run) {
  if constexpr (requires { run.parts.looks.detach(); }) run.parts.looks.detach();
  if constexpr (may_leave_gradients<R>)
    if (run.parts.optimizers && std::exchange(run.parts.leaves_gradients, false))
      R::Backend::leave_gradients(run.parts.optimizers->optimizers, false);
}

/// Before the gradients of a batch.
template <class R, class Pack>
[[gnu::always_inline]] inline void begin_looks([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  if constexpr (looks_early<R, Pack>)
    if (run.parts.looks) [[unlikely]]
      run.parts.looks->begin(key.closes);
}

}  // namespace fulgurite::loop
