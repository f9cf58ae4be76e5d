#pragma once
// The bodies of torch/optim/rules.hpp.

#include <concepts>
#include <cstring>
#include <limits>
#include <string>

#include <ATen/Version.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
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

#if defined(__x86_64__)
FULGURITE_BULK_BODY bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}
#endif

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option",
              std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                  " is not allowed: rates, eps, decays and momenta must not be negative, betas must be in [0, 1)");
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

}  // namespace rule

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

namespace rule {

FULGURITE_BULK_BODY std::array<std::optional<double>, 1> SGD::initial(Options const& o) {
  return {o.momentum != 0 ? std::optional(0.0) : std::nullopt};
}

FULGURITE_BODY void SGD::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.momentum >= 0, name, "momentum", o.momentum);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
  require_option(!o.nesterov || (o.momentum > 0 && o.dampening == 0), name,
                 "nesterov (which needs momentum > 0 and dampening = 0)", 1);
}

FULGURITE_BULK_BODY SGD::SGD(Options const& o, long steps_before) : o_(o), first_(steps_before == 0) {}

}  // namespace rule

void SGDOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("dampening", dampening);
  archive.option("weight_decay", weight_decay).option("nesterov", nesterov);
}
FULGURITE_STATE(SGDOptions)

}  // namespace fulgurite::optim
