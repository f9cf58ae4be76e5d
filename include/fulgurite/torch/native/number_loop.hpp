#pragma once
// A loop over numbers that lie one after the other, four at a time. Compilers leave such a loop as it is at the
// optimization that users choose; vectors of 16 bytes are in every processor that LibTorch runs on.

#include <cstdint>
#include <cstring>

namespace fulgurite::libtorch::native {

template <class T>
using Wide __attribute__((vector_size(16))) = T;

template <class T>
inline Wide<T> wide(T const* from) {
  Wide<T> numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}
template <class T>
inline void put_wide(T* to, Wide<T> const& numbers) {
  std::memcpy(to, &numbers, sizeof numbers);
}

/// to[i] = f(from[i]...) for n numbers. `f` is called with vectors and, for what remains, with single numbers, so that
/// it has to do the same with both; `to` may be one of the others.
template <class T, class F, class... From>
inline void each_number(std::int64_t n, F f, T* to, From const*... from) {
  constexpr std::int64_t width = sizeof(Wide<T>) / sizeof(T);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) put_wide<T>(to + i, f(wide<T>(from + i)...));
  for (; i != n; ++i) to[i] = f(from[i]...);
}

}  // namespace fulgurite::libtorch::native
