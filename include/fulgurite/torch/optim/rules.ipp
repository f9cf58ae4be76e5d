#pragma once
// The bodies of torch/optim/rules.hpp.

#include <concepts>
#include <cstring>
#include <limits>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <ATen/Version.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/optim/rules.hpp>

namespace fulgurite::libtorch {

extern "C" {
[[gnu::weak]] void fulgurite_vms_sqrt(int n, float const* from, float* to, long long mode) __asm__("vmsSqrt");
[[gnu::weak]] void fulgurite_vmd_sqrt(int n, double const* from, double* to, long long mode) __asm__("vmdSqrt");
}
/// As LibTorch calls it: with high accuracy, denormal numbers as they are, and errors are not reported.
inline constexpr long long mkl_mode = 0x2 | 0x140000 | 0x100;

/// Compares the bits of roots of positive numbers of all exponents, of both zeros, a negative number, infinities and
/// nan.
template <class T>
bool as_libtorch(Roots<T> roots) {
  auto const type = c10::CppTypeToScalarType<T>::value;
  auto const exponents = at::linspace(std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                                      std::numeric_limits<T>::max_exponent, 16368, type);
  auto numbers = at::exp2(exponents).mul_(at::linspace(1, 1.9, 16368, type));
  T const odd[] = {0,
                   T(-0.0),
                   -1,
                   std::numeric_limits<T>::infinity(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN(),
                   std::numeric_limits<T>::denorm_min(),
                   4,
                   9,
                   2,
                   3,
                   5,
                   T(1e-8),
                   T(1e-30),
                   T(1e30),
                   std::numeric_limits<T>::max()};
  numbers = at::cat({numbers, at::tensor(at::ArrayRef<T>(odd))});
  auto ours = at::empty_like(numbers);
  roots(static_cast<int>(ours.numel()), static_cast<T const*>(numbers.const_data_ptr()),
        static_cast<T*>(ours.mutable_data_ptr()));
  numbers.sqrt_();
  return std::memcmp(ours.const_data_ptr(), numbers.const_data_ptr(), ours.nbytes()) == 0;
}

/// MKL's own function; null if LibTorch's library does not offer it.
template <class T>
Roots<T> roots_of_mkl() {
  if constexpr (std::same_as<T, float>) {
    if (fulgurite_vms_sqrt != nullptr)
      return [](int n, float const* from, float* to) { fulgurite_vms_sqrt(n, from, to, mkl_mode); };
  } else {
    if (fulgurite_vmd_sqrt != nullptr)
      return [](int n, double const* from, double* to) { fulgurite_vmd_sqrt(n, from, to, mkl_mode); };
  }
  return nullptr;
}

#if defined(__x86_64__)
// MKL's square roots of floats, operation by operation, so that they can be part of a loop that does more. Their last
// bit is not always that of the nearest float, and differs between the kernels that MKL has for kinds of processors.
// MKL's functions take up to forty times as long for a zero, which the second moment of each weight is that has had no
// gradient so far.

/// The kernels of MKL whose operations are these.
enum class MklKernel : std::uint8_t {
  sse,     ///< on AMD's processors: an estimate, a step that doubles its bits, and a correction; no fused operation
  avx512,  ///< on Intel's with AVX-512: a better estimate, and a correction
  other
};

// Numbers that the operations below take as they are: no product becomes denormal or infinite. Smaller ones are scaled,
// which changes no bit; what is greater, denormal or not a number is left to MKL.
inline constexpr float least_root_of = 0x1p-90F, greatest_root_of = 0x1p120F, least_scaled = 0x1p-126F;
inline constexpr float scale_before = 0x1p78F, scale_after = 0x1p-39F;

/// Keeps a compiler from turning a product and the sum that it is part of into one fused operation, which rounds once.
#define FULGURITE_ROUNDED(product) asm("" : "+v"(product))
#define FULGURITE_AVX2 gnu::target("avx2,fma")
#define FULGURITE_AVX512 gnu::target("avx512f,avx512dq,avx2,fma")

/// Where x is 0 or -0. By its bits, since denormal numbers may be equal to 0 (at::set_flush_denormal).
[[FULGURITE_AVX2, gnu::always_inline]] inline __m256 zeros_of(__m256 x) {
  auto const without_sign = _mm256_slli_epi32(_mm256_castps_si256(x), 1);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(without_sign, _mm256_setzero_si256()));
}
[[FULGURITE_AVX2, gnu::always_inline]] inline __m256 root_as_sse(__m256 x) {
  auto const half = _mm256_set1_ps(0.5F), estimate = _mm256_rsqrt_ps(x);
  auto root = _mm256_mul_ps(x, estimate), halved = _mm256_mul_ps(estimate, half), product = _mm256_mul_ps(root, halved);
  FULGURITE_ROUNDED(root);
  FULGURITE_ROUNDED(product);
  auto const error = _mm256_sub_ps(half, product);
  auto of_root = _mm256_mul_ps(root, error), of_halved = _mm256_mul_ps(halved, error);
  FULGURITE_ROUNDED(of_root);
  FULGURITE_ROUNDED(of_halved);
  root = _mm256_add_ps(of_root, root), halved = _mm256_add_ps(of_halved, halved);
  auto square = _mm256_mul_ps(root, root);
  FULGURITE_ROUNDED(square);
  auto correction = _mm256_mul_ps(_mm256_sub_ps(x, square), halved);
  FULGURITE_ROUNDED(correction);
  return _mm256_blendv_ps(_mm256_add_ps(correction, root), x, zeros_of(x));
}
/// True if all are zeros or in the range.
[[FULGURITE_AVX2, gnu::always_inline]] inline bool are_in_range(__m256 x, float least) {
  auto const fits = _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(least), _CMP_GE_OQ),
                                  _mm256_cmp_ps(x, _mm256_set1_ps(greatest_root_of), _CMP_LE_OQ));
  return _mm256_movemask_ps(_mm256_or_ps(fits, zeros_of(x))) == 255;
}

