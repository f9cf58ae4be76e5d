#pragma once
// What makes a callback, and what rules ask of one.

#include <type_traits>

#include <fulgurite/concept/logger.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/metric/keeps.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

namespace judge {

/// Any function that is asked of a callback: otherwise it can never be called.
template <class T>
consteval bool has_any_hook() {
#define FULGURITE_ROW(NAME, ...) || hook::NAME::named<T>
  return false FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
      FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW);
#undef FULGURITE_ROW
}

template <class Hook>
consteval HookId id_of() {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (std::is_same_v<Hook, hook::NAME>) return HookId::NAME;
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  FULGURITE_FILE_HOOKS(FULGURITE_ROW)
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
  if constexpr (requires {
                  typename T::Hooks;
                  requires !std::is_same_v<typename T::Hooks, T>;
                })
    return broken<T>(typename T::Hooks{});
  else return {};
}

/// What a callback declares of itself, if it does, is a list of the right kind.
template <class List>
inline constexpr bool is_hook_list = false;
template <class... Hooks>
inline constexpr bool is_hook_list<Implements<Hooks...>> = ((id_of<Hooks>() != HookId::none) && ...);
template <class List>
inline constexpr bool is_metric_types = false;
template <class... Ms>
  requires(requires { typename Ms::metric; } && ...)
inline constexpr bool is_metric_types<MetricTypes<Ms...>> = true;

template <class T>
consteval bool hooks_well_listed() {
  if constexpr (requires {
                  typename T::Hooks;
                  requires !std::is_same_v<typename T::Hooks, T>;
                })
    return is_hook_list<typename T::Hooks>;
  else return true;
}
template <class T>
consteval bool watches_well_listed() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return is_metric_types<typename T::Watches>;
  else return true;
}

template <class T>
consteval bool watches_a_text() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return watches_text<typename T::Watches>;
  else return false;
}

template <class Metrics, class T>
consteval bool watches_declared() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return
        []<class... Ms>(MetricTypes<Ms...>) { return (Metrics::template contains<Ms> && ...); }(typename T::Watches{});
  else return true;
}

/// One of what it watches is a metric of several numbers.
template <class T>
consteval bool watches_several() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return []<class... Ms>(MetricTypes<Ms...>) {
      return (metric::counts_several<typename Ms::metric> || ...);
    }(typename T::Watches{});
  else return false;
}

}  // namespace judge

/// Any struct with at least one hook, whose members a checkpoint would not forget. Whether its hooks can be called, and
/// whether the model declares what it watches, is asked where the trainer is known.
template <class T>
concept CallbackLike = std::is_class_v<T> && !std::is_final_v<T> && judge::has_any_hook<T>() && Remembers<T>;

}  // namespace fulgurite
