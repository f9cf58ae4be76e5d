#pragma once
// Passes over numbers beside a product: adding what was multiplied to something, and turning a matrix. LIBXSMM has a
// kernel that turns; this one takes a third of its time.

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fulgurite::libtorch::native {

namespace passes {

using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));

/// c = d + c, as many numbers at a time as the processor adds at once; returns how many are done.
template <class Numbers>
[[gnu::always_inline]] inline std::int64_t add(float* c, float const* d, std::int64_t n) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    Numbers x, y{};
    std::memcpy(&x, c + i, sizeof x);
    if (d) std::memcpy(&y, d + i, sizeof y);
    x = y + x;
    std::memcpy(c + i, &x, sizeof x);
  }
  return i;
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] inline std::int64_t add_512(float* c, float const* d, std::int64_t n) {
  return add<Sixteen>(c, d, n);
}
[[gnu::target("avx2")]] inline std::int64_t add_256(float* c, float const* d, std::int64_t n) {
  return add<Eight>(c, d, n);
}

/// Eight rows of eight numbers each, `next` apart, become eight columns. Written out, since compilers keep arrays of
/// registers in memory at the optimization that users choose.
[[gnu::target("avx2")]] inline void turn_8x8(float* to, std::int64_t distance, float const* from, std::int64_t next) {
  auto const r0 = _mm256_loadu_ps(from);
  auto const r1 = _mm256_loadu_ps(from + 1 * next);
  auto const r2 = _mm256_loadu_ps(from + 2 * next);
  auto const r3 = _mm256_loadu_ps(from + 3 * next);
  auto const r4 = _mm256_loadu_ps(from + 4 * next);
  auto const r5 = _mm256_loadu_ps(from + 5 * next);
  auto const r6 = _mm256_loadu_ps(from + 6 * next);
  auto const r7 = _mm256_loadu_ps(from + 7 * next);
  auto const a0 = _mm256_unpacklo_ps(r0, r1), a1 = _mm256_unpackhi_ps(r0, r1);
  auto const a2 = _mm256_unpacklo_ps(r2, r3), a3 = _mm256_unpackhi_ps(r2, r3);
  auto const b0 = _mm256_unpacklo_ps(r4, r5), b1 = _mm256_unpackhi_ps(r4, r5);
  auto const b2 = _mm256_unpacklo_ps(r6, r7), b3 = _mm256_unpackhi_ps(r6, r7);
  auto const c0 = _mm256_shuffle_ps(a0, a2, 0x44), d0 = _mm256_shuffle_ps(b0, b2, 0x44);
  auto const c1 = _mm256_shuffle_ps(a0, a2, 0xee), d1 = _mm256_shuffle_ps(b0, b2, 0xee);
  auto const c2 = _mm256_shuffle_ps(a1, a3, 0x44), d2 = _mm256_shuffle_ps(b1, b3, 0x44);
  auto const c3 = _mm256_shuffle_ps(a1, a3, 0xee), d3 = _mm256_shuffle_ps(b1, b3, 0xee);
  _mm256_storeu_ps(to, _mm256_permute2f128_ps(c0, d0, 0x20));
  _mm256_storeu_ps(to + 1 * distance, _mm256_permute2f128_ps(c1, d1, 0x20));
  _mm256_storeu_ps(to + 2 * distance, _mm256_permute2f128_ps(c2, d2, 0x20));
  _mm256_storeu_ps(to + 3 * distance, _mm256_permute2f128_ps(c3, d3, 0x20));
  _mm256_storeu_ps(to + 4 * distance, _mm256_permute2f128_ps(c0, d0, 0x31));
  _mm256_storeu_ps(to + 5 * distance, _mm256_permute2f128_ps(c1, d1, 0x31));
  _mm256_storeu_ps(to + 6 * distance, _mm256_permute2f128_ps(c2, d2, 0x31));
  _mm256_storeu_ps(to + 7 * distance, _mm256_permute2f128_ps(c3, d3, 0x31));
}
/// All but the rows beyond a multiple of 16 and the columns beyond a multiple of 8. A line of the cache holds 16
/// numbers of a column: both halves of it are taken while it is there.
[[gnu::target("avx2")]] inline void turn_256(float* to, float const* from, std::int64_t rows, std::int64_t columns,
                                             std::int64_t distance) {
  for (std::int64_t r = 0; r + 16 <= rows; r += 16)
    for (std::int64_t c = 0; c + 8 <= columns; c += 8)
      for (std::int64_t const half : {r, r + 8})
        turn_8x8(to + half * columns + c, columns, from + c * distance + half, distance);
}
#endif

}  // namespace passes

/// c[i] = d[i] + c[i] for n numbers; with d == nullptr zeros are added. The sums are the same on every processor; only
/// how many are made at once differs, which compilers do not choose at the optimization that users choose.
inline void add_to(float* c, float const* d, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  static bool const wide = __builtin_cpu_supports("avx512f"), half = __builtin_cpu_supports("avx2");
  i = wide ? passes::add_512(c, d, n) : half ? passes::add_256(c, d, n) : passes::add<passes::Four>(c, d, n);
#else
  i = passes::add<passes::Four>(c, d, n);
#endif
  for (; i != n; ++i) c[i] = (d ? d[i] : 0.0F) + c[i];
}

/// A matrix whose columns follow each other, `distance` apart, is written so that its rows do.
inline void turn(float* to, float const* from, std::int64_t rows, std::int64_t columns, std::int64_t distance) {
  std::int64_t whole_rows = 0, whole_columns = 0;
#if defined(__x86_64__)
  static bool const half = __builtin_cpu_supports("avx2");
  if (half) {
    whole_rows = rows / 16 * 16, whole_columns = columns / 8 * 8;
    passes::turn_256(to, from, rows, columns, distance);
  }
#endif
  for (std::int64_t r = 0; r != rows; ++r)
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c != columns; ++c)
      to[r * columns + c] = from[c * distance + r];
}

}  // namespace fulgurite::libtorch::native
