#pragma once
// The verdict on a trainer, and on each call of it: concepts, rules and hooks against the contexts they will receive.

#include <concepts>
#include <exception>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/verdict.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/judge_capture.hpp>
#include <fulgurite/loop/manual.hpp>

namespace fulgurite::judge {

/// The phase in which a hook's context is.
template <Where Place>
struct PhaseAt : std::type_identity<phase::Fit> {};
template <>
struct PhaseAt<Where::train> : std::type_identity<phase::Train> {};
template <>
struct PhaseAt<Where::train_end> : std::type_identity<phase::TrainEnd> {};
template <>
struct PhaseAt<Where::validate> : std::type_identity<phase::Validate> {};
template <>
struct PhaseAt<Where::validate_end> : std::type_identity<phase::ValidateEnd> {};
template <>
struct PhaseAt<Where::test> : std::type_identity<phase::Test> {};
template <>
struct PhaseAt<Where::test_end> : std::type_identity<phase::TestEnd> {};
template <>
struct PhaseAt<Where::predict> : std::type_identity<phase::Predict> {};
template <class R, class Hook>
using ContextOf = Context<R, typename PhaseAt<Hook::where>::type>;

/// Events that receive nothing but ctx, and the model's overrides that do. Of what takes more, that Manual never calls it.
template <class R, class T>
consteval HookVerdict plain_hooks() {
  constexpr bool is_strategy = std::is_same_v<T, typename R::Strategy>;
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!hook::NAME::named<T> || (is_strategy && !loop::strategy_hears<hook::NAME>)) {                         \
  } else if constexpr (hook::NAME::takes == Takes::nothing) {                                                          \
    constexpr auto fault = hook::event_fault<hook::NAME, T, R::automatic, ContextOf<R, hook::NAME>>();                 \
    if (fault != HookFault::none) return {fault, HookId::NAME};                                                        \
  } else if constexpr (!R::automatic && !hook::NAME::in_manual) {                                                      \
    return {HookFault::never_called, HookId::NAME};                                                                    \
  }
  FULGURITE_EVENTS(FULGURITE_ROW)
  if constexpr (std::is_same_v<T, typename R::Model>) { FULGURITE_OVERRIDES(FULGURITE_ROW) }
#undef FULGURITE_ROW
  return {};
}

/// Loader factories and prepare_data are called with nothing.
template <class T>
consteval HookVerdict data_calls() {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (hook::NAME::takes == Takes::nothing && hook::NAME::named<T> && !hook::NAME::accepts<T>)                          \
    return {HookFault::parameters, HookId::NAME};
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}
/// A logger's functions are called as names.hpp and frame.hpp do.
template <class T>
consteval HookVerdict logger_calls() {
  if (hook::log_metrics::named<T> && !hook::log_metrics::accepts<T, std::span<Scalar const> const, long>)
    return {HookFault::parameters, HookId::log_metrics};
  if (hook::finalize::named<T> && !hook::finalize::accepts<T, Status>) return {HookFault::parameters, HookId::finalize};
  return {};
}

/// What an entry of configure_optimizers' answer consists of.
template <class T>
struct Parts {
  using Optimizer = T;
  static constexpr bool scheduled_well = true;
};
template <class O, class S, bool Configured>
struct Parts<Scheduled<O, S, Configured>> {
  using Optimizer = O;
  static constexpr bool scheduled_well = ScheduleLike<S>;
};
template <class Backend, class T>
concept Optimizes = std::is_same_v<T, NoOptimizer> || requires(T& optimizer) {
  requires OptimizerLike<std::remove_cvref_t<decltype(Backend::adopt(std::move(optimizer)))>>;
};

/// The metric that a schedule follows is one of the model's.
template <class Metrics, class T>
inline constexpr bool follows_declared = true;
template <class Metrics, class O, class S, bool Configured>
  requires requires { typename S::Watches; }
inline constexpr bool follows_declared<Metrics, Scheduled<O, S, Configured>> = watches_declared<Metrics, S>();
template <class Metrics, class List>
inline constexpr bool all_follow_declared = false;
template <class Metrics, class... Os>
inline constexpr bool all_follow_declared<Metrics, OptimizerList<Os...>> = (follows_declared<Metrics, Os> && ...);

template <class Backend, class List>
inline constexpr bool all_optimize = false;
template <class Backend, class... Os>
inline constexpr bool
    all_optimize<Backend, OptimizerList<Os...>> = sizeof...(Os) != 0 &&
                                                  (Optimizes<Backend, typename Parts<Os>::Optimizer> && ...);
template <class List>
inline constexpr bool all_scheduled_well = false;
template <class... Os>
inline constexpr bool all_scheduled_well<OptimizerList<Os...>> = (Parts<Os>::scheduled_well && ...);

/// Interval and frequency were given to a schedule.
template <class T>
inline constexpr bool is_configured = false;
template <class O, class S>
inline constexpr bool is_configured<Scheduled<O, S, true>> = true;
template <class List>
inline constexpr bool any_configured = false;
template <class... Os>
inline constexpr bool any_configured<OptimizerList<Os...>> = (is_configured<Os> || ...);

