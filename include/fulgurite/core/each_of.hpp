#pragma once
// A function of each element of a tuple. std::apply does the same by five functions of code for each use, this by one.

#include <cstddef>
#include <tuple>
#include <utility>

namespace fulgurite {

/// f(element) for each, in order.
template <class F, class... Ts>
constexpr void each_of(std::tuple<Ts...>& elements, F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>)
      __attribute__((always_inline)) { (f(std::get<I>(elements)), ...); }(std::index_sequence_for<Ts...>{});
}

}  // namespace fulgurite
