#pragma once
// What models and callbacks are asked alike: a name that is almost a hook's, a type that occurs twice.

#include <cstddef>
#include <functional>
#include <type_traits>

#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/near_miss.hpp>

namespace fulgurite {

namespace judge {

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ... + 0);

/// A class that another can derive from, so that its members can be asked for.
template <class T>
concept Probeable = std::is_class_v<T> && requires { sizeof(T); } && !std::is_final_v<T> && !std::is_const_v<T>;

/// None of these classes has a name that is almost a hook's: the whole table, asked of all of them at once.
template <class... Ts>
consteval bool none_misspelt() {
  if constexpr ((Probeable<Ts> && ...) && ((times<Ts, Ts...> == 1) && ...))
    return near_miss::Clean<near_miss::Probe<Ts...>>;
  else return false;
}

/// The first member function that is almost a hook. A public data member of such a name, such as a metric, is not meant
/// as one, and a class that has the meant loader as well keeps its loaders under such names. `None`: there is known to
/// be no such name.
template <class T, bool None = none_misspelt<T>()>
consteval HookVerdict misspelt() {
  if constexpr (!None) {  // name by name only where there is one
    using Probe = near_miss::Probe<T>;
#define FULGURITE_NAMES_FUNCTION(NAME)                                                                                 \
  (!requires { &Probe::NAME; } && !requires { requires std::is_object_v<std::remove_reference_t<decltype(T::NAME)>>; })
#define FULGURITE_ROW(NAME)                                                                                            \
  if (FULGURITE_NAMES_FUNCTION(NAME)) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, MEANT)                                                                                     \
  if (FULGURITE_NAMES_FUNCTION(NAME) && !hook::MEANT::named<T>) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
  }
  return {};
}
// The same of what is asked for names of its own.
#define FULGURITE_ROW(NAME)                                                                                            \
  if (FULGURITE_NAMES_FUNCTION(NAME)) return {HookFault::near_miss, HookId::NAME};
#define FULGURITE_MISSPELT_OF(FUNCTION, KIND, NAMES)                                                                   \
  template <class T>                                                                                                   \
  consteval HookVerdict FUNCTION() {                                                                                   \
    using Probe = near_miss::KIND##Probe<T>;                                                                           \
    if constexpr (!near_miss::Clean##KIND<Probe>) { NAMES(FULGURITE_ROW) }                                             \
    return {};                                                                                                         \
  }
FULGURITE_MISSPELT_OF(misspelt_of_loader, Loader, FULGURITE_NEAR_MISSES_OF_LOADERS)
FULGURITE_MISSPELT_OF(misspelt_of_optimizer, Optimizer, FULGURITE_NEAR_MISSES_OF_OPTIMIZERS)
FULGURITE_MISSPELT_OF(misspelt_of_schedule, Schedule, FULGURITE_NEAR_MISSES_OF_SCHEDULES)
FULGURITE_MISSPELT_OF(misspelt_of_strategy, Strategy, FULGURITE_NEAR_MISSES_OF_STRATEGIES)
#undef FULGURITE_ROW
// What a callback says of files, it may keep in members of such names, which access hides: a public function counts.
#define FULGURITE_ROW(NAME)                                                                                            \
  if (requires { requires hook::is_function_pointer<decltype(&T::NAME)>; }) return {HookFault::near_miss, HookId::NAME};
FULGURITE_MISSPELT_OF(misspelt_of_callback, Callback, FULGURITE_NEAR_MISSES_OF_CALLBACKS)
#undef FULGURITE_MISSPELT_OF
#undef FULGURITE_ROW
#undef FULGURITE_NAMES_FUNCTION

/// A pointer, or what behaves like one: a smart pointer, a holder of a module, a reference_wrapper.
template <class T>
inline constexpr bool points = std::is_pointer_v<T> || requires(T& object) {
  object.operator->();
  *object;
};
template <class T>
inline constexpr bool points<std::reference_wrapper<T>> = true;

}  // namespace judge

}  // namespace fulgurite
