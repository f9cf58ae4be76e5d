#pragma once
// Manual optimization: the model's training_step drives its optimizers through its context.

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/borrowed_optimizer.hpp>
#include <fulgurite/loop/closure_step.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/exchange.hpp>
#include <fulgurite/loop/guarded_update.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/precision_step.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/toggled.hpp>

namespace fulgurite {

/// How ctx.toggle(optimizer) shuts out the other optimizers.
struct ToggleOptions {
  bool sync_grad = true;  ///< of a distributed strategy, which has `no_sync(bool)`
};

/// What a manual `training_step(batch, ctx)` receives on top of a context. Each call goes through hooks, precision and
/// strategy.
template <class R, class Pack>
class StepContext : public Context<R, phase::Train> {
  using Base = Context<R, phase::Train>;
  using Backend = typename R::Backend;
  using Handles =
      loop::HandlesOf<std::remove_cvref_t<decltype(std::declval<loop::State<R>&>().parts.optimizers->optimizers)>>;

 public:
  StepContext(loop::State<R>& state, Pack& pack)
      : Base(state), pack_(&pack), handles_(Handles::of(state.parts.optimizers->optimizers)) {}

  /// `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() { return handles_; }
  /// Of automatic optimization alone.
  template <bool Fine = false>
  auto optimizer() -> std::tuple_element_t<0, typename Handles::type>& {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return std::get<0>(handles_);
  }

