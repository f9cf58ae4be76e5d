#pragma once
// Manual optimization: the model's training_step drives its optimizers through its context.

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>

namespace fulgurite {

template <class O>
class BorrowedOptimizer;

namespace loop {
template <class O>
O& raw(BorrowedOptimizer<O>& handle);
}  // namespace loop

// The optimizer as a manual training_step sees it: everything except its step, which belongs to the context.

/// An optimizer in a manual training_step. Step it by the context:
///
///     auto& [g, d] = ctx.optimizers();
///     g.zero_grad();
///     ctx.backward(loss);
///     ctx.step(g);
///
/// A direct `g.step()` would skip the precision's unscaling, the hooks and the count of steps, so it does not compile.
template <class O>
class BorrowedOptimizer {
 public:
  static constexpr bool needs_closure = O::needs_closure;
  static constexpr bool stable_gradients = O::stable_gradients;

  /// `asked` receives what a recorded step reads or sets here.
  BorrowedOptimizer(O& optimizer, loop::Questions& asked) : optimizer_(&optimizer), asked_(&asked) {}

  void zero_grad() { optimizer_->zero_grad(); }
  std::size_t groups() const { return optimizer_->groups(); }
  double lr(std::size_t group = 0) const { return asked_->add(loop::Question::rate), optimizer_->lr(group); }
  void set_lr(std::size_t group, double value) {
    asked_->add(loop::Question::set_rate);
    optimizer_->set_lr(group, value);
  }
  decltype(auto) parameters() { return optimizer_->parameters(); }

  template <bool Fine = false, class... Args>
  void step(Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_OPTIMIZER_RAW_STEP);
  }

  /// The optimizer itself, for functions that the trainer does not know. If you step it, you bypass the trainer.
  O& unsafe_raw() { return asked_->add(loop::Question::optimizers), *optimizer_; }

 private:
  friend O& loop::raw<O>(BorrowedOptimizer& handle);

  O* optimizer_;
  loop::Questions* asked_;
};

/// The result of `ctx.optimizers()` in a manual training_step: a tuple of all optimizers. Using it like a single
/// optimizer, as Lightning's `self.optimizers()` allows, does not compile.
template <class... Os>
class BorrowedOptimizers : public std::tuple<BorrowedOptimizer<Os>...> {
 public:
  using std::tuple<BorrowedOptimizer<Os>...>::tuple;

  template <bool Fine = false>
  void zero_grad() {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }
};

namespace loop {
template <class O>
O& raw(BorrowedOptimizer<O>& handle) {
  return *handle.optimizer_;
}
template <class O>
O& raw(O& optimizer) {
  return optimizer;
}

template <class... Os>
BorrowedOptimizers<Os...> borrowed(std::tuple<Os...>& optimizers, Questions& asked) {
  return std::apply(
      [&](Os&... optimizer) { return BorrowedOptimizers<Os...>(BorrowedOptimizer<Os>(optimizer, asked)...); },
      optimizers);
}

// The scope in which only one optimizer's parameters receive gradients.

/// The result of a ctx.toggle that does not compile. Its destructor keeps compilers from warning of an unused variable.
struct NotToggled {
  ~NotToggled() {}
  void untoggle() {}
};

/// With several processes: whether gradients are exchanged after a backward in the scope.
template <class OfStrategy>
struct Unsynced {
  [[no_unique_address]] OfStrategy of_strategy;
  Instead<bool> syncs;
};
}  // namespace loop

/// The scope that ctx.toggle returns.
template <class Gradients, class Exchange>
class Toggled : Pinned {
 public:
  template <class G, class E>
  Toggled(G&& gradients, E&& exchange)
      : gradients_(std::in_place, loop::InPlace{gradients}), exchange_(std::in_place, loop::InPlace{exchange}) {}
  /// Restores which parameters receive gradients; the end of the scope does the same.
  void untoggle() {
    exchange_.reset();
    gradients_.reset();
  }

 private:
  std::optional<Gradients> gradients_;
  std::optional<Exchange> exchange_;
};

/// Options of ctx.toggle(optimizer).
struct ToggleOptions {
  bool sync_grad = true;  ///< false: processes do not exchange gradients in the scope
};

