#pragma once
// The bodies of torch/optim/arena_optimizer.hpp.

#include <cstring>
#include <limits>
#include <string>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>

#include <fulgurite/torch/optim/arena_optimizer.hpp>

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
                                      std::numeric_limits<T>::max_exponent, 4080, type);
  auto numbers = at::exp2(exponents).mul_(at::linspace(1, 1.9, 4080, type));
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

template <class T>
Roots<T> roots_of_mkl() {
  static Roots<T> const found = [] {
    Roots<T> mkl = nullptr;
    if constexpr (std::same_as<T, float>) {
      if (fulgurite_vms_sqrt != nullptr)
        mkl = [](int n, float const* from, float* to) { fulgurite_vms_sqrt(n, from, to, mkl_mode); };
    } else {
      if (fulgurite_vmd_sqrt != nullptr)
        mkl = [](int n, double const* from, double* to) { fulgurite_vmd_sqrt(n, from, to, mkl_mode); };
    }
    return mkl != nullptr && as_libtorch(mkl) ? mkl : nullptr;
  }();
  return found;
}
FULGURITE_INSTANTIATE(Roots<float> roots_of_mkl());
FULGURITE_INSTANTIATE(Roots<double> roots_of_mkl());

FULGURITE_BULK_BODY void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }

FULGURITE_BULK_BODY void scale_and_add(at::Tensor const& x, double factor, at::Tensor const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}

FULGURITE_BULK_BODY void scale_and_addcmul(at::Tensor const& x, double factor, at::Tensor const& a, at::Tensor const& b,
                                           double value) {
  x.mul_(factor).addcmul_(a, b, value);
}

FULGURITE_BULK_BODY void add_quotient(at::Tensor const& to, at::Tensor const& x, at::Tensor const& root, double divisor,
                                      double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

FULGURITE_INSTANTIATE(at::Tensor clip_norm(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void clip_value(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void scale_gradients(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&, SeenGradients const&));
FULGURITE_INSTANTIATE(bool weights_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_gradients(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_weights(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(at::Tensor listed_twice(ArenaParameters const&));

}  // namespace fulgurite::libtorch

#if defined(__x86_64__)

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}

}  // namespace fulgurite::libtorch

#endif

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool prefers_blocks(Arena::Run const& run, at::Tensor const& flat) {
#if defined(__x86_64__)
  return flat.is_cpu() && (run.end - run.begin < (std::int64_t{1} << 18) || at::get_num_threads() < 4);
#else
  return false;
#endif
}

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option",
              std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                  " is not allowed: rates, eps, decays and momenta must not be negative, betas must be in [0, 1)");
}

}  // namespace fulgurite::optim