[[FULGURITE_AVX512, gnu::always_inline]] inline __mmask16 zeros_of(__m512 x) {
  return _mm512_testn_epi32_mask(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}
template <MklKernel kernel>
[[FULGURITE_AVX512, gnu::always_inline]] inline __m512 root(__m512 x) {
  if constexpr (kernel != MklKernel::avx512) {
    auto const low = root_as_sse(__m256(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)));
    auto const high = root_as_sse(__m256(__builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  auto const estimate = _mm512_maskz_rsqrt14_ps(0xffff, x), root = _mm512_mul_ps(x, estimate);
  auto const halved = _mm512_mul_ps(estimate, _mm512_set1_ps(0.5F));
  return _mm512_mask_mov_ps(_mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, x), halved, root), zeros_of(x), x);
}
[[FULGURITE_AVX512, gnu::always_inline]] inline bool are_in_range(__m512 x, float least) {
  auto const fits = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_GE_OQ) &
                    _mm512_cmp_ps_mask(x, _mm512_set1_ps(greatest_root_of), _CMP_LE_OQ);
  return (fits | zeros_of(x)) == 0xffff;
}

/// The roots of eight or sixteen numbers of which some are out of the range.
[[FULGURITE_AVX2, gnu::noinline]] inline __m256 rare_root_as_sse(__m256 x) {
  if (are_in_range(x, least_scaled)) {
    auto const small = _mm256_cmp_ps(x, _mm256_set1_ps(least_root_of), _CMP_LT_OQ);
    auto const one = _mm256_set1_ps(1);
    auto const roots = root_as_sse(_mm256_mul_ps(x, _mm256_blendv_ps(one, _mm256_set1_ps(scale_before), small)));
    return _mm256_mul_ps(roots, _mm256_blendv_ps(one, _mm256_set1_ps(scale_after), small));
  }
  fulgurite_vms_sqrt(8, reinterpret_cast<float const*>(&x), reinterpret_cast<float*>(&x), mkl_mode);
  return x;
}
template <MklKernel kernel>
[[FULGURITE_AVX512, gnu::noinline]] __m512 rare_root(__m512 x) {
  if (are_in_range(x, least_scaled)) {
    auto const small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(least_root_of), _CMP_LT_OQ);
    auto const roots = root<kernel>(_mm512_mask_mul_ps(x, small, x, _mm512_set1_ps(scale_before)));
    return _mm512_mask_mul_ps(roots, small, roots, _mm512_set1_ps(scale_after));
  }
  fulgurite_vms_sqrt(16, reinterpret_cast<float const*>(&x), reinterpret_cast<float*>(&x), mkl_mode);
  return x;
}

