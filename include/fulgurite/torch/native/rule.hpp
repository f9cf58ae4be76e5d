#pragma once
// Where LIBXSMM's kernels are used: a rule of shape and processor, never a measurement, which could say one thing today
// and another tomorrow.

#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fulgurite/torch/native/shape.hpp>

namespace fulgurite::libtorch::native {

/// Of a processor, what the rule asks. MKL stays with AVX2 on AMD's.
enum class Processor : std::uint8_t {
  other,
  amd_in_halves,  ///< Zen 4: AVX-512 in two turns of 256 bits, so that AVX2 multiplies as fast
  amd_whole,      ///< Zen 5: all 512 bits at once
  intel_bf16,     ///< Sapphire Rapids and newer, which are known by AVX-512 with BF16: MKL reaches the core's peak
};

/// The processor at hand. AMD's families: 25 is Zen 4 where there is AVX-512, 26 is Zen 5.
inline Processor this_processor() {
#if defined(__x86_64__)
  static Processor const answer = [] {
    unsigned int signature = 0, b = 0, c = 0, d = 0;
    if (__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512bf16")) return Processor::intel_bf16;
    if (!__builtin_cpu_is("amd") || !__builtin_cpu_supports("avx512f") || __get_cpuid(1, &signature, &b, &c, &d) == 0)
      return Processor::other;
    unsigned int const family = (signature >> 8 & 0xfU) + (signature >> 20 & 0xffU);
    return family >= 26 ? Processor::amd_whole : Processor::amd_in_halves;
  }();
  return answer;
#else
  return Processor::other;
#endif
}

/// Up to here a call of MKL's takes longer than the multiplications themselves: some 0.6 microseconds, in which a core
/// does 27,000 of them.
inline constexpr std::int64_t small_product = 16384;

/// What was measured on Zen 5 (`tools/dev bench products`): twice as fast from 8 rows and 16 columns on, where B is
/// transposed, and so copied first, too.
inline bool pays_whole(ProductShape const& shape) { return shape.m >= 8 && shape.n >= 16; }

/// What was measured on Zen 4, where both reach the same peak and LIBXSMM wins a tenth, for widths of whole registers.
/// A copy of B pays for many rows and short inner lengths alone there, and a bias for long ones, which MKL adds without
/// another pass. What is added to after the product is another pass of both.
inline bool pays_in_halves(ProductShape const& shape) {
  bool const b_turned = shape.b[2] != 1;
  if (shape.m < (b_turned ? 64 : 8) || shape.n % 16 != 0) return false;
  bool const one_pass = shape.epilogue == Epilogue::none || shape.epilogue == Epilogue::then_onto;
  return b_turned ? one_pass && shape.k <= 256 : one_pass || shape.k >= 384;
}

/// Up to so many multiplications of one matrix a call's own time can be seen beside them on Intel's processors.
inline constexpr std::int64_t seen_on_intel = 1 << 20;

/// What was measured on Intel's Granite Rapids, where both reach the same peak, so that only shorter calls and sums
/// that are still in the first cache win: a tenth at a million multiplications, half as much again at a hundred
/// thousand. Turning B first costs as much as is won where it is wide, unless a bias is added, for which LibTorch
/// copies it first.
inline bool pays_on_intel(ProductShape const& shape) {
  auto const work = shape.m * shape.n * shape.k;
  if (shape.m < 8 || work > seen_on_intel) return false;
  if (shape.epilogue == Epilogue::then_onto) return true;
  if (shape.b[2] == 1) return shape.m >= 16 || work <= seen_on_intel / 4;
  return work <= seen_on_intel / 2 && (shape.epilogue == Epilogue::row || shape.n < 128);
}

/// Sizes that the rule may say yes to, asked before a shape is made: what is left alone should cost nothing.
inline bool may_be_faster(at::Tensor const& a, at::Tensor const& b, Processor on = this_processor()) {
  auto const as = a.sizes(), bs = b.sizes();
  if (as.size() < 2 || bs.size() != as.size()) return false;
  auto const m = as[as.size() - 2], work = m * as.back() * bs.back();
  if (work <= small_product) return true;
  return m >= 8 && on != Processor::other && (on != Processor::intel_bf16 || work <= seen_on_intel);
}

/// Small products everywhere. On older processors of Intel's, on AMD's without AVX-512 and on those of other makers,
/// MKL is taken to be as fast as LIBXSMM for larger ones.
inline bool is_faster(ProductShape const& shape, Processor on = this_processor()) {
  if (shape.work() <= small_product * shape.matrices()) return true;
  switch (on) {
  case Processor::amd_whole: return pays_whole(shape);
  case Processor::amd_in_halves: return pays_in_halves(shape);
  case Processor::intel_bf16: return pays_on_intel(shape);
  case Processor::other: return false;
  }
  return false;
}

}  // namespace fulgurite::libtorch::native
