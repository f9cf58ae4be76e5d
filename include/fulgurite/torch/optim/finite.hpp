#pragma once
// Whether all numbers of gradients are finite: on the CPU one pass over memory, on a device without waiting for it.

#include <concepts>
#include <cstddef>
#include <cstdint>
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
#include <fulgurite/torch/optim/pass.hpp>

namespace fulgurite::libtorch {

/// Zero times a finite number is zero, and zero times any other is not a number, so one sum of such products tells it
/// of all numbers. The sums run in a constant number of independent lanes, which both compilers vectorise at -O2.
template <class T, bool Fused>
[[gnu::always_inline]] inline bool all_finite_in_lanes(T const* numbers, std::size_t size) {
  constexpr std::size_t lanes = 128 / sizeof(T);
  T sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (std::size_t lane = 0; lane != lanes; ++lane)
      sums[lane] = Fused ? std::fma(numbers[i + lane], T(0), sums[lane]) : sums[lane] + numbers[i + lane] * T(0);
  for (; i != size; ++i) sums[i % lanes] += numbers[i] * T(0);
  T all = 0;
  for (auto const sum : sums) all += sum;
  return all == 0;
}
template <class T>
[[gnu::noinline]] bool all_finite_plain(T const* numbers, std::size_t size) {
  return all_finite_in_lanes<T, false>(numbers, size);
}
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma"), gnu::noinline]] bool all_finite_fused(T const* numbers, std::size_t size) {
  return all_finite_in_lanes<T, true>(numbers, size);
}
#endif
template <class T>
bool all_finite(T const* numbers, std::size_t size) {
#if defined(__x86_64__)
  if (libtorch_fuses()) return all_finite_fused(numbers, size);
#endif
  return all_finite_plain(numbers, size);
}

/// The same for types of 16 bits: a number is infinite or not a number if all bits of its exponent are ones.
inline bool all_finite(std::uint16_t const* bits, std::size_t size, std::uint16_t exponent) {
  bool found = false;
  for (std::size_t i = 0; i != size; ++i) found |= (bits[i] & exponent) == exponent;
  return !found;
}

FULGURITE_COLD bool all_finite(at::Tensor const& tensor) {
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
  return at::isfinite(tensor).all().item<bool>();
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
FULGURITE_COLD void note_finite(std::optional<at::Tensor>& noted, at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  if (!noted) noted = at::zeros({}, value.options().dtype(at::kFloat).requires_grad(false));
  auto const number = value.detach();
  noted->add_(number.dim() == 0 ? number : number.reshape({}), 0);
}
/// The same for all numbers of some tensors of one device: their largest magnitude tells.
FULGURITE_COLD void note_finite(std::optional<at::Tensor>& noted, std::vector<at::Tensor> const& tensors) {
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
