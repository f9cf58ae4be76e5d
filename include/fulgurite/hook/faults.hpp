#pragma once
// What can be wrong with a hook, found out once for each participant: the first fault and the hook it concerns.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/near_miss_names.hpp>
#include <fulgurite/hook/policy_hooks.hpp>

namespace fulgurite::near_miss {

// Has a class a name that looks like a hook and is none? It would be silently ignored. Names can only be probed one by
// one; beyond the table, a promise (`using Hooks = Implements<...>`) is the net.

struct Decoy {
#define FULGURITE_ROW(NAME, ...) void NAME();
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// One class may derive from another, and both be asked: the names are looked for in a class that derives from each
/// through a part of its own.
template <class T>
struct Part : T {};
template <class... Ts>
struct Probe : Part<Ts>..., Decoy {};

/// No name of the table at all: one question for nearly every class.
template <class P>
concept Clean = requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_NEAR_MISSES(FULGURITE_ROW)
  FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};

// The same of what is asked for names of its own: callbacks, loaders, optimizers, schedules, strategies.
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

/// Every name of the tables, so that a refusal can say which.
enum class HookId : std::uint16_t {
  none,
#define FULGURITE_ROW(NAME, ...) NAME,
  FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_OVERRIDES(FULGURITE_ROW) FULGURITE_DATA_HOOKS(FULGURITE_ROW)
      FULGURITE_LOGGER_HOOKS(FULGURITE_ROW) FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW) FULGURITE_FILE_HOOKS(
          FULGURITE_ROW) FULGURITE_SETTINGS_HOOKS(FULGURITE_ROW) FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
          FULGURITE_LOADER_HOOKS(FULGURITE_ROW) FULGURITE_STEPS(FULGURITE_ROW) FULGURITE_NEAR_MISSES(
              FULGURITE_ROW) FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_LOADERS(FULGURITE_ROW)
              FULGURITE_NEAR_MISSES_OF_CALLBACKS(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_OPTIMIZERS(FULGURITE_ROW)
                  FULGURITE_NEAR_MISSES_OF_SCHEDULES(FULGURITE_ROW) FULGURITE_NEAR_MISSES_OF_STRATEGIES(FULGURITE_ROW)
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
};

/// What can be wrong with one function. Where several are, the first one found is told.
enum class HookFault : std::uint8_t {
  none,
  parameters,       ///< the name is there, no form of it can be called
  missing,          ///< a function without which it cannot be driven
  result,           ///< answers something else than the loops understand
  no_effect,        ///< answers Stop where nothing could stop
  skip_epoch,       ///< answers Flow elsewhere than in on_train_batch_start
  never_called,     ///< manual optimization does not call it
  near_miss,        ///< almost a hook's name
  promise,          ///< listed in `Hooks`, but missing
  not_of_model,     ///< a model has what only others are asked for
  not_of_callback,  ///< the same of a callback
  not_of_data,      ///< the same of a data module
  not_of_strategy,  ///< the same of a strategy
  two_sources,      ///< the model and its data module both have what only one can give
  captured,         ///< a replayed step would not call it
  step_batch,       ///< a step cannot be called with the loader's batch
  missing_step,     ///< a call runs a step that the model does not have
  no_loader,        ///< a step has nothing to run on
};

/// What is wrong, and with which function; nothing where `fault` is none.
struct HookVerdict {
  HookFault fault = HookFault::none;
  HookId hook = HookId::none;
  constexpr explicit operator bool() const { return fault != HookFault::none; }
};

namespace hook {

/// Whether the loops understand what a hook answers, and can do as it says.
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

/// An event with exactly these arguments (`ctx` last).
template <class Hook, class T, bool Automatic, class... Args>
consteval HookFault event_fault() {
  if constexpr (!Hook::template named<T>) return HookFault::none;
  else if constexpr (!Automatic && !Hook::in_manual) return HookFault::never_called;
  else if constexpr (!Listens<Hook, T, Args...>) return HookFault::parameters;
  else {  // not through `invoke`: each call between a hook's body and here is a line of every error in that body
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

/// What is called with all its arguments, with or without ctx.
template <class Hook, class T, bool Automatic, class Ctx, class... Args>
consteval HookFault override_fault() {
  if constexpr (!Hook::template named<T>) return HookFault::none;
  else if constexpr (!Automatic && !Hook::in_manual) return HookFault::never_called;
  else if constexpr (!Overrides<Hook, T, Ctx, Args...>) return HookFault::parameters;
  else return HookFault::none;
}

}  // namespace hook
}  // namespace fulgurite
