#pragma once
// Finds what is wrong with a hook, once for each participant: the first fault and the hook it concerns.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/near_miss_names.hpp>
#include <fulgurite/hook/policy_hooks.hpp>

namespace fulgurite::near_miss {

// Whether a class has a name that looks like a hook and is not one. Such a function would be silently ignored. Names
// can only be probed one by one; for names outside the table there is the promise (`using Hooks = Implements<...>`).

struct Decoy {
#define FULGURITE_ROW(NAME, ...) void NAME();
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// One class may derive from another, and both may be probed together: the names are looked up in a class that derives
/// from each through a separate Part.
template <class T>
struct Part : T {};
template <class... Ts>
struct Probe : Part<Ts>..., Decoy {};

/// True if a class has no name of the table: a single check that suffices for nearly every class.
template <class P>
concept Clean = requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};

// The same check for tables that apply to one kind only: callbacks, loaders, optimizers, schedules, strategies.
#define FULGURITE_DECOY(NAME) void NAME();
#define FULGURITE_NONE(NAME) &P::NAME;
#define FULGURITE_KIND(KIND, NAMES)                                                                                    \
  struct KIND##Decoy {                                                                                                 \
    NAMES(FULGURITE_DECOY)                                                                                             \
  };                                                                                                                   \
  template <class T>                                                                                                   \
  struct KIND##Probe : T, KIND##Decoy {};                                                                              \
  template <class P>                                                                                                   \
  concept Clean##KIND = requires { NAMES(FULGURITE_NONE) };
FULGURITE_KIND(Callback, FULGURITE_NEAR_MISSES_OF_CALLBACKS)
FULGURITE_KIND(Loader, FULGURITE_NEAR_MISSES_OF_LOADERS)
FULGURITE_KIND(Optimizer, FULGURITE_NEAR_MISSES_OF_OPTIMIZERS)
FULGURITE_KIND(Schedule, FULGURITE_NEAR_MISSES_OF_SCHEDULES)
FULGURITE_KIND(Strategy, FULGURITE_NEAR_MISSES_OF_STRATEGIES)
#undef FULGURITE_KIND
#undef FULGURITE_NONE
#undef FULGURITE_DECOY

}  // namespace fulgurite::near_miss

namespace fulgurite {

/// Every name of the tables, so that a refusal can say which one it is about.
enum class HookId : std::uint16_t {
  none,
// clang-format off
#define FULGURITE_ROW(NAME, ...) NAME,
  FULGURITE_ALL_HOOKS(FULGURITE_ROW) FULGURITE_NEAR_MISSES(FULGURITE_ROW) FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_NEAR_MISSES_OF_LOADERS(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_CALLBACKS(FULGURITE_ROW)
  FULGURITE_NEAR_MISSES_OF_OPTIMIZERS(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_SCHEDULES(FULGURITE_ROW)
  FULGURITE_NEAR_MISSES_OF_STRATEGIES(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, ...) of_optimizer_##NAME,
  FULGURITE_OPTIMIZER_FUNCTIONS(FULGURITE_ROW) FULGURITE_OPTIMIZER_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, ...) of_schedule_##NAME,
  FULGURITE_SCHEDULE_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, ...) of_strategy_##NAME,
  FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW) FULGURITE_DISTRIBUTED_FUNCTIONS(FULGURITE_ROW)
  FULGURITE_STRATEGY_ANSWERS(FULGURITE_ROW)
#undef FULGURITE_ROW
  // clang-format on
};

/// What can be wrong with one function. If there are several faults, the first one found is reported.
enum class HookFault : std::uint8_t {
  none,
  parameters,       ///< the name exists, but no form of it can be called
  missing,          ///< a required function is missing
  result,           ///< returns something that the loops do not understand
  no_effect,        ///< returns Stop where nothing can be stopped
  skip_epoch,       ///< returns Flow elsewhere than in on_train_batch_start
  never_called,     ///< manual optimization does not call it
  near_miss,        ///< almost a hook's name
  promise,          ///< listed in `Hooks`, but does not exist
  not_of_model,     ///< a model has a function that is only called on other participants
  not_of_callback,  ///< the same for a callback
  not_of_data,      ///< the same for a data module
  not_of_strategy,  ///< the same for a strategy
  two_sources,      ///< both the model and its data module have a function that only one may have
  captured,         ///< a replayed step would not call it
  step_batch,       ///< the step cannot be called with the loader's batch
  missing_step,     ///< the call runs a step that the model does not have
  no_loader,        ///< there is no loader for the step
};

