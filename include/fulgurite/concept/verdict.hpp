#pragma once
// One verdict on a whole trainer, or on a call of fit: the first thing that is wrong, from cheap and general to specific.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/policy.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

enum class Fault : std::uint8_t {
  none,
  // make_trainer's arguments, policies
  arguments, strategy, precision, optimization, fp16_needs_gpu, closure_needs_unscaled, capture_needs_stable_gradients, capture_needs_automatic,
  // model
  model_class, model_final, metric_list, metric_twice, training_step, configure_optimizers, optimizer_type, schedule_type, one_optimizer,
  // callbacks
  callback_class, callback_final, callback_twice, callback_inert, callback_state, callback_needs_logger, metric_undeclared,
  // hooks: see Verdict::hook
  hook,
  // a call of fit, validate, test or predict
  other_model, unnamed_model, no_train_loader, module_and_loaders, no_range, unused_validation_step, unused_validation_loader,
  no_evaluation_loader, missing_step, step_batch, step_result, manual_result, predict_result
};

struct Verdict {
  Fault fault = Fault::none;
  HookVerdict hook = {};
  constexpr bool ok() const { return fault == Fault::none; }
};

namespace judge {

/// Any event, override or logger hook at all: otherwise a callback can never be called.
template <class T>
consteval bool has_any_hook() {
#define FULGURITE_ROW(NAME, ...) || hook::NAME::named<T>
  return false FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_LOGGER_HOOKS(FULGURITE_ROW);
#undef FULGURITE_ROW
}

template <class Hook>
consteval HookId id_of() {
#define FULGURITE_ROW(NAME, ...) \
  if (std::is_same_v<Hook, hook::NAME>) return HookId::NAME;
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return HookId::none;
}

template <class T, class... Hooks>
consteval HookVerdict broken(Implements<Hooks...>) {
  HookVerdict found;
  ((!found && !Hooks::template named<T> ? void(found = {HookFault::promise, id_of<Hooks>()}) : void()), ...);
  return found;
}
/// The first of the promised hooks that is not there.
template <class T>
consteval HookVerdict broken_promise() {
  if constexpr (requires { broken<T>(typename T::Hooks{}); }) return broken<T>(typename T::Hooks{});
  else return {};
}

template <class Metrics, class T>
consteval bool watches_declared() {
  if constexpr (requires { typename T::Watches; })
    return []<class... Ms>(MetricTypes<Ms...>) { return (Metrics::template contains<Ms> && ...); }(typename T::Watches{});
  else return true;
}

template <class T>
consteval bool needs_logger() {
  if constexpr (requires { T::needs_logger; }) return T::needs_logger;
  else return false;
}

template <class T>
consteval HookVerdict misspelt() {
#define FULGURITE_ROW(NAME, ...) \
  if (near_miss::NAME::named<T>) return {HookFault::near_miss, HookId::NAME};
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, MEANT) \
  if (near_miss::NAME::named<T> && !MEANT::named<T>) return {HookFault::near_miss, HookId::NAME};
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

template <class T>
consteval HookVerdict model_only() {
#define FULGURITE_ROW(NAME, ...) \
  if (hook::NAME::named<T>) return {HookFault::model_only, HookId::NAME};
  FULGURITE_OVERRIDES(FULGURITE_ROW)
  FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ...);

/// What is wrong with one callback apart from the parameters of its hooks.
template <class Metrics, bool HasLogger, class T, class... All>
consteval Verdict callback() {
  if constexpr (!std::is_class_v<T>) return {Fault::callback_class};
  else if constexpr (std::is_final_v<T>) return {Fault::callback_final};
  else if constexpr (times<T, All...> > 1) return {Fault::callback_twice};
  else if constexpr (constexpr auto broken = broken_promise<T>(); bool(broken)) return {Fault::hook, broken};
  else if constexpr (constexpr auto near = misspelt<T>(); bool(near)) return {Fault::hook, near};
  else if constexpr (constexpr auto foreign = model_only<T>(); bool(foreign)) return {Fault::hook, foreign};
  else if constexpr (!has_any_hook<T>()) return {Fault::callback_inert};
  else if constexpr (!Remembers<T>) return {Fault::callback_state};
  else if constexpr (needs_logger<T>() && !HasLogger) return {Fault::callback_needs_logger};
  else if constexpr (!watches_declared<Metrics, T>()) return {Fault::metric_undeclared};
  else return {};
}

template <class T>
consteval bool is_logger() {
  if constexpr (std::is_class_v<T> && !std::is_final_v<T>) return hook::log_metrics::named<T>;
  else return false;
}

/// The first callback that something is wrong with.
template <class Metrics, class... Cs>
consteval Verdict callbacks() {
  Verdict found;
  ((found = found.ok() ? callback<Metrics, (is_logger<Cs>() || ...), Cs, Cs...>() : found), ...);
  return found;
}

template <class Metrics>
inline constexpr bool is_metric_list = false;
template <auto... Ms>
  requires(requires { typename decltype(Ms)::metric; } && ...)
inline constexpr bool is_metric_list<MetricList<Ms...>> = true;

template <class Metrics>
inline constexpr bool has_metric_twice = false;
template <auto... Ms>
inline constexpr bool has_metric_twice<MetricList<Ms...>> =
    ((times<typename decltype(Ms)::metric, typename decltype(Ms)::metric...> > 1) || ...);

template <class M>
consteval Verdict model() {
  if constexpr (!std::is_class_v<M> || std::is_const_v<M> || !requires { sizeof(M); }) return {Fault::model_class};
  else if constexpr (std::is_final_v<M>) return {Fault::model_final};
  else if constexpr (!is_metric_list<typename MetricsOf<M>::type>) return {Fault::metric_list};
  else if constexpr (has_metric_twice<typename MetricsOf<M>::type>) return {Fault::metric_twice};
  else if constexpr (constexpr auto near = misspelt<M>(); bool(near)) return {Fault::hook, near};
  else if constexpr (!hook::training_step::named<M>) return {Fault::training_step};
  else if constexpr (!hook::configure_optimizers::named<M>) return {Fault::configure_optimizers};
  else return {};
}

template <class M, class S, class P, class O>
consteval Verdict policies() {
  if constexpr (!StrategyLike<S>) return {Fault::strategy};
  else if constexpr (!PrecisionLike<P>) return {Fault::precision};
  else if constexpr (!OptimizationLike<O>) return {Fault::optimization};
  else if constexpr (!rule::fp16_needs_gpu::holds<S, P>) return {Fault::fp16_needs_gpu};
  else if constexpr (!rule::capture_needs_automatic::holds<S, O>) return {Fault::capture_needs_automatic};
  else return {};
}

/// Everything that can be said before a context exists.
template <class M, class S, class P, class O, class... Cs>
consteval Verdict parts() {
  if constexpr (constexpr auto bad = policies<M, S, P, O>(); !bad.ok()) return bad;
  else if constexpr (constexpr auto worse = model<M>(); !worse.ok()) return worse;
  else return callbacks<typename MetricsOf<M>::type, Cs...>();
}

/// The first of several verdicts that is not good.
constexpr Verdict first(Verdict a) { return a; }
template <class... Vs>
constexpr Verdict first(Verdict a, Vs... rest) {
  return a.ok() ? first(rest...) : a;
}

}  // namespace judge
}  // namespace fulgurite