[[FULGURITE_AVX2]] inline void roots_as_sse(int n, float const* from, float* to) {
  for (int i = 0; i < n; i += 8) {
    auto const x = _mm256_loadu_ps(from + i);
    _mm256_storeu_ps(to + i, are_in_range(x, least_root_of) ? root_as_sse(x) : rare_root_as_sse(x));
  }
}
template <MklKernel kernel>
[[FULGURITE_AVX512]] void roots_512(int n, float const* from, float* to) {
  for (int i = 0; i < n; i += 16) {
    auto const x = _mm512_loadu_ps(from + i);
    _mm512_storeu_ps(to + i, are_in_range(x, least_root_of) ? root<kernel>(x) : rare_root<kernel>(x));
  }
}

template <MklKernel kernel>
[[FULGURITE_AVX512]] void adam_512(AdamNumbers const& by, float* parameters, float const* gradients, bool apart,
                                   float* mean, float* square, std::size_t size) {
  auto const beta1 = _mm512_set1_ps(by.beta1), rest1 = _mm512_set1_ps(by.rest1), beta2 = _mm512_set1_ps(by.beta2),
             rest2 = _mm512_set1_ps(by.rest2), divisor = _mm512_set1_ps(by.divisor), eps = _mm512_set1_ps(by.eps),
             rate = _mm512_set1_ps(by.rate), decay = _mm512_set1_ps(by.decay), zero = _mm512_setzero_ps();
  for (std::size_t i = 0; i < size; i += 16) {
    auto p = _mm512_loadu_ps(parameters + i), g = _mm512_loadu_ps(gradients + i);
    if (apart) g = _mm512_add_ps(g, zero);  // -0 becomes 0
    if (by.kind == AdamNumbers::Decay::of_gradient) g = _mm512_fmadd_ps(p, decay, g);
    if (by.kind == AdamNumbers::Decay::decoupled) {
      p = _mm512_mul_ps(p, decay);
      FULGURITE_ROUNDED(p);
    }
    auto const m = _mm512_fmadd_ps(g, rest1, _mm512_mul_ps(_mm512_loadu_ps(mean + i), beta1));
    auto const v = _mm512_fmadd_ps(_mm512_mul_ps(rest2, g), g, _mm512_mul_ps(_mm512_loadu_ps(square + i), beta2));
    _mm512_storeu_ps(mean + i, m);
    _mm512_storeu_ps(square + i, v);
    auto const r = are_in_range(v, least_root_of) ? root<kernel>(v) : rare_root<kernel>(v);
    auto const quotient = _mm512_div_ps(_mm512_mul_ps(rate, m), _mm512_add_ps(_mm512_div_ps(r, divisor), eps));
    _mm512_storeu_ps(parameters + i, _mm512_add_ps(p, quotient));
  }
}

#undef FULGURITE_ROUNDED
#undef FULGURITE_AVX2
#undef FULGURITE_AVX512

FULGURITE_BULK_BODY bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}

/// The kernel of MKL whose bits LibTorch's roots have, found by a trial.
FULGURITE_BULK_BODY MklKernel mkl_kernel() {
  static MklKernel const found = [] {
    using enum MklKernel;
    if (fulgurite_vms_sqrt == nullptr || !libtorch_fuses()) return other;
    if (as_libtorch<float>(roots_as_sse)) return sse;
    return __builtin_cpu_supports("avx512dq") && as_libtorch<float>(roots_512<avx512>) ? avx512 : other;
  }();
  return found;
}

