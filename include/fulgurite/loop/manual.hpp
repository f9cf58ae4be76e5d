#pragma once
// Manual optimization: the model's training_step drives its optimizers through its context.

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/borrowed_optimizer.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite {

struct ToggleOptions {
  bool sync_grad = true;  ///< of a distributed strategy, which has `no_sync(bool)`
};

namespace loop {
/// Makes a value in place that can neither be copied nor moved.
template <class F>
struct InPlace {
  F make;
  operator decltype(std::declval<F&>()())() { return make(); }
};
template <class F>
InPlace(F) -> InPlace<F>;

struct NothingToUndo {};
}  // namespace loop

/// The scope that ctx.toggle returns.
template <class Gradients, class Exchange>
class Toggled {
 public:
  template <class G, class E>
  Toggled(G&& gradients, E&& exchange) : gradients_(std::in_place, loop::InPlace{gradients}), exchange_(std::in_place, loop::InPlace{exchange}) {}
  Toggled(Toggled const&) = delete;
  Toggled& operator=(Toggled const&) = delete;
  /// Parameters receive gradients again as they did before; the end of the scope does the same.
  void untoggle() {
    exchange_.reset();
    gradients_.reset();
  }

 private:
  std::optional<Gradients> gradients_;
  std::optional<Exchange> exchange_;
};

/// What a manual `training_step(batch, ctx)` receives on top of a context. Each call goes through hooks, precision and strategy.
template <class R, class Pack>
class StepContext : public Context<R, phase::Train> {
  using Base = Context<R, phase::Train>;
  using Backend = typename R::Backend;
  using Handles = loop::HandlesOf<std::remove_cvref_t<decltype(std::declval<loop::State<R>&>().optimizers->optimizers)>>;

 public:
  StepContext(loop::State<R>& state, Pack& pack) : Base(state), pack_(&pack), handles_(Handles::of(state.optimizers->optimizers)) {}

  /// `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() { return handles_; }

  /// Accumulates gradients of the loss. Clearing is yours: `optimizer.zero_grad()` before it.
  template <class Loss>
  void backward(Loss loss) {
    Base& ctx = *this;
    auto& run = *this->state_;
    run.manual_watch.before_backward(run, run.optimizers->optimizers);
    if constexpr (requires { run.strategy.pre_backward(loss); }) run.strategy.pre_backward(loss);
    loop::tell<hook::on_before_backward>(run, *pack_, loss, ctx);
    loop::backward(run, ctx, loss, 1.0);
    loop::tell<hook::on_after_backward>(run, *pack_, ctx);
    if constexpr (requires { run.strategy.post_backward(loss); }) run.strategy.post_backward(loss);
    run.manual_watch.after_backward(run, run.optimizers->optimizers);
  }

  /// One update with the gradients at hand; counts as a step.
  template <class O>
  void step(O& optimizer) {
    static_assert(!O::needs_closure,
                  "[fulgurite.optimizer.closure] this optimizer evaluates the loss several times a step: call ctx.step(optimizer, closure)");
    if constexpr (!O::needs_closure) {
      auto& stepped = loop::raw(optimizer);
      before(stepped);
      loop::guarded(*this->state_, true, [&] { stepped.step(); });
      unscaled_ = nullptr;
      ++this->state_->progress.global_step;
    }
  }

  /// Limits the gradients of one optimizer, between backward and step; a scaling precision unscales them first.
  template <class O>
  void clip_gradients(O& optimizer, Clip how) {
    unscale(loop::raw(optimizer));
    Base::clip_gradients(loop::raw(optimizer), how);
  }

  /// The same with a closure that clears, runs backward and returns the loss; run once, or as often as the optimizer asks.
  template <class O, class Closure>
  void step(O& optimizer, Closure&& closure) {
    auto& stepped = loop::raw(optimizer);
    auto whole = [&] {
      auto loss = closure();
      before(stepped);
      return loss;
    };
    if constexpr (O::needs_closure) {
      stepped.step(whole);
    } else {
      whole();
      loop::guarded(*this->state_, true, [&] { stepped.step(); });
    }
    unscaled_ = nullptr;
    ++this->state_->progress.global_step;
  }

  /// Toggle, clear, backward, step: what a GAN does for each of its networks.
  template <class O, class Loss>
  void minimize(O& optimizer, Loss loss) {
    [[maybe_unused]] auto const only_its_parameters = toggle(optimizer);
    optimizer.zero_grad();
    backward(std::move(loss));
    step(optimizer);
  }

  /// While the returned scope lives, or until its `untoggle()`, parameters that belong to other optimizers alone receive no gradient;
  /// with `{.sync_grad = false}` processes do not exchange gradients either, as while accumulating.
  template <class O>
  [[nodiscard]] auto toggle(O& optimizer, ToggleOptions options = {}) {
    auto& state = *this->state_;
    auto gradients = [&] { return Backend::toggled(loop::raw(optimizer), state.optimizers->optimizers); };
    auto exchange = [&] {
      if constexpr (requires { state.strategy.no_sync(true); }) return state.strategy.no_sync(!options.sync_grad);
      else return loop::NothingToUndo{};
    };
    return Toggled<decltype(gradients()), decltype(exchange())>(gradients, exchange);
  }

  /// Accumulation by hand: this batch ends a window of `batches`, or the epoch, so that no window is carried over its end.
  bool closes_window(int batches) const { return (this->batch_idx() + 1) % batches == 0 || this->is_last_batch(); }
  /// Batches of the window at hand as far as they have come: 1 / window_size of the last one is the weight of each.
  int window_size(int batches) const { return static_cast<int>(this->batch_idx() % batches) + 1; }

 private:
  template <class O>
  void unscale(O& optimizer) {
    if constexpr (loop::scales_loss<R>) {
      if (unscaled_ == &optimizer) return;
      if (unscaled_)
        throw Error("fulgurite.manual.clip_order", "the gradients of one optimizer were clipped, then those of another were asked for: step "
                                                   "each optimizer before the next one is clipped");
      unscaled_ = &optimizer;
      loop::unscale(*this->state_, optimizer);
    }
  }

  template <class O>
  void before(O& optimizer) {
    Base& ctx = *this;
    auto& run = *this->state_;
    run.manual_watch.before_step(run, run.optimizers->optimizers, optimizer);
    unscale(optimizer);
    loop::tell<hook::on_before_optimizer_step>(*this->state_, *pack_, optimizer, ctx);
  }

  Pack* pack_;
  typename Handles::type handles_;
  void const* unscaled_ = nullptr;  ///< the optimizer whose gradients have been divided by the scale and not been stepped yet
};

namespace loop {

template <class R, class Pack, class Batch>
void manual_step(State<R>& run, Pack& pack, Batch& batch) {
  StepContext<R, Pack> ctx(run, pack);
  [[maybe_unused]] auto const scope = R::Backend::autocast(run.precision, run.strategy.device());
  call_step<hook::training_step>(*run.model, batch, ctx);
}

}  // namespace loop
}  // namespace fulgurite
