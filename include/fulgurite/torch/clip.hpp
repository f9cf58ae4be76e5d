#pragma once
// Scaling and clipping of gradients, without asking the device for a number.

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace fulgurite::libtorch {

/// The defined gradients of some parameters, for the length of one call. The list is kept per thread: a warm step
/// allocates none. Parameters that know their gradients as a whole (ArenaParameters) give a few flat tensors.
class Gradients {
 public:
  template <class Parameters>
  explicit Gradients(Parameters const& parameters) {
    if constexpr (requires { parameters.each_gradient([](at::Tensor const&) {}); }) {
      parameters.each_gradient([](at::Tensor const& flat) { list().push_back(flat); });
    } else
      for (auto const& parameter : parameters) {
        auto const& gradient = parameter.grad();
        if (gradient.defined()) list().push_back(gradient.is_sparse() ? gradient._values() : gradient);
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

inline at::Tensor factor_of(at::Tensor const& norm, double limit) { return norm.add(1e-6).reciprocal_().mul_(limit).clamp_max_(1.0); }

/// On the CPU the norm is there, so the same factor is a plain number, with the same bits. Not while Captured records a step: the number
/// would be part of the recording.
inline std::optional<double> factor_now(at::Tensor const& norm, double limit) {
  if (!norm.is_cpu() || c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) return std::nullopt;
  auto const of = [&]<class T>(T value) {
    T const factor = T(1) / (value + static_cast<T>(1e-6)) * static_cast<T>(limit);
    return static_cast<double>(factor > T(1) ? T(1) : factor);
  };
  if (norm.scalar_type() == at::kFloat) return of(*static_cast<float const*>(norm.const_data_ptr()));
  if (norm.scalar_type() == at::kDouble) return of(*static_cast<double const*>(norm.const_data_ptr()));
  return std::nullopt;
}

/// Limits the 2-norm over all gradients together: each is multiplied by min(1, limit / (norm + 1e-6)), as
/// torch.nn.utils. clip_grad_norm_ does; where that is 1 nothing is written. Returns the norm before clipping as a tensor on the
/// gradients' device; reading it is up to the caller.
template <class Parameters>
at::Tensor clip_norm(Parameters const& parameters, double limit) {
  Gradients const gradients(parameters);
  if (gradients->empty()) return at::zeros({});
  if (gradients->size() == 1) {
    auto const norm = at::linalg_vector_norm(gradients->front(), 2);
    if (auto const factor = factor_now(norm, limit)) {
      if (*factor != 1.0) gradients->front().mul_(*factor);
    } else {
      gradients->front().mul_(factor_of(norm, limit));
    }
    return norm;
  }
  auto norms = at::_foreach_norm(*gradients, 2);
  bool const together = gradients.on_one_device();
  if (!together)
    for (auto& norm : norms) norm = norm.to(gradients->front().device());
  auto norm = at::linalg_vector_norm(at::stack(norms), 2);
  if (auto const factor = together ? factor_now(norm, limit) : std::nullopt) {
    if (*factor != 1.0) at::_foreach_mul_(*gradients, *factor);
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