FULGURITE_BULK_BODY bool adam_in_one_loop(AdamNumbers const& by, float* parameters, float const* gradients, bool apart,
                                          float* mean, float* square, std::size_t size) {
  auto const kernel = mkl_kernel();
  static bool const wide = __builtin_cpu_supports("avx512dq");
  if (!wide || kernel == MklKernel::other) return false;
  (kernel == MklKernel::sse ? adam_512<MklKernel::sse> : adam_512<MklKernel::avx512>)(by, parameters, gradients, apart,
                                                                                      mean, square, size);
  return true;
}
#endif

template <class T>
Roots<T> roots_of_libtorch() {
  static Roots<T> const found = []() -> Roots<T> {
#if defined(__x86_64__)
    if constexpr (std::same_as<T, float>) {
      if (mkl_kernel() == MklKernel::sse) return roots_as_sse;
      if (mkl_kernel() == MklKernel::avx512) return roots_512<MklKernel::avx512>;
    }
#endif
    auto const mkl = roots_of_mkl<T>();
    return mkl != nullptr && as_libtorch(mkl) ? mkl : nullptr;
  }();
  return found;
}
FULGURITE_INSTANTIATE(Roots<float> roots_of_libtorch());
FULGURITE_INSTANTIATE(Roots<double> roots_of_libtorch());

FULGURITE_BULK_BODY void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (!holds)
    refuse_option(optimizer, option, exact_number(value),
                  "rates, eps, decays and momenta must not be negative, betas must be in [0, 1)");
}

FULGURITE_BULK_BODY void refuse_option(std::string_view optimizer, std::string_view option, std::string_view value,
                                       std::string_view rule) {
  throw Error("fulgurite.optim.option", std::string(optimizer) + "'s " + std::string(option) + " = " +
                                            std::string(value) + " is not allowed: " + std::string(rule));
}

void AdamOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamOptions)

void AdamWOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamWOptions)

void RMSpropOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("alpha", alpha).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("centered", centered);
}
FULGURITE_STATE(RMSpropOptions)

void AdagradOptions::state(auto& archive) {
  archive("lr", lr).option("lr_decay", lr_decay).option("weight_decay", weight_decay);
  archive.option("initial_accumulator_value", initial_accumulator_value).option("eps", eps);
}
FULGURITE_STATE(AdagradOptions)

void SGDOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("dampening", dampening);
  archive.option("weight_decay", weight_decay).option("nesterov", nesterov);
}
FULGURITE_STATE(SGDOptions)

namespace rule {

FULGURITE_BULK_BODY std::array<std::optional<double>, 3> RMSprop::initial(Options const& o) {
  return {0.0, o.momentum > 0 ? std::optional(0.0) : std::nullopt, o.centered ? std::optional(0.0) : std::nullopt};
}

FULGURITE_BODY void RMSprop::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.alpha >= 0, name, "alpha", o.alpha);
  require_option(o.eps >= 0, name, "eps", o.eps);
  require_option(o.momentum >= 0, name, "momentum", o.momentum);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
}

FULGURITE_BODY void Adagrad::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.lr_decay >= 0, name, "lr_decay", o.lr_decay);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
  require_option(o.initial_accumulator_value >= 0, name, "initial_accumulator_value", o.initial_accumulator_value);
  require_option(o.eps >= 0, name, "eps", o.eps);
}

FULGURITE_BULK_BODY Adagrad::Adagrad(Options const& o, long steps_before)
    : o_(o), rate_(o.lr / (1 + static_cast<double>(steps_before) * o.lr_decay)) {}

FULGURITE_BULK_BODY std::array<std::optional<double>, 1> SGD::initial(Options const& o) {
  return {o.momentum != 0 ? std::optional(0.0) : std::nullopt};
}

FULGURITE_BODY void SGD::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.momentum >= 0, name, "momentum", o.momentum);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
  if (o.nesterov && !(o.momentum > 0 && o.dampening == 0))
    refuse_option(name, "nesterov", "true", "it needs a momentum above 0, and a dampening of 0");
}

FULGURITE_BULK_BODY SGD::SGD(Options const& o, long steps_before) : o_(o), first_(steps_before == 0) {}

}  // namespace rule

}  // namespace fulgurite::optim
