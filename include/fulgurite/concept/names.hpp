#pragma once
// What models and callbacks are asked alike: a name that is almost a hook's, a type that occurs twice.

#include <cstddef>
#include <type_traits>

#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/near_miss.hpp>

namespace fulgurite {

namespace judge {

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

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ...);

}  // namespace judge

}  // namespace fulgurite
