#pragma once
// One batch of automatic optimization: training_step, clearing, backward; at the end of a window clipping and the update.

#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/step_output.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite {

/// What an overridden `optimizer_step(optimizer, closure, ctx)` receives: `optimizer.step(closure)` does what the precision asks for.
template <class R, class O>
class SteppingOptimizer {
 public:
  SteppingOptimizer(loop::State<R>& run, O& optimizer) : run_(run), optimizer_(optimizer) {}

  /// Runs the closure (once, or as often as the optimizer asks) and updates the parameters.
  template <class Closure>
  void step(Closure&& closure) {
    if constexpr (O::needs_closure) {
      optimizer_.step(std::forward<Closure>(closure));
    } else {
      closure();
      loop::guarded(run_, run_.facts.has_gradients, [this] { optimizer_.step(); });
    }
  }
  O& optimizer() { return optimizer_; }

 private:
  loop::State<R>& run_;
  O& optimizer_;
};

namespace loop {

/// Somebody sees what the closure returns: an optimizer that evaluates it, or the model's own optimizer_step.
template <class R>
inline constexpr bool closure_is_shown =
    Optimizers<R>::needs_closure || hook::optimizer_step::named<typename R::Model>;

/// Gradients of one batch, through the strategy's seam. Everything in here is what a capture records.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto gradients(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key) {
  using Backend = typename R::Backend;
  auto& model = *run.model;
  auto& optimizer = std::get<0>(run.optimizers->optimizers);
  auto output = run.strategy.gradients(key, batch, run.train_board, [&](auto& taken) {
    auto result = [&] {
      [[maybe_unused]] auto const scope = Backend::autocast(run.precision, run.strategy.device());
      return call_training_step(model, taken, run.hidden, ctx);
    }();
    if (key.first) {
      tell<hook::on_before_zero_grad>(run, pack, optimizer, ctx);
      if constexpr (hook::optimizer_zero_grad::named<typename R::Model>)
        call_override<hook::optimizer_zero_grad>(model, ctx, optimizer);
      else optimizer.zero_grad();
    }
    if (auto* loss = loss_of<Backend>(result)) {
      if constexpr (requires { run.strategy.pre_backward(*loss); }) run.strategy.pre_backward(*loss);
      tell<hook::on_before_backward>(run, pack, *loss, ctx);
      backward(run, ctx, *loss, 1.0 / key.divisor);
      tell<hook::on_after_backward>(run, pack, ctx);
      if constexpr (requires { run.strategy.post_backward(*loss); }) run.strategy.post_backward(*loss);
    }
    return result;
  });
  if constexpr (scales_loss<R>) run.facts.has_gradients = loss_of<Backend>(output) != nullptr || (run.facts.has_gradients && !key.first);
  if constexpr (closure_is_shown<R>)
    if (auto* loss = loss_of<Backend>(output)) run.last_loss = Backend::detached(*loss, 1.0);
  return output;
}

/// Between the gradients and the update: unscaling, the hook, clipping.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void before_update(State<R>& run, Pack& pack, Ctx& ctx) {
  auto& model = *run.model;
  auto& optimizer = std::get<0>(run.optimizers->optimizers);
  if (run.facts.has_gradients) unscale(run, optimizer);
  tell<hook::on_before_optimizer_step>(run, pack, optimizer, ctx);
  Clip clip = run.optimization.clip;
  if constexpr (hook::configure_gradient_clipping::named<typename R::Model>)
    call_override<hook::configure_gradient_clipping>(model, ctx, optimizer, clip);
  else if (clip.kind != Clip::Kind::none) ctx.clip_gradients(optimizer, clip);
}

/// The scheduler's schedule follows a metric: it is told values instead of being counted on.
template <class S>
concept Observing = requires { requires S::observes; };

template <class Tuple>
inline constexpr bool any_observing = false;
template <class... Ss>
inline constexpr bool any_observing<std::tuple<Ss...>> = (Observing<Ss> || ...);
template <class R>
inline constexpr bool observes_any = any_observing<decltype(Optimizers<R>::schedulers)>;