/// What is wrong, and with which function; nothing if `fault` is none.
struct HookVerdict {
  HookFault fault = HookFault::none;
  HookId hook = HookId::none;
  constexpr explicit operator bool() const { return fault != HookFault::none; }
};

namespace hook {

/// Checks that the loops understand the result of a hook, and can act on it.
template <class Hook, class Result>
consteval HookFault result_fault() {
  using Plain = std::remove_cvref_t<Result>;
  if constexpr (std::is_void_v<Result> || Hook::answer == Answer::value) return HookFault::none;
  else if constexpr (std::is_same_v<Plain, Stop>)
    return Hook::answer == Answer::none ? HookFault::no_effect : HookFault::none;
  else if constexpr (std::is_same_v<Plain, Flow>)
    return Hook::answer == Answer::may_skip_epoch ? HookFault::none : HookFault::skip_epoch;
  else return HookFault::result;
}

/// Checks an event with exactly these arguments (`ctx` last).
template <class Hook, class T, bool Automatic, class... Args>
consteval HookFault event_fault() {
  if constexpr (!Hook::template named<T>) return HookFault::none;
  else if constexpr (!Automatic && !Hook::in_manual) return HookFault::never_called;
  else if constexpr (!Listens<Hook, T, Args...>) return HookFault::parameters;
  else {  // not through `invoke`: each call from here to a hook's body adds a line to every error in that body
    using Given = std::tuple<Args&...>;
    constexpr std::size_t all = sizeof...(Args), taken = static_cast<std::size_t>(arity<Hook, T, Args...>());
    if constexpr (taken == 0) return result_fault<Hook, decltype(Hook::call(std::declval<T&>()))>();
    else if constexpr (taken == 1)
      return result_fault<Hook, decltype(Hook::call(std::declval<T&>(),
                                                    std::declval<std::tuple_element_t<all - 1, Given>>()))>();
    else if constexpr (taken == 2)
      return result_fault<Hook,
                          decltype(Hook::call(std::declval<T&>(), std::declval<std::tuple_element_t<all - 2, Given>>(),
                                              std::declval<std::tuple_element_t<all - 1, Given>>()))>();
    else return result_fault<Hook, decltype(Hook::call(std::declval<T&>(), std::declval<Args&>()...))>();
  }
}

/// Checks the result of an override, such as that of a call which it passes on: nothing takes it. One of `backward` is
/// a sign of another function of that name, such as an invertible network's.
template <class Hook, class Result>
consteval HookFault override_result_fault() {
  constexpr auto fault = result_fault<Hook, Result>();
  return fault == HookFault::result && !std::is_same_v<Hook, backward> ? HookFault::none : fault;
}

/// Checks a function that is called with all its arguments, with or without ctx.
template <class Hook, class T, bool Automatic, class Ctx, class... Args>
consteval HookFault override_fault() {
  if constexpr (!Hook::template named<T>) return HookFault::none;
  else if constexpr (!Automatic && !Hook::in_manual) return HookFault::never_called;
  else if constexpr (!Overrides<Hook, T, Ctx, Args...>) return HookFault::parameters;
  else if constexpr (Hook::template accepts<T, Args..., Ctx>)
    return override_result_fault<Hook, decltype(Hook::call(std::declval<T&>(), std::declval<Args&>()...,
                                                           std::declval<Ctx&>()))>();
  else return override_result_fault<Hook, decltype(Hook::call(std::declval<T&>(), std::declval<Args&>()...))>();
}

}  // namespace hook
}  // namespace fulgurite
