#pragma once
// Large gradients of steps that this process makes alone: they stay where backward makes them, and are looked at as
// soon as they are there, not when the update is due, where nobody can have changed them in between.

#include <type_traits>

#include <fulgurite/core/each_of.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/policy/checks_replays.hpp>

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

/// When the optimizers of a fit are there.
template <class R, class Pack>
void arrange_gradients([[maybe_unused]] State<R>& run, Pack const&) {
  using Backend = typename R::Backend;
  if constexpr (requires { Backend::leave_gradients(run.parts.optimizers->optimizers, true); })
    Backend::leave_gradients(run.parts.optimizers->optimizers,
                             !shares<R> && !ChecksReplays<typename R::Strategy>);  // replays need them in one place
  if constexpr (looks_early<R, Pack>) {
    bool const clips_by_norm = run.asked.optimization.clip.kind == Clip::Kind::norm;  // the norm tells
    if (run.watch.finite.look == Look::on && !clips_by_norm) run.parts.looks.attach(*run.parts.model);
  }
}
/// When it has ended: the model is the user's again.
template <class R>
void leave_gradients_alone([[maybe_unused]] State<R>& run) {
  if constexpr (requires { run.parts.looks.detach(); }) run.parts.looks.detach();
}

/// Before the gradients of a batch.
template <class R, class Pack>
[[gnu::always_inline]] inline void begin_looks([[maybe_unused]] State<R>& run, [[maybe_unused]] StepKey key) {
  if constexpr (looks_early<R, Pack>)
    if (run.parts.looks) [[unlikely]]
      run.parts.looks->begin(key.closes);
}

}  // namespace fulgurite::loop
