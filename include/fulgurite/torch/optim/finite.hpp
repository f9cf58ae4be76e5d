#pragma once
// Whether all numbers of gradients are finite: on the CPU one pass over memory, on a device without waiting for it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch {

/// As many numbers as fill a register of so many bytes.
template <class T>
using In16Bytes __attribute__((vector_size(16))) = T;
template <class T>
using In32Bytes __attribute__((vector_size(32))) = T;
template <class T>
using In64Bytes __attribute__((vector_size(64))) = T;

/// Zero times a finite number is zero, and zero times any other is not a number, so one sum of such products tells it
/// of all numbers. Four sums that do not wait for each other, in registers: g++ at -O2 keeps arrays of them in memory.
template <class Numbers, class T>
[[gnu::always_inline]] inline bool all_finite_in(T const* numbers, std::size_t size) {
  constexpr std::size_t width = sizeof(Numbers) / sizeof(T);
  Numbers a{}, b{}, c{}, d{}, now{};
  Numbers const zero{};
  std::size_t i = 0;
  for (; i + 4 * width <= size; i += 4 * width) {
    std::memcpy(&now, numbers + i, sizeof now);
    a += now * zero;
    std::memcpy(&now, numbers + i + width, sizeof now);
    b += now * zero;
    std::memcpy(&now, numbers + i + 2 * width, sizeof now);
    c += now * zero;
    std::memcpy(&now, numbers + i + 3 * width, sizeof now);
    d += now * zero;
  }
  a += b + c + d;
  T all = 0;
  for (std::size_t lane = 0; lane != width; ++lane) all += a[lane];
  for (; i != size; ++i) all += numbers[i] * T(0);
  return all == 0;
}
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx512f"), gnu::noinline]] bool all_finite_512(T const* numbers, std::size_t size) {
  return all_finite_in<In64Bytes<T>>(numbers, size);
}
template <class T>
[[gnu::target("avx2,fma"), gnu::noinline]] bool all_finite_256(T const* numbers, std::size_t size) {
  return all_finite_in<In32Bytes<T>>(numbers, size);
}
#endif
template <class T>
bool all_finite(T const* numbers, std::size_t size) {
#if defined(__x86_64__)
  static bool const wide = __builtin_cpu_supports("avx512f"),
                    half = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return all_finite_512(numbers, size);
  if (half) return all_finite_256(numbers, size);
#endif
  return all_finite_in<In16Bytes<T>>(numbers, size);
}

/// The same for types of 16 bits: a number is infinite or not a number if all bits of its exponent are ones.
inline bool all_finite(std::uint16_t const* bits, std::size_t size, std::uint16_t exponent) {
  bool found = false;
  for (std::size_t i = 0; i != size; ++i) found |= (bits[i] & exponent) == exponent;
  return !found;
}

/// The same of a dense tensor on the CPU, without an operator; nullopt: it is no such tensor.
FULGURITE_BULK std::optional<bool> plainly_finite(at::Tensor const& tensor) {
  auto const size = static_cast<std::size_t>(tensor.numel());
  if (tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense()) {
    auto const* const data = tensor.const_data_ptr();
    switch (tensor.scalar_type()) {
    case at::kFloat: return all_finite(static_cast<float const*>(data), size);
    case at::kDouble: return all_finite(static_cast<double const*>(data), size);
    case at::kBFloat16: return all_finite(static_cast<std::uint16_t const*>(data), size, 0x7f80);
    case at::kHalf: return all_finite(static_cast<std::uint16_t const*>(data), size, 0x7c00);
    default: break;
    }
  }
  return std::nullopt;
}
FULGURITE_BULK bool all_finite(at::Tensor const& tensor) {
  auto const plainly = plainly_finite(tensor);
  return plainly ? *plainly : at::isfinite(tensor).all().item<bool>();
}

template <class Parameters>
bool on_a_device(Parameters const& parameters) {
  auto const first = parameters.begin();
  return first != parameters.end() && !first->is_cpu();
}

template <class Parameters>
bool gradients_finite(Parameters const& parameters) {
  Gradients const gradients(parameters);
  for (auto const& gradient : *gradients)
    if (!all_finite(gradient)) return false;
  return true;
}
template <class Parameters>
bool weights_finite(Parameters const& parameters) {
  at::NoGradGuard const no_graph;
  for (auto const& parameter : parameters)
    if (!all_finite(parameter)) return false;
  return true;
}

/// The name of a buffer that holds a nan, or "". Infinite numbers may be meant, as in the mask of an attention.
template <class Model>
std::string buffer_with_nan(Model& model) {
  at::NoGradGuard const no_graph;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& buffer : model.named_buffers())
      if (buffer.value().defined() && buffer.value().is_floating_point() &&
          at::isnan(buffer.value()).any().template item<bool>())
        return buffer.key();
  return "";
}

/// Adds zero times a value to what was noted so far: that becomes nan with the first value that is not finite, and
/// stays so.
FULGURITE_BULK void note_finite(std::optional<at::Tensor>& noted, at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  if (!noted) noted = at::zeros({}, value.options().dtype(at::kFloat).requires_grad(false));
  auto const number = value.detach();
  noted->add_(number.dim() == 0 ? number : number.reshape({}), 0);
}
/// The same for all numbers of some tensors of one device: their largest magnitude tells.
FULGURITE_BULK void note_finite(std::optional<at::Tensor>& noted, std::vector<at::Tensor> const& tensors) {
  if (tensors.empty()) return;
  at::NoGradGuard const no_graph;
  auto sizes = at::_foreach_norm(tensors, std::numeric_limits<double>::infinity());
  for (auto& size : sizes) size = size.to(tensors.front().device(), at::kFloat);
  note_finite(noted, at::stack(sizes).sum());
}
template <class Parameters>
void note_gradients(std::optional<at::Tensor>& noted, Parameters const& parameters) {
  Gradients const gradients(parameters);
  note_finite(noted, *gradients);
}
template <class Parameters>
void note_weights(std::optional<at::Tensor>& noted, Parameters const& parameters) {
  std::vector<at::Tensor> all;
  for (auto const& parameter : parameters)
    if (parameter.is_floating_point() && parameter.numel() != 0) all.push_back(parameter.detach());
  note_finite(noted, all);
}

}  // namespace fulgurite::libtorch