/// The context of a manual `training_step(batch, ctx)`: a RunContext with backward, step, minimize and toggle. Each
/// call runs the hooks, the precision and the strategy.
///
///     void training_step(Batch const& batch, auto& ctx) {
///       auto& [g, d] = ctx.optimizers();
///       ctx.minimize(d, discriminator_loss(batch));
///       ctx.minimize(g, generator_loss(batch));
///     }
template <class R, class Pack>
class StepContext : public RunContext<R, phase::Train> {
  using Base = RunContext<R, phase::Train>;
  using Backend = typename R::Backend;
  using Handles = decltype(loop::borrowed(std::declval<loop::State<R>&>().parts.optimizers->optimizers,
                                          std::declval<loop::Questions&>()));

 public:
  StepContext(loop::State<R>& state, Pack& pack)
      : Base(state), pack_(&pack), handles_(loop::borrowed(state.parts.optimizers->optimizers, state.questions)) {}

  /// All optimizers: `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() { return handles_; }
  /// Refused: exists in automatic optimization only.
  template <bool Fine = false>
  auto optimizer() -> std::tuple_element_t<0, Handles>& {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return std::get<0>(handles_);
  }

  /// Runs backward and adds to the gradients. Clear them before with `optimizer.zero_grad()`.
  template <class Loss>
    requires(Backend::template is_value<Loss>)
  void backward(Loss const& made) {
    Base& ctx = *this;
    auto& run = this->state();
    run.watch.manual.before_backward(run, run.parts.optimizers->optimizers);
    loop::check_loss_type(run, &made);
    // Before there is another handle: what waits on a device would be copied.
    in_turn(loop::Turn::looks_at_loss, made, [&] { loop::check_loss(run, made); });
    Loss loss = made;
    if constexpr (hook::pre_backward::named<typename R::Strategy>) run.parts.strategy.pre_backward(loss);
    loop::notify<hook::on_before_backward>(run, *pack_, loss, ctx);
    {
      [[maybe_unused]] auto const watched = pack_->template profile<action::backward<R>>();
      loop::backward(run, ctx, loss, 1.0);
    }
    loop::notify<hook::on_after_backward>(run, *pack_, ctx);
    if constexpr (hook::post_backward::named<typename R::Strategy>) run.parts.strategy.post_backward(loss);
    if constexpr (loop::shares<R>)
      if (run.shared.syncs) loop::exchange(run);
    run.watch.manual.after_backward(run, run.parts.optimizers->optimizers);
  }
  template <class NoLoss, bool Fine = false>
    requires(!Backend::template is_value<NoLoss>)
  void backward(NoLoss const&) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_BACKWARD_LOSS);
  }

  /// Makes one update with the current gradients; counts as a step.
  template <class O>
  void step(O& optimizer) {
    static_assert(!O::needs_closure, FULGURITE_SENTENCE_OPTIMIZER_CLOSURE);
    if constexpr (!O::needs_closure) {
      auto& stepped = loop::raw(optimizer);
      in_turn(loop::turn_of(this->state().parts.optimizers->place_of(stepped)), {}, [&] {
        before(stepped);
        {
          [[maybe_unused]] auto const watched = pack_->template profile<action::optimizer_step<R>>();
          loop::guarded(this->state(), true, [&] { stepped.step(); });
        }
        unscaled_ = nullptr;
        ++this->state().progress.global_step;
      });
    }
  }

  template <class... Os, class... Args, bool Fine = false>
  void step(BorrowedOptimizers<Os...>&, Args const&...) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
  }

  /// Clips the gradients of one optimizer, between backward and step. If the loss was scaled, they are unscaled first.
  template <class O>
  auto clip_gradients(O& optimizer, Clip how) {
    auto& clipped = loop::raw(optimizer);
    auto& run = this->state();
    unscale(clipped);
    // Clipped by its norm, a gradient that is not finite stays so, and the look before the update finds it.
    if (how.kind == Clip::Kind::value)
      in_turn(loop::looks_at_gradients_of(run.parts.optimizers->place_of(clipped)), {},
              [&] { loop::check_gradients(run, clipped); });
    else loop::check_gradients(run, clipped);
    return Base::clip_gradients(clipped, how);
  }

  template <class... Os, bool Fine = false>
  auto clip_gradients(BorrowedOptimizers<Os...>&, Clip) -> typename R::Value {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return {};
  }

  /// Makes one update with a closure that clears, runs backward and returns the loss. The optimizer may run it again.
  template <class O, class Closure>
  void step(O& optimizer, Closure&& closure) {
    if constexpr (O::needs_closure) {
      auto& stepped = loop::raw(optimizer);
      auto whole = [&] {
        auto loss = closure();
        before(stepped);
        loop::evaluated(this->state());
        return loss;
      };
      {
        [[maybe_unused]] auto const watched = pack_->template profile<action::optimizer_step<R>>();
        loop::closure_step(this->state(), stepped, [&] { stepped.step(whole); });
      }
      unscaled_ = nullptr;
      ++this->state().progress.global_step;
    } else {
      closure();
      step(optimizer);
    }
  }

  /// Toggle, clear, backward and step in one call, as a GAN does for each of its networks.
  template <class O, class Loss>
    requires(!Backend::template is_value<O>)
  void minimize(O& optimizer, Loss const& loss) {
    [[maybe_unused]] auto const only_its_parameters = toggle(optimizer);
    optimizer.zero_grad();
    backward(loss);
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

  /// While the returned scope lives, or until its `untoggle()`, only parameters of this optimizer, and those of no
  /// optimizer, receive gradients. With `{.sync_grad = false}` processes do not exchange gradients either, as while
  /// accumulating.
  ///
  ///     {
  ///       auto const only_g = ctx.toggle(g);
  ///       ctx.backward(loss);
  ///     }
  template <class O>
  [[nodiscard]] auto toggle(O& optimizer, ToggleOptions options = {}) {
    auto& state = this->state();
    if constexpr (loop::shares<R>)
      if (!options.sync_grad)
        state.shared.own_gradients |= std::uint64_t{1} << state.parts.optimizers->place_of(loop::raw(optimizer));
    auto gradients = [&] { return Backend::toggled(loop::raw(optimizer), state.parts.optimizers->optimizers); };
    auto strategy = [&] {
      if constexpr (hook::no_sync::named<typename R::Strategy>) return state.parts.strategy.no_sync(!options.sync_grad);
      else return loop::Nothing{};
    };
    auto exchange = [&] {
      if constexpr (loop::shares<R>)
        return loop::Unsynced<decltype(strategy())>{strategy(), {state.shared.syncs, options.sync_grad}};
      else return strategy();
    };
    return Toggled<decltype(gradients()), decltype(exchange())>(gradients, exchange);
  }

  template <class... Os, bool Fine = false>
  [[nodiscard]] loop::NotToggled toggle(BorrowedOptimizers<Os...>&, ToggleOptions = {}) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_ALL_OPTIMIZERS);
    return {};
  }

  /// For manual accumulation: true if this batch ends a window of `batches` batches, or the epoch, so that no window
  /// continues in the next epoch, unless the loader leaves out the epoch's last batch. Throws
  /// [fulgurite.manual.end_unknown] if the loader does not let the end be known before the step, since the last
  /// gradients would be lost.
  bool closes_window(int batches) const {
    check_length("closes_window", batches);
    if (batches > 1 && this->state().facts.end_unknown) [[unlikely]]
      throw Error(
          "fulgurite.manual.end_unknown",
          "closes_window(" + std::to_string(batches) +
              ") has to know the epoch's last batch before its step, "
              "and the training loader has no size() and does not promise that batches stay valid: give it size(), "
              "or `static constexpr bool batches_stay_valid = true` if it may be read one batch ahead");
    return (this->batch_idx() + 1) % batches == 0 || this->is_last_batch();
  }
  /// The batches of the window so far, this one included. At its last batch, 1 / window_size is the weight of each.
  int window_size(int batches) const {
    check_length("window_size", batches);
    return static_cast<int>(this->batch_idx() % batches) + 1;
  }

 private:
  static void check_length(char const* function, int batches) {
    if (batches < 1) [[unlikely]]
      loop::check_window(function, batches, false);
  }
  /// Does what a replay of this step has to do, too. What hooks ask in it is no part of the step.
  template <class F>
  void in_turn([[maybe_unused]] loop::Turn turn, [[maybe_unused]] typename R::Value const& loss, F&& f) {
    if constexpr (ChecksReplays<typename R::Strategy>) {
      auto& run = this->state();
      auto const asked = run.questions;
      run.parts.strategy.in_turn(turn, loss, f);
      run.questions = asked;
    } else {
      f();
    }
  }
  template <class O>
  void unscale(O& optimizer) {
    if constexpr (loop::scales_loss<R>) {
      if (unscaled_ == &optimizer) return;
      if (unscaled_)
        throw Error("fulgurite.manual.clip_order",
                    "the gradients of one optimizer were clipped, then those of another were asked for: step "
                    "each optimizer before the next one is clipped");
      unscaled_ = &optimizer;
      loop::unscale(this->state(), optimizer);
    }
  }

  template <class O>
  void before(O& optimizer) {
    Base& ctx = *this;
    auto& run = this->state();
    run.watch.manual.before_step(run, run.parts.optimizers->optimizers, optimizer);
    loop::note_step(run, optimizer);
    unscale(optimizer);
    loop::notify<hook::on_before_optimizer_step>(this->state(), *pack_, optimizer, ctx);
    loop::check_gradients(run, optimizer);
  }

  Pack* pack_;
  Handles handles_;
  void const* unscaled_ = nullptr;  ///< the optimizer whose gradients were unscaled and not stepped yet
};

