#pragma once
// Loops over consecutive numbers, as many at a time as fill a register of this processor. Compilers do not vectorise
// such loops at the usual optimization levels.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace fulgurite::libtorch::native {

/// Numbers that fill a register of so many bytes.
template <class T, std::size_t bytes>
using Vector __attribute__((vector_size(bytes))) = T;

#if defined(__x86_64__)
template <class T, class F>
[[gnu::target("avx512f")]] inline auto in_vectors_of_64(F const& f) {
  return f.template operator()<Vector<T, 64>>();
}
template <class T, class F>
[[gnu::target("avx2,fma")]] inline auto in_vectors_of_32(F const& f) {
  return f.template operator()<Vector<T, 32>>();
}
#endif

/// Returns f<Numbers>() for the widest vectors of T, of `most` bytes at most, that this processor has: every one for
/// which LibTorch is made has those of 16. `f` and what it calls are always inlined, so that they are compiled for such
/// a processor, whatever the target of the rest of the program is.
template <class T, std::size_t most = 64, class F>
inline auto in_widest_vectors(F const& f) {
#if defined(__x86_64__)
  if constexpr (most >= 64)
    if (__builtin_cpu_supports("avx512f")) return in_vectors_of_64<T>(f);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return in_vectors_of_32<T>(f);
#endif
  return f.template operator()<Vector<T, 16>>();
}

/// f(to[i], from[i]...) for as many of n numbers as fill whole vectors; returns their number.
template <class Numbers, class T, class F, class... From>
[[gnu::always_inline]] inline std::int64_t each_vector(std::int64_t n, F const& f, T* to, From const*... from) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(T);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    Numbers result, given[sizeof...(From)];
    std::size_t k = 0;
    (std::memcpy(&given[k++], from + i, sizeof(Numbers)), ...);
    [&]<std::size_t... I>(std::index_sequence<I...>)
        __attribute__((always_inline)) { f(result, given[I]...); }(std::index_sequence_for<From...>{});
    std::memcpy(to + i, &result, sizeof result);
  }
  return i;
}

/// f(to[i], from[i]...), which sets the first, for n numbers. `f` is called with vectors and, for the remainder, with
/// single numbers, must compute the same for both, and is inlined; `to` may be one of the inputs. It may not add to a
/// product: in vectors that would be one fused operation.
template <class T, class F, class... From>
inline void each_number(std::int64_t n, F const& f, T* to, From const*... from) {
  auto i = in_widest_vectors<T, 32>(
      [&]<class Numbers>() __attribute__((always_inline)) { return each_vector<Numbers>(n, f, to, from...); });
  for (; i != n; ++i) f(to[i], from[i]...);
}

}  // namespace fulgurite::libtorch::native
