#pragma once
// What can be wrong with a hook, found out once for each participant: the first fault and the hook it concerns.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/core/flow.hpp>
#include <fulgurite/hook/call.hpp>
#include <fulgurite/hook/near_miss.hpp>

namespace fulgurite {

/// Every name of the tables, so that a refusal can say which.
enum class HookId : std::uint16_t {
  none,
#define FULGURITE_ROW(NAME, ...) NAME,
  FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_OVERRIDES(FULGURITE_ROW) FULGURITE_DATA_HOOKS(FULGURITE_ROW)
      FULGURITE_LOGGER_HOOKS(FULGURITE_ROW) FULGURITE_STEPS(FULGURITE_ROW) FULGURITE_NEAR_MISSES(FULGURITE_ROW)
          FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
};

enum class HookFault : std::uint8_t {
  none,
  parameters,    ///< the name is there, no form of it can be called
  result,        ///< answers something else than the loops understand
  no_effect,     ///< answers Stop where nothing could stop
  skip_epoch,    ///< answers Flow elsewhere than in on_train_batch_start
  never_called,  ///< manual optimization does not call it
  model_only,    ///< a callback has what only a model may override
  near_miss,     ///< almost a hook's name
  promise,       ///< listed in `Hooks`, but missing
  not_of_data,   ///< a data module has what only models and callbacks are asked for
  two_sources,   ///< the model and its data module both have what only one can give
};

struct HookVerdict {
  HookFault fault = HookFault::none;
  HookId hook = HookId::none;
  constexpr explicit operator bool() const { return fault != HookFault::none; }
};

namespace hook {

template <class Hook, class Result>
consteval HookFault result_fault() {
  if constexpr (std::is_void_v<Result> || Hook::answer == Answer::value) return HookFault::none;
  else if constexpr (std::is_same_v<Result, Stop>)
    return Hook::answer == Answer::none ? HookFault::no_effect : HookFault::none;
  else if constexpr (std::is_same_v<Result, Flow>)
    return Hook::answer == Answer::may_skip_epoch ? HookFault::none : HookFault::skip_epoch;
  else return HookFault::result;
}

/// An event with exactly these arguments (`ctx` last).
template <class Hook, class T, bool Automatic, class... Args>
consteval HookFault event_fault() {
  if constexpr (!Hook::template named<T>) return HookFault::none;
  else if constexpr (!Automatic && !Hook::in_manual) return HookFault::never_called;
  else if constexpr (!Listens<Hook, T, Args...>) return HookFault::parameters;
  else  // not through `invoke`: each call between a hook's body and here is a line of every error in that body
    return []<std::size_t... Left>(std::index_sequence<Left...>) {
      constexpr std::size_t left_out = sizeof...(Args) - sizeof...(Left);
      return result_fault<
          Hook,
          std::remove_cvref_t<decltype(Hook::call(
              std::declval<T&>(), std::declval<std::tuple_element_t<left_out + Left, std::tuple<Args...>>&>()...))>>();
    }
  (std::make_index_sequence<static_cast<std::size_t>(arity<Hook, T, Args...>())>{});
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