namespace loop {

/// A step of manual optimization, as StepSeam takes it.
template <class R, class Pack>
class ManualStep {
 public:
  ManualStep(State<R>& run, Pack& pack) : run_(run), pack_(pack) {}

  template <class Batch>
  std::tuple<> operator()(Batch& batch, StepKey) {
    within([&](auto& ctx) {
      [[maybe_unused]] auto const watched = pack_.template profile<action::training_step<R>>();
      call_step<hook::training_step>(*run_.parts.model, batch, ctx);
    });
    return {};
  }
  void act(Turn turn, typename R::Value const& loss) {
    if (turn == Turn::looks_at_loss) return check_loss(run_, loss);
    within([&](auto& ctx) {
      each_of(run_.parts.optimizers->optimizers, [&, place = std::size_t{0}](auto& optimizer) mutable {
        if (looks_at_gradients_of(place) == turn) check_gradients(run_, optimizer);
        if constexpr (!std::remove_reference_t<decltype(optimizer)>::needs_closure)
          if (turn_of(place) == turn) ctx.step(optimizer);
        ++place;
      });
    });
  }

 private:
  template <class F>
  void within(F&& f) {
    StepContext<R, Pack> ctx(run_, pack_);
    [[maybe_unused]] auto const scope = R::Backend::autocast(run_.parts.precision, run_.parts.strategy.device());
    [[maybe_unused]] auto const products = products_scope(run_);
    [[maybe_unused]] auto const watch = watch_factories(run_);
    f(ctx);
  }

  State<R>& run_;
  Pack& pack_;
};

template <class R, class Pack, class Batch>
void manual_step(State<R>& run, Pack& pack, Batch& batch) {
  [[maybe_unused]] auto const watched = pack.template profile<action::run_training_batch>();
  ManualStep<R, Pack> body(run, pack);
  constexpr StepKey key{true, true, 1};
  if constexpr (ChecksReplays<typename R::Strategy>) {
    StepSeam<R, decltype(body)> seam(run, key, body);
    run.parts.strategy.gradients(key, batch, run.measured.train_board, seam);
    pass_warnings_of_strategy(run);
  } else {
    body(batch, key);
  }
  run.facts.types_seen = true;
}

}  // namespace loop
}  // namespace fulgurite

template <class... Os>
struct std::tuple_size<fulgurite::BorrowedOptimizers<Os...>> : std::tuple_size<std::tuple<Os...>> {};
template <std::size_t I, class... Os>
struct std::tuple_element<I, fulgurite::BorrowedOptimizers<Os...>>
    : std::tuple_element<I, std::tuple<fulgurite::BorrowedOptimizer<Os>...>> {};