  /// Accumulates gradients of the loss. Clearing is yours: `optimizer.zero_grad()` before it.
  template <class Loss>
    requires(Backend::template is_value<Loss>)
  void backward(Loss loss) {
    Base& ctx = *this;
    auto& run = *this->state_;
    run.watch.manual.before_backward(run, run.parts.optimizers->optimizers);
    if constexpr (requires { run.parts.strategy.pre_backward(loss); }) run.parts.strategy.pre_backward(loss);
    loop::check_loss_type(run, &loss);
    loop::check_loss(run, loss);
    loop::tell<hook::on_before_backward>(run, *pack_, loss, ctx);
    hook::timed<action::backward<R>> (*pack_)([&] { loop::backward(run, ctx, loss, 1.0); });
    loop::tell<hook::on_after_backward>(run, *pack_, ctx);
    if constexpr (requires { run.parts.strategy.post_backward(loss); }) run.parts.strategy.post_backward(loss);
    if constexpr (loop::shares<R>)
      if (run.shared.syncs) loop::exchange(run);
    run.watch.manual.after_backward(run, run.parts.optimizers->optimizers);
  }
  template <class NoLoss, bool Fine = false>
    requires(!Backend::template is_value<NoLoss>)
  void backward(NoLoss const&) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_BACKWARD_LOSS);
  }

  /// One update with the gradients at hand; counts as a step.
  template <class O>
  void step(O& optimizer) {
    static_assert(!O::needs_closure, FULGURITE_SENTENCE_OPTIMIZER_CLOSURE);
    if constexpr (!O::needs_closure) {
      auto& stepped = loop::raw(optimizer);
      before(stepped);
      steps()([&] { loop::guarded(*this->state_, true, [&] { stepped.step(); }); });
      unscaled_ = nullptr;
      ++this->state_->progress.global_step;
    }
  }

  template <class... Os, class... Args, bool Fine = false>
  void step(BorrowedOptimizers<Os...>&, Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }

  /// Limits the gradients of one optimizer, between backward and step; a scaling precision unscales them first.
  template <class O>
  auto clip_gradients(O& optimizer, Clip how) {
    unscale(loop::raw(optimizer));
    loop::check_gradients(*this->state_, loop::raw(optimizer));
    return Base::clip_gradients(loop::raw(optimizer), how);
  }

  template <class... Os, bool Fine = false>
  auto clip_gradients(BorrowedOptimizers<Os...>&, Clip) -> typename R::Value {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return {};
  }

  /// The same with a closure that clears, runs backward and returns the loss; run once, or as often as the optimizer
  /// asks.
  template <class O, class Closure>
  void step(O& optimizer, Closure&& closure) {
    auto& stepped = loop::raw(optimizer);
    auto whole = [&] {
      auto loss = closure();
      before(stepped);
      if constexpr (O::needs_closure) loop::evaluated(*this->state_);
      return loss;
    };
    if constexpr (O::needs_closure) {
      steps()([&] { loop::closure_step(*this->state_, stepped, [&] { stepped.step(whole); }); });
    } else {
      whole();
      steps()([&] { loop::guarded(*this->state_, true, [&] { stepped.step(); }); });
    }
    unscaled_ = nullptr;
    ++this->state_->progress.global_step;
  }

  /// Toggle, clear, backward, step: what a GAN does for each of its networks.
  template <class O, class Loss>
    requires(!Backend::template is_value<O>)
  void minimize(O& optimizer, Loss loss) {
    [[maybe_unused]] auto const only_its_parameters = toggle(optimizer);
    optimizer.zero_grad();
    backward(std::move(loss));
    step(optimizer);
  }
  template <class Loss, class O, bool Fine = false>
    requires(Backend::template is_value<Loss>)
  void minimize(Loss const&, O const&) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MINIMIZE_ORDER);
  }

  template <class... Os, class Loss, bool Fine = false>
  void minimize(BorrowedOptimizers<Os...>&, Loss const&) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }

  /// While the returned scope lives, or until its `untoggle()`, parameters that belong to other optimizers alone
  /// receive no gradient; with `{.sync_grad = false}` processes do not exchange gradients either, as while
  /// accumulating.
  template <class O>
  [[nodiscard]] auto toggle(O& optimizer, ToggleOptions options = {}) {
    auto& state = *this->state_;
    auto gradients = [&] { return Backend::toggled(loop::raw(optimizer), state.parts.optimizers->optimizers); };
    auto strategy = [&] {
      if constexpr (requires { state.parts.strategy.no_sync(true); })
        return state.parts.strategy.no_sync(!options.sync_grad);
      else return loop::NothingToUndo{};
    };
    auto exchange = [&] {
      if constexpr (loop::shares<R>) return loop::Unsynced(strategy, state.shared.syncs, options.sync_grad);
      else return strategy();
    };
    return Toggled<decltype(gradients()), decltype(exchange())>(gradients, exchange);
  }

  template <class... Os, bool Fine = false>
  [[nodiscard]] loop::NotToggled toggle(BorrowedOptimizers<Os...>&, ToggleOptions = {}) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return {};
  }

  /// Accumulation by hand: this batch ends a window of `batches`, or the epoch, so that no window is carried over its
  /// end. An Error where the loader does not let the end be known before the step, since the last gradients would be
  /// lost.
  bool closes_window(int batches) const {
    if (batches > 1 && this->state_->facts.end_unknown) [[unlikely]]
      throw Error(
          "fulgurite.manual.end_unknown",
          "closes_window(" + std::to_string(batches) +
              ") has to know the epoch's last batch before its step, "
              "and the training loader has no size() and does not promise that batches stay valid: give it size(), "
              "or `static constexpr bool batches_stay_valid = true` if it may be read one batch ahead");
    return (this->batch_idx() + 1) % batches == 0 || this->is_last_batch();
  }
  /// Batches of the window at hand as far as they have come: 1 / window_size of the last one is the weight of each.
  int window_size(int batches) const { return static_cast<int>(this->batch_idx() % batches) + 1; }

 private:
  auto steps() { return hook::timed<action::optimizer_step<R>>(*pack_); }

  template <class O>
  void unscale(O& optimizer) {
    if constexpr (loop::scales_loss<R>) {
      if (unscaled_ == &optimizer) return;
      if (unscaled_)
        throw Error("fulgurite.manual.clip_order",
                    "the gradients of one optimizer were clipped, then those of another were asked for: step "
                    "each optimizer before the next one is clipped");
      unscaled_ = &optimizer;
      loop::unscale(*this->state_, optimizer);
    }
  }

  template <class O>
  void before(O& optimizer) {
    Base& ctx = *this;
    auto& run = *this->state_;
    run.watch.manual.before_step(run, run.parts.optimizers->optimizers, optimizer);
    loop::note_step(run, optimizer);
    unscale(optimizer);
    loop::tell<hook::on_before_optimizer_step>(*this->state_, *pack_, optimizer, ctx);
    loop::check_gradients(run, optimizer);
  }

  Pack* pack_;
  typename Handles::type handles_;
  void const* unscaled_ =
      nullptr;  ///< the optimizer whose gradients have been divided by the scale and not been stepped yet
};

namespace loop {

template <class R, class Pack, class Batch>
void manual_step(State<R>& run, Pack& pack, Batch& batch) {
  StepContext<R, Pack> ctx(run, pack);
  [[maybe_unused]] auto const scope = R::Backend::autocast(run.parts.precision, run.parts.strategy.device());
  [[maybe_unused]] auto const products = products_scope(run);
  [[maybe_unused]] auto const watch = watch_factories(run);
  [[maybe_unused]] auto const watched = pack.template profile<action::training_step<R>>();
  call_step<hook::training_step>(*run.parts.model, batch, ctx);
  run.facts.types_seen = true;
}

}  // namespace loop
}  // namespace fulgurite
