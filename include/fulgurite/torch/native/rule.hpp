#pragma once
// Where LIBXSMM's kernels are used: a rule of shape and processor, never a measurement, which could say one thing today
// and another tomorrow.

#include <fulgurite/torch/native/shape.hpp>

namespace fulgurite::libtorch::native {

/// Of a processor, what the rule asks.
inline bool is_amd_with_avx512() {
#if defined(__x86_64__)
  static bool const answer = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f");
  return answer;
#else
  return false;
#endif
}

/// Up to here a call of MKL's takes longer than the multiplications themselves: some 0.6 microseconds, in which a core
/// does 27,000 of them.
inline constexpr std::int64_t small_product = 16384;

/// What was measured on AMD's processors with AVX-512, where MKL stays with AVX2: regular widths, and some rows. B that
/// is transposed is copied first, which pays from more rows on.
inline bool is_regular(ProductShape const& shape) {
  bool const b_turned = shape.b[2] != 1;
  return shape.m >= (b_turned ? 64 : 8) && shape.n % 16 == 0;
}

/// Small products everywhere. On processors of other makers, and on AMD's without AVX-512, MKL is as fast as LIBXSMM
/// for larger ones.
inline bool is_faster(ProductShape const& shape, bool amd_with_avx512 = is_amd_with_avx512()) {
  return shape.work() <= small_product * shape.matrices() || (amd_with_avx512 && is_regular(shape));
}

}  // namespace fulgurite::libtorch::native