template <class R>
using Returned = std::remove_cvref_t<decltype(loop::configure_optimizers<R>(std::declval<typename R::Model&>(),
                                                                            std::declval<Context<R, phase::Fit>&>()))>;

/// What it returns is moved into the run.
template <class R>
inline constexpr bool returns_by_value = std::is_same_v<Returned<R>, decltype(loop::configure_optimizers<R>(std::declval<typename R::Model&>(),
                                                                              std::declval<Context<R, phase::Fit>&>()))>;

/// configure_optimizers returns optimizers, and as many as the mode can drive.
template <class R>
consteval Verdict optimizers() {
  using M = typename R::Model;
  if constexpr (!hook::configure_optimizers::accepts<M, Context<R, phase::Fit>> &&
                !hook::configure_optimizers::accepts<M>)
    return {Fault::hook, {HookFault::parameters, HookId::configure_optimizers}};
  else if constexpr (std::is_void_v<Returned<R>>) return {Fault::optimizer_type};
  else {
    using List = typename loop::AsList<Returned<R>>::type;
    if constexpr (!returns_by_value<R>) return {Fault::optimizer_type};
    else if constexpr (!all_optimize<typename R::Backend, List>) return {Fault::optimizer_type};
    else if constexpr (!all_scheduled_well<List>) return {Fault::schedule_type};
    else if constexpr (!all_follow_declared<typename R::Metrics, List>) return {Fault::schedule_metric};
    else if constexpr (!R::automatic && any_configured<List>) return {Fault::schedule_configured};
    else if constexpr (R::automatic && loop::Optimizers<R>::count != 1) return {Fault::one_optimizer};
    else if constexpr (!rule::closure_needs_unscaled::holds<typename R::Precision, loop::Optimizers<R>::needs_closure>)
      return {Fault::closure_needs_unscaled};
    else if constexpr (R::automatic) {
      using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
      if constexpr (!rule::capture_needs_stable_gradients::holds<typename R::Strategy, O::stable_gradients>)
        return {Fault::capture_needs_stable_gradients};
      else return {};
    } else {
      return {};
    }
  }
}

constexpr HookVerdict worst(HookVerdict a) { return a.fault == HookFault::none ? HookVerdict{} : a; }
template <class... Vs>
constexpr HookVerdict worst(HookVerdict a, Vs... rest) {
  return a.fault == HookFault::none ? worst(rest...) : a;
}
constexpr Verdict about(HookVerdict v) { return v ? Verdict{Fault::hook, v} : Verdict{}; }

/// What one callback needs of the run that it is put into.
template <class R, class C>
consteval Fault need() {
  using S = typename R::Strategy;
  if (!R::automatic && needs_automatic<C>()) return Fault::callback_needs_automatic;
  if (loop::Optimizers<R>::count != 1 && needs_one_optimizer<C>()) return Fault::callback_needs_one_optimizer;
  if (needs_backbone<C>() && !requires(typename R::Model& model) { model.backbone; }) return Fault::callback_needs_backbone;
  if (needs_single_process<C>() && S::is_distributed) return Fault::callback_single_process;
  if (varies_window<C>() && fixed_window<S>()) return Fault::fixed_window;
  if (replaces_weights<C>() && shards_parameters<S>()) return Fault::sharded_average;
  return Fault::none;
}

/// What callbacks need, each for itself and then together.
template <class R, class... Cs>
consteval Verdict needs() {
  Verdict found;
  int who = 0;
  ((++who, found = found.ok() ? Verdict{need<R, Cs>()}.by(who) : found), ...);
  if (!found.ok()) return found;
  auto const second = [](auto... is) {
    int at = 0, count = 0, who_is = 0;
    ((++at, count += is, who_is = count == 2 && is && who_is == 0 ? at : who_is), ...);
    return who_is;
  };
  if (int const at = second(replaces_weights<Cs>()...)) return Verdict{Fault::callback_one_average}.by(at);
  if (int const at = second((order_of<Cs>() == Order::progress)...)) return Verdict{Fault::callback_one_bar}.by(at);
  if (int const at = second((order_of<Cs>() == Order::summary)...)) return Verdict{Fault::callback_one_bar}.by(at);
  return {};
}

/// What belongs to truncated back-propagation stands together.
template <class R>
consteval Verdict recurrence() {
  using M = typename R::Model;
  if constexpr (Recurrent<M> && !R::automatic) return {Fault::hidden_manual};
  else if constexpr (!Recurrent<M> && hook::tbptt_split_batch::named<M>) return {Fault::hidden_split};
  else if constexpr (needs_configure_model<typename R::Strategy>() && !hook::configure_model::named<M>) return {Fault::configure_model};
  else return {};
}

/// Hooks without a batch of each callback.
template <class R, class... Cs>
consteval Verdict callback_hooks() {
  Verdict found;
  int who = 0;
  ((++who, found = found.ok() ? about(worst(plain_hooks<R, Cs>(), logger_calls<Cs>())).by(who) : found), ...);
  return found;
}

