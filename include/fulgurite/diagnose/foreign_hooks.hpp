#pragma once
// A function that the library calls on one kind of participant is silent in another: it would never be called. A name
// that people give to functions of their own as well is refused only in the form that the library calls, or not at all.

#include <span>
#include <type_traits>

#include <fulgurite/concept/names.hpp>
#include <fulgurite/core/flow.hpp>
#include <fulgurite/core/hyperparameters.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/loop/tell_all.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::judge {

// `FULGURITE_FAULT` is whose it is not.
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (hook::NAME::is_function<T>) return {FULGURITE_FAULT, HookId::NAME};

/// A logger's function in the form that loggers are called in: whoever logs by itself may have one of that name.
template <class T>
consteval HookVerdict writes_rows(HookFault fault) {
  using hook::finalize;
  using hook::log_hyperparams;
  using hook::log_metrics;
  if constexpr (log_metrics::is_plain<T>)
    if (log_metrics::accepts<T, std::span<Scalar const> const, long>) return {fault, HookId::log_metrics};
  if constexpr (log_hyperparams::is_plain<T>)
    if (log_hyperparams::accepts<T, std::span<Hyperparameter const> const>) return {fault, HookId::log_hyperparams};
  if constexpr (finalize::is_plain<T>)
    if (finalize::accepts<T, Status>) return {fault, HookId::finalize};
  return {};
}

#define FULGURITE_FAULT HookFault::not_of_callback
/// An `account` is many things.
template <class T>
consteval HookVerdict foreign_to_callback() {
  if constexpr (!hook::NoneForeignToCallback<hook::Probe<T>>) {  // name by name only where there is one
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
    FULGURITE_DATA_HOOKS(FULGURITE_ROW)
    FULGURITE_ROW(pre_backward)
    FULGURITE_ROW(post_backward)
    FULGURITE_ROW(process_dataloader)
    FULGURITE_ROW(no_sync)
  }
  return {};
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_model
/// What a strategy is asked for around a step, a model's own step may call.
template <class T>
consteval HookVerdict foreign_to_model() {
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  return writes_rows<T>(FULGURITE_FAULT);
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_data
/// One that is a model, too, says `using OverridesModel = ...`. `process_dataloader` may be what its own factories
/// call.
template <class T>
consteval HookVerdict foreign_to_data() {
  if constexpr (requires { typename T::OverridesModel; }) return {};
  else {
#define FULGURITE_EVENT(NAME, ...)                                                                                     \
  if constexpr (!std::is_same_v<hook::NAME, hook::setup> && !std::is_same_v<hook::NAME, hook::teardown> &&             \
                !std::is_same_v<hook::NAME, hook::on_exception> && hook::NAME::named<T>)                               \
    return {HookFault::not_of_data, HookId::NAME};
    FULGURITE_EVENTS(FULGURITE_EVENT)
#undef FULGURITE_EVENT
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
    FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
    FULGURITE_ROW(pre_backward)
    FULGURITE_ROW(post_backward)
    FULGURITE_ROW(no_sync)
    return writes_rows<T>(FULGURITE_FAULT);
  }
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_strategy
/// `backward` is one of its own.
template <class T>
consteval HookVerdict foreign_to_strategy() {
#define FULGURITE_OVERRIDE(NAME, ...)                                                                                  \
  if constexpr (!std::is_same_v<hook::NAME, hook::backward> && hook::NAME::is_function<T>)                             \
    return {HookFault::not_of_strategy, HookId::NAME};
  FULGURITE_OVERRIDES(FULGURITE_OVERRIDE)
#undef FULGURITE_OVERRIDE
  FULGURITE_STEPS(FULGURITE_ROW)
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  return writes_rows<T>(FULGURITE_FAULT);
}
#undef FULGURITE_FAULT
#undef FULGURITE_ROW

/// A function of a hook's name, or of one that is almost a hook's, in a class that nothing is called on.
template <class P>
consteval bool has_any_function() {
  if constexpr (!Probeable<P>) return false;
  else if constexpr (hook::NoneAtAll<hook::Probe<P>> && near_miss::Clean<near_miss::Probe<P>>) return false;
  else {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (hook::NAME::is_function<P>) return true;
    FULGURITE_EVENTS(FULGURITE_ROW)
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_DATA_HOOKS(FULGURITE_ROW)
    FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
    FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
    FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW
    return bool(misspelt<P>());
  }
}

}  // namespace fulgurite::judge
