#pragma once
// Scales and clips gradients without waiting for the device.

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linalg_vector_norm_cpu_dispatch.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch {

/// What of a gradient holds numbers: all of it, or of a sparse one its values.
inline at::Tensor dense_part(at::Tensor const& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

/// The defined gradients of some parameters, for the length of one call. The list belongs to the thread and is used
/// again, so that a step allocates none. Parameters that know their gradients as a whole (ArenaParameters) give a few
/// flat tensors.
class Gradients {
 public:
  template <class Parameters>
  explicit Gradients(Parameters const& parameters) {
    if constexpr (requires { parameters.each_gradient([](at::Tensor const&) {}); }) {
      parameters.each_gradient([](at::Tensor const& flat) { list().push_back(flat); });
    } else
      for (auto const& parameter : parameters) {
        auto const& gradient = parameter.grad();
        if (gradient.defined()) list().push_back(dense_part(gradient));
      }
  }
  ~Gradients() { list().clear(); }
  Gradients(Gradients const&) = delete;
  Gradients& operator=(Gradients const&) = delete;

  std::vector<at::Tensor>& operator*() const { return list(); }
  std::vector<at::Tensor>* operator->() const { return &list(); }

  bool on_one_device() const {
    for (auto const& gradient : list())
      if (gradient.device() != list().front().device()) return false;
    return true;
  }

 private:
  static std::vector<at::Tensor>& list() {
    thread_local std::vector<at::Tensor> kept;
    return kept;
  }
  at::NoGradGuard no_graph_;
};

template <class Parameters>
void scale_gradients(Parameters const& parameters, double factor) {
  Gradients const gradients(parameters);
  if (factor != 1.0 && !gradients->empty()) at::_foreach_mul_(*gradients, factor);
}

/// A single division, as in LibTorch: a reciprocal times the limit would have other last bits.
inline at::Tensor factor_of(at::Tensor const& norm, double limit) {
  return (at::Scalar(limit) / norm.add(1e-6)).clamp_max_(1.0);
}

/// The same factor as a plain number, with the same bits, if the norm can be read without waiting; else nullopt. While
/// Captured records a step it is nullopt, too, since the number would become part of the recording.
FULGURITE_BULK std::optional<double> factor_now(at::Tensor const& norm, double limit) {
  if (!norm.is_cpu() || c10::impl::tls_is_dispatch_key_included(recording_key)) return std::nullopt;
  auto const of = [&]<class T>(T value) {
    T const factor = static_cast<T>(limit) / (value + static_cast<T>(1e-6));
    return static_cast<double>(factor > T(1) ? T(1) : factor);
  };
  if (norm.scalar_type() == at::kFloat) return of(*static_cast<float const*>(norm.const_data_ptr()));
  if (norm.scalar_type() == at::kDouble) return of(*static_cast<double const*>(norm.const_data_ptr()));
  return std::nullopt;
}

/// The 2-norm of each gradient, in the order of the parameters, even if all lie in one flat buffer: the norm of these
/// norms is LibTorch's to the bit, and one sum over the buffer would not be. On the CPU the kernel is called directly,
/// without the dispatcher.
template <class Parameters>
std::vector<at::Tensor> norms_of(Parameters const& parameters, std::vector<at::Tensor> const& gradients) {
  bool const directly = !c10::impl::tls_is_dispatch_key_included(recording_key);
  std::vector<at::Tensor> norms;
  auto const add = [&](at::Tensor const& gradient) {
    bool const plain = directly && gradient.is_cpu() && gradient.layout() == at::kStrided;
    norms.push_back(plain ? at::cpu::linalg_vector_norm(gradient, 2) : at::linalg_vector_norm(gradient, 2));
  };
  if constexpr (requires { parameters.each_received(add); }) {
    if (gradients.front().is_cpu()) {
      parameters.each_received(add);
      return norms;
    }
    std::vector<at::Tensor> parts;
    parameters.each_received([&](at::Tensor const& gradient) { parts.push_back(gradient); });
    return at::_foreach_norm(parts, 2);
  } else {
    if (!gradients.front().is_cpu()) return at::_foreach_norm(gradients, 2);
    for (auto const& gradient : gradients) add(gradient);
    return norms;
  }
}

/// Limits the 2-norm over all gradients: each is multiplied by min(1, limit / (norm + 1e-6)), with the bits of
/// torch::nn::utils::clip_grad_norm_. If the factor is 1 nothing is written. Returns the norm before clipping, as a
/// tensor on the device of the gradients; the caller may read it.
template <class Parameters>
at::Tensor clip_norm(Parameters const& parameters, double limit) {
  Gradients const gradients(parameters);
  if (gradients->empty()) return at::zeros({});
  auto norms = norms_of(parameters, *gradients);
  bool const together = gradients.on_one_device();
  if (!together)
    for (auto& norm : norms) norm = norm.to(gradients->front().device());
  auto norm = norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), 2);
  if (auto const factor = together ? factor_now(norm, limit) : std::nullopt) {
    if (*factor != 1.0)
      for (auto& gradient : *gradients) gradient.mul_(*factor);
    return norm;
  }
  auto const factor = factor_of(norm, limit);
  if (together) at::_foreach_mul_(*gradients, factor);
  else
    for (auto& gradient : *gradients) gradient.mul_(factor.to(gradient.device()));
  return norm;
}

/// Limits every element to [-limit, limit].
template <class Parameters>
void clip_value(Parameters const& parameters, double limit) {
  Gradients const gradients(parameters);
  if (gradients->empty()) return;
  if (gradients->front().is_cpu()) {
    for (auto& gradient : *gradients) gradient.clamp_(-limit, limit);
  } else {
    at::_foreach_clamp_min_(*gradients, -limit);
    at::_foreach_clamp_max_(*gradients, limit);
  }
}

}  // namespace fulgurite::libtorch
