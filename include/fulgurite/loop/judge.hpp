#pragma once
// The verdict on a trainer, and on each call of it: concepts, rules and hooks against the contexts they will receive.

#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/verdict.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/manual.hpp>

namespace fulgurite::judge {

template <Where Place>
struct PhaseAt {
  using type = phase::Fit;
};
template <>
struct PhaseAt<Where::train> {
  using type = phase::Train;
};
template <>
struct PhaseAt<Where::validate> {
  using type = phase::Validate;
};
template <>
struct PhaseAt<Where::test> {
  using type = phase::Test;
};
template <>
struct PhaseAt<Where::predict> {
  using type = phase::Predict;
};
template <class R, class Hook>
using ContextOf = Context<R, typename PhaseAt<Hook::where>::type>;

/// Events that receive nothing but ctx, and overrides whose arguments are known without a batch.
template <class R, class T>
consteval HookVerdict plain_hooks() {
#define FULGURITE_ROW(NAME, ...)                                                                    \
  if constexpr (hook::NAME::takes == Takes::nothing) {                                              \
    constexpr auto fault = hook::event_fault<hook::NAME, T, R::automatic, ContextOf<R, hook::NAME>>(); \
    if (fault != HookFault::none) return {fault, HookId::NAME};                                     \
  } else if constexpr (!R::automatic && !hook::NAME::in_manual && hook::NAME::named<T>) {           \
    return {HookFault::never_called, HookId::NAME};                                                 \
  }
  FULGURITE_EVENTS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

template <class R>
consteval HookVerdict model_overrides() {
  using M = typename R::Model;
#define FULGURITE_ROW(NAME, ...)                                                                         \
  if constexpr (hook::NAME::takes == Takes::nothing) {                                                   \
    constexpr auto fault = hook::event_fault<hook::NAME, M, R::automatic, ContextOf<R, hook::NAME>>();   \
    if (fault != HookFault::none) return {fault, HookId::NAME};                                          \
  } else if constexpr (!R::automatic && !hook::NAME::in_manual && hook::NAME::named<M>) {                \
    return {HookFault::never_called, HookId::NAME};                                                      \
  }
  FULGURITE_OVERRIDES(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

template <class Backend, class T>
concept EntryOptimizes = OptimizerLike<typename loop::Entry<Backend, T>::Optimizer>;
template <class Backend, class List>
inline constexpr bool all_optimizers = false;
template <class Backend, class... Os>
inline constexpr bool all_optimizers<Backend, OptimizerList<Os...>> = (EntryOptimizes<Backend, Os> && ...);

template <class R>
using ReturnedList = typename loop::AsList<std::remove_cvref_t<decltype(loop::configure_optimizers<R>(
    std::declval<typename R::Model&>(), std::declval<Context<R, phase::Fit>&>()))>>::type;

/// configure_optimizers returns optimizers, and as many as the mode can drive.
template <class R>
consteval Verdict optimizers() {
  using M = typename R::Model;
  if constexpr (!hook::configure_optimizers::accepts<M, Context<R, phase::Fit>> && !hook::configure_optimizers::accepts<M>)
    return {Fault::hook, {HookFault::parameters, HookId::configure_optimizers}};
  else if constexpr (std::is_void_v<decltype(loop::configure_optimizers<R>(std::declval<M&>(), std::declval<Context<R, phase::Fit>&>()))>)
    return {Fault::optimizer_type};
  else if constexpr (!all_optimizers<typename R::Backend, ReturnedList<R>>) return {Fault::optimizer_type};
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

template <class R, class T>
consteval Verdict hooks_of() {
  constexpr auto fault = plain_hooks<R, T>();
  if constexpr (bool(fault)) return {Fault::hook, fault};
  else return {};
}

template <class R>
consteval Verdict overrides_of_model() {
  constexpr auto fault = model_overrides<R>();
  if constexpr (bool(fault)) return {Fault::hook, fault};
  else return {};
}

/// The whole trainer, everything that does not depend on the batch.
template <class M, class S, class P, class O, class... Cs>
consteval Verdict trainer() {
  constexpr auto early = first(policies<M, S, P, O>(), model<M>(),
                               callback<typename MetricsOf<M>::type, (hook::log_metrics::named<Cs> || ...), Cs, Cs...>()...);
  if constexpr (!early.ok()) return early;
  else {
    using R = Run<M, S, P, O>;
    constexpr auto optimizing = optimizers<R>();
    if constexpr (!optimizing.ok()) return optimizing;
    else return first(hooks_of<R, M>(), overrides_of_model<R>(), hooks_of<R, Cs>()...);
  }
}

/// The events of a stage that receive a batch, against the batch that its loader yields.
template <class T, bool Automatic, class Hook, class... Args>
consteval HookVerdict one(HookId id) {
  return {hook::event_fault<Hook, T, Automatic, Args...>(), id};
}
constexpr HookVerdict worst(HookVerdict a) { return a.fault == HookFault::none ? HookVerdict{} : a; }
template <class... Vs>
constexpr HookVerdict worst(HookVerdict a, Vs... rest) {
  return a.fault == HookFault::none ? worst(rest...) : a;
}

template <class R, class T, class Outputs, class Loss, class Batch>
consteval Verdict training_hooks() {
  using Ctx = Context<R, phase::Train>;
  using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
  constexpr bool automatic = R::automatic;
  constexpr auto fault = worst(one<T, automatic, hook::on_train_batch_start, Batch, Ctx>(HookId::on_train_batch_start),
                               one<T, automatic, hook::on_train_batch_end, Outputs, Batch, Ctx>(HookId::on_train_batch_end),
                               one<T, automatic, hook::on_before_zero_grad, O, Ctx>(HookId::on_before_zero_grad),
                               one<T, automatic, hook::on_before_optimizer_step, O, Ctx>(HookId::on_before_optimizer_step),
                               one<T, automatic, hook::on_before_backward, Loss, Ctx>(HookId::on_before_backward),
                               one<T, automatic, hook::on_exception, std::exception const, Context<R, phase::Fit>>(HookId::on_exception));
  if constexpr (bool(fault)) return {Fault::hook, fault};
  else return {};
}

template <class R, class Loss>
consteval Verdict training_overrides() {
  using M = typename R::Model;
  using Ctx = Context<R, phase::Train>;
  using O = std::tuple_element_t<0, decltype(loop::Optimizers<R>::optimizers)>;
  using Scheduling = std::tuple_element_t<0, decltype(loop::Optimizers<R>::schedulers)>;
  using Closure = typename R::Value (*)();
  constexpr auto fault = worst(
      HookVerdict{hook::override_fault<hook::backward, M, R::automatic, Ctx, Loss>(), HookId::backward},
      HookVerdict{hook::override_fault<hook::optimizer_zero_grad, M, R::automatic, Ctx, O>(), HookId::optimizer_zero_grad},
      HookVerdict{hook::override_fault<hook::optimizer_step, M, R::automatic, Ctx, SteppingOptimizer<R, O>, Closure>(), HookId::optimizer_step},
      HookVerdict{hook::override_fault<hook::configure_gradient_clipping, M, R::automatic, Ctx, O, Clip>(), HookId::configure_gradient_clipping},
      HookVerdict{hook::override_fault<hook::lr_scheduler_step, M, R::automatic, Ctx, Scheduling>(), HookId::lr_scheduler_step});
  if constexpr (bool(fault)) return {Fault::hook, fault};
  else return {};
}

template <class R, class Kind, class T, class Outputs, class Batch>
consteval Verdict evaluation_hooks(HookId start, HookId end) {
  using Ctx = Context<R, typename Kind::Phase>;
  constexpr auto began = hook::event_fault<typename Kind::batch_start, T, R::automatic, Batch, Ctx>();
  constexpr auto ended = hook::event_fault<typename Kind::batch_end, T, R::automatic, Outputs, Batch, Ctx>();
  if (began != HookFault::none) return {Fault::hook, {began, start}};
  if (ended != HookFault::none) return {Fault::hook, {ended, end}};
  return {};
}

}  // namespace fulgurite::judge
