#pragma once
// What models and callbacks are asked alike: a name that is almost a hook's, a type that occurs twice.

#include <cstddef>
#include <functional>
#include <type_traits>

#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/near_miss.hpp>

namespace fulgurite {

namespace judge {

/// The first member function that is almost a hook. A public data member of such a name, such as a metric, is not meant
/// as one, and a class that has the meant loader as well keeps its loaders under such names.
template <class T>
consteval HookVerdict misspelt() {
  using Probe = near_miss::Probe<T>;
  if constexpr (!near_miss::Clean<Probe>) {  // name by name only where there is one
#define FULGURITE_NAMES_FUNCTION(NAME) \
  (!requires { &Probe::NAME; } && !requires { requires std::is_object_v<std::remove_reference_t<decltype(T::NAME)>>; })
#define FULGURITE_ROW(NAME) \
  if (FULGURITE_NAMES_FUNCTION(NAME)) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, MEANT) \
  if (FULGURITE_NAMES_FUNCTION(NAME) && !hook::MEANT::named<T>) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
#undef FULGURITE_NAMES_FUNCTION
  }
  return {};
}

/// A pointer, or what behaves like one: a smart pointer, a holder of a module, a reference_wrapper.
template <class T>
inline constexpr bool points = std::is_pointer_v<T> || requires(T& object) { object.operator->(); *object; };
template <class T>
inline constexpr bool points<std::reference_wrapper<T>> = true;

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ...);

}  // namespace judge

}  // namespace fulgurite