/// A base class that the backend must see, and that the model inherits privately.
template <class Backend, class M>
consteval bool hides_base() {
  if constexpr (requires { Backend::template hides_base<M>; }) return Backend::template hides_base<M>;
  else return false;
}

/// The whole trainer, everything that does not depend on the batch.
template <class M, class S, class P, class O, class... Cs>
consteval Verdict trainer() {
  if constexpr (constexpr auto bad = parts<M, S, P, O, Cs...>(); !bad.ok()) return bad;
  else {
    using R = Run<M, S, P, O>;
    if constexpr (hides_base<typename S::Backend, M>()) return {Fault::private_base};
    else if constexpr (constexpr auto worse = optimizers<R>(); !worse.ok()) return worse;
    // Before the hooks: finding out what they return compiles their bodies, which may ask for what is not there.
    else if constexpr (constexpr auto unmet = needs<R, Cs...>(); !unmet.ok()) return unmet;
    else if constexpr (constexpr auto lost = captured<R, Cs...>(); !lost.ok()) return lost;
    else
      return first(about(plain_hooks<R, M>()), recurrence<R>(), about(data_calls<M>()), callback_hooks<R, Cs...>(),
                   about(worst(misspelt<S>(), plain_hooks<R, S>())).by(strategy_at_fault));
  }
}

// One event of `T` in a function that returns the first verdict: nothing is instantiated for a hook that `T` does not have.
#define FULGURITE_ASK(HOOK, ID, ...)                                                                     \
  if constexpr (HOOK::template named<T>) {                                                               \
    constexpr auto fault = hook::event_fault<HOOK, T, R::automatic, __VA_ARGS__>();                      \
    if (fault != HookFault::none) return about({fault, ID});                                             \
  }

/// The events that receive an optimizer, against each of them.
template <class R, class T, class... Os>
consteval Verdict optimizer_hooks(std::type_identity<std::tuple<Os...>>) {
  using Ctx = Context<R, phase::Train>;
  constexpr bool automatic = R::automatic;
  return about(worst(
      HookVerdict{hook::event_fault<hook::on_before_zero_grad, T, automatic, Os, Ctx>(), HookId::on_before_zero_grad}...,
      HookVerdict{hook::event_fault<hook::on_before_optimizer_step, T, automatic, Os, Ctx>(), HookId::on_before_optimizer_step}...));
}

/// The events of a stage that receive a batch, against the batch that its loader yields.
template <class R, class T, class Outputs, class Loss, class Batch>
consteval Verdict training_hooks() {
  using Ctx = Context<R, phase::Train>;
  FULGURITE_ASK(hook::on_train_batch_start, HookId::on_train_batch_start, Batch, Ctx)
  FULGURITE_ASK(hook::on_train_batch_end, HookId::on_train_batch_end, Outputs, Batch, Ctx)
  if constexpr (hook::on_before_zero_grad::named<T> || hook::on_before_optimizer_step::named<T>) {
    constexpr auto found = optimizer_hooks<R, T>(std::type_identity<decltype(loop::Optimizers<R>::optimizers)>{});
    if (!found.ok()) return found;
  }
  FULGURITE_ASK(hook::on_before_backward, HookId::on_before_backward, Loss, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, Context<R, phase::Fit>)
  return {};
}

template <class R, class Loss>
consteval Verdict training_overrides() {
  using M = typename R::Model;
  using Ctx = Context<R, phase::Train>;
  using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
  using Scheduling = std::tuple_element_t<0, decltype(loop::Optimizers<R>::schedulers)>;
  using Closure = typename R::Value (*)();
  return about(worst(
      HookVerdict{hook::override_fault<hook::backward, M, R::automatic, Ctx, Loss>(), HookId::backward},
      HookVerdict{hook::override_fault<hook::optimizer_zero_grad, M, R::automatic, Ctx, O>(),
                  HookId::optimizer_zero_grad},
      HookVerdict{hook::override_fault<hook::optimizer_step, M, R::automatic, Ctx, SteppingOptimizer<R, O>, Closure>(),
                  HookId::optimizer_step},
      HookVerdict{hook::override_fault<hook::configure_gradient_clipping, M, R::automatic, Ctx, O, Clip>(),
                  HookId::configure_gradient_clipping},
      HookVerdict{hook::override_fault<hook::lr_scheduler_step, M, R::automatic, Ctx, Scheduling>(),
                  HookId::lr_scheduler_step}));
}

template <class R, class Kind, class T, class Outputs, class Batch>
consteval Verdict evaluation_hooks(HookId start, HookId end) {
  using Ctx = Context<R, typename Kind::Phase>;
  using Start = typename Kind::batch_start;
  using End = typename Kind::batch_end;
  FULGURITE_ASK(Start, start, Batch, Ctx)
  FULGURITE_ASK(End, end, Outputs, Batch, Ctx)
  FULGURITE_ASK(hook::on_exception, HookId::on_exception, std::exception const, Context<R, phase::Fit>)
  return {};
}
#undef FULGURITE_ASK

}  // namespace fulgurite::judge