/// A schedule moves after `optimizer` steps; an overriding model moves it itself.
template <class R, class Ctx>
void tick_schedulers(State<R>& run, Ctx& ctx, Interval interval) {
  run.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (!Observing<S>) {
      if (scheduler.interval() != interval || !scheduler.due()) return;
      if constexpr (hook::lr_scheduler_step::named<typename R::Model>)
        call_override<hook::lr_scheduler_step>(*run.model, ctx, scheduler);
      else scheduler.step();
    }
  });
}

/// The same of schedules that follow a metric: after the validation of a step, or when all has been said at the end of an epoch.
template <class R, class Ctx>
void observe_schedulers(State<R>& run, Ctx& ctx, Interval interval) {
  run.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (Observing<S>) {
      if (scheduler.interval() != interval || !scheduler.due()) return;
      auto const value = ctx.value(scheduler.metric());
      if (!value) {
        auto const name = std::string(std::remove_cvref_t<decltype(scheduler.metric())>::name());
        if (scheduler.strict())
          throw Error("fulgurite.schedule.metric", "a schedule follows '" + name + "', which nobody has logged by the end of epoch " +
                                                       std::to_string(ctx.current_epoch()) +
                                                       ": log it, or move the schedule when it is known ({.frequency = ...})");
        run.warn("fulgurite.schedule.metric", "a schedule follows '" + name + "', which has no value yet: it does not move");
      } else if constexpr (hook::lr_scheduler_step::named<typename R::Model>) {
        call_override<hook::lr_scheduler_step>(*run.model, ctx, scheduler);
      } else {
        scheduler.step(*value);
      }
    }
  });
}

/// The update of a window, with a closure that makes its (last) gradients and returns the loss. `repeatable`: evaluating the closure
/// again makes the same gradients again, since the window has no other batch.
template <class R, class Ctx, class Closure>
[[gnu::always_inline]] inline void update(State<R>& run, Ctx& ctx, [[maybe_unused]] bool repeatable, Closure&& closure) {
  auto& optimizer = std::get<0>(run.optimizers->optimizers);
  using Optimizer = std::remove_cvref_t<decltype(optimizer)>;
  if constexpr (hook::optimizer_step::named<typename R::Model>) {
    int runs = 0;
    auto counted = [&] {
      if (++runs > 1 && !repeatable)
        throw Error("fulgurite.hook.closure_repeated", "optimizer_step ran its closure again in a window of several batches, which would "
                                                       "repeat the last of them alone: use accumulate_grad_batches = 1");
      return closure();
    };
    SteppingOptimizer<R, Optimizer> stepping(run, optimizer);
    call_override<hook::optimizer_step>(*run.model, ctx, stepping, counted);
    if (runs == 0)
      throw Error("fulgurite.hook.closure_not_run",
                  "optimizer_step never ran its closure, so this batch had no training_step: call optimizer.step(closure)");
  } else if constexpr (Optimizer::needs_closure) {
    optimizer.step(closure);
  } else {
    closure();
    guarded(run, run.facts.has_gradients, [&] { optimizer.step(); });
  }
  ++run.progress.global_step;
  tick_schedulers(run, ctx, Interval::step);
}

/// One batch. Returns the step's result (the last one, where a closure was evaluated several times).
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_step(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key, double rescale) {
  using Backend = typename R::Backend;
  if (!key.closes) return gradients(run, pack, ctx, batch, key);
  using Result = decltype(gradients(run, pack, ctx, batch, key));
  std::optional<Result> result;
  update(run, ctx, key.first, [&] {
    if (result) run.train_board.discard_step();
    result.emplace(gradients(run, pack, ctx, batch, key));
    if (rescale != 1.0) Backend::scale_gradients(std::get<0>(run.optimizers->optimizers).parameters(), rescale);
    before_update(run, pack, ctx);
    if constexpr (closure_is_shown<R>) return loss_of<Backend>(*result) ? run.last_loss : typename Backend::Value{};
    else return typename Backend::Value{};
  });
  return std::move(*result);
}

/// A window that has to end before its last batch (a stop): its gradients, the mean of the batches seen, are stepped, not lost.
template <class R, class Pack, class Ctx>
void flush_window(State<R>& run, Pack& pack, Ctx& ctx, double rescale) {
  update(run, ctx, false, [&] {
    run.strategy.flush(std::get<0>(run.optimizers->optimizers), rescale);
    before_update(run, pack, ctx);
    return run.last_loss;
  });
}

}  // namespace loop
}  // namespace fulgurite
