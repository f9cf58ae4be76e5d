#pragma once
// One batch of automatic optimization: its gradients, and at the end of a window clipping and the update.

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/closure_step.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/early_looks.hpp>
#include <fulgurite/loop/exchange.hpp>
#include <fulgurite/loop/guarded_update.hpp>
#include <fulgurite/loop/moving_schedules.hpp>
#include <fulgurite/loop/step_gradients.hpp>

namespace fulgurite {

/// What an overridden `optimizer_step(optimizer, closure, ctx)` receives: `optimizer.step(closure)` does what the
/// precision asks for.
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

/// Between the gradients and the update: unscaling, the hook, a look at them, clipping. `as_made`: the gradients are
/// those that backward has just made.
template <class R, class Pack, class Ctx>
[[gnu::always_inline]] inline void before_update(State<R>& run, Pack& pack, Ctx& ctx, typename R::Value const* loss,
                                                 bool as_made) {
  bool const seen = as_made && looks_early<R, Pack>;
  auto& model = *run.parts.model;
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  if (run.facts.has_gradients) unscale(run, optimizer);
  tell<hook::on_before_optimizer_step>(run, pack, optimizer, ctx);
  [[maybe_unused]] auto const watched = pack.template profile<action::clipping<R>>();
  Clip clip = run.asked.optimization.clip;
  if constexpr (hook::configure_gradient_clipping::named<typename R::Model>) {
    check_gradients(run, optimizer, loss, seen);
    call_override<hook::configure_gradient_clipping>(model, ctx, optimizer, clip);
  } else if (clip.kind == Clip::Kind::norm) {
    check_norm(run, optimizer, ctx.clip_gradients(optimizer, clip), loss);
  } else {
    check_gradients(run, optimizer, loss, seen);
    if (clip.kind == Clip::Kind::value) ctx.clip_gradients(optimizer, clip);
  }
}

/// The update of a window, with a closure that makes its (last) gradients and returns the loss. `repeatable`:
/// evaluating the closure again makes the same gradients again, since the window has no other batch.
template <class R, class Pack, class Ctx, class Closure>
[[gnu::always_inline]] inline void update(State<R>& run, Pack& pack, Ctx& ctx, [[maybe_unused]] bool repeatable,
                                          Closure&& closure) {
  auto const steps = hook::timed<action::optimizer_step<R>>(pack);
  auto& optimizer = std::get<0>(run.parts.optimizers->optimizers);
  using Optimizer = std::remove_cvref_t<decltype(optimizer)>;
  if constexpr (hook::optimizer_step::named<typename R::Model>) {
    int runs = 0;
    auto counted = [&] {
      if (++runs > 1 && !repeatable)
        throw Error("fulgurite.hook.closure_repeated",
                    "optimizer_step ran its closure again in a window of several batches, which would "
                    "repeat the last of them alone: use accumulate_grad_batches = 1");
      return closure();
    };
    SteppingOptimizer<R, Optimizer> stepping(run, optimizer);
    auto const step = [&] { call_override<hook::optimizer_step>(*run.parts.model, ctx, stepping, counted); };
    steps([&] {
      if constexpr (Optimizer::needs_closure) closure_step(run, optimizer, step);
      else step();
    });
    if (runs == 0)
      throw Error(
          "fulgurite.hook.closure_not_run",
          "optimizer_step never ran its closure, so this batch had no training_step: call optimizer.step(closure)");
    require_left_out(run);
  } else if constexpr (Optimizer::needs_closure) {
    steps([&] { closure_step(run, optimizer, [&] { optimizer.step(closure); }); });
  } else {
    closure();
    steps([&]() __attribute__((always_inline)) { guarded(run, run.facts.has_gradients, [&] { optimizer.step(); }); });
  }
  ++run.progress.global_step;
  tick_schedulers(run, ctx, Interval::step);
}

/// One batch. Returns the step's result (the last one, where a closure was evaluated several times).
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_step(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch, StepKey key,
                                                  double rescale) {
  using Backend = typename R::Backend;
  if (!key.closes) [[unlikely]]
    return gradients(run, pack, ctx, batch, key);
  using Result = decltype(gradients(run, pack, ctx, batch, key));
  std::optional<Result> result;
  update(run, pack, ctx, key.first, [&] {
    if (result) run.measured.train_board.discard_step();
    result.emplace(gradients(run, pack, ctx, batch, key));
    if (rescale != 1.0) Backend::scale_gradients(std::get<0>(run.parts.optimizers->optimizers).parameters(), rescale);
    if constexpr (shares<R>) hook::timed<action::exchange<R>>(pack)([&] { exchange(run); });
    before_update(run, pack, ctx, loss_of<Backend>(*result), rescale == 1.0);
    if constexpr (Optimizers<R>::needs_closure) evaluated(run);
    if constexpr (closure_is_shown<R>) return loss_of<Backend>(*result) ? run.carried.loss : typename Backend::Value{};
    else return typename Backend::Value{};
  });
  return std::move(*result);
}

/// A window that has to end before its last batch (a stop): its gradients, the mean of the batches seen, are stepped,
/// not lost. Under several ranks the others step, too, also where this one has seen none (`rescale` is 0 then). Whether
/// there was a step.
template <class R, class Pack, class Ctx>
bool flush_window(State<R>& run, Pack& pack, Ctx& ctx, double rescale) {
  auto const flush = [&] { run.parts.strategy.flush(std::get<0>(run.parts.optimizers->optimizers), rescale); };
  if constexpr (shares<R>) {
    bool const contributes = rescale != 0;
    if (contributes) flush();
    else std::get<0>(run.parts.optimizers->optimizers).zero_grad();  // those of the last step
    if (!exchange(run, contributes)) return false;
  }
  update(run, pack, ctx, false, [&] {
    if constexpr (!shares<R>) flush();
    before_update(run, pack, ctx, nullptr, false);
    return run.carried.loss;
  });
  return true;
}

}  // namespace loop
}  // namespace fulgurite
