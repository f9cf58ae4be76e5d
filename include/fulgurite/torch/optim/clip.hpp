#pragma once
// Scales and clips gradients without waiting for the device.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linalg_vector_norm_cpu_dispatch.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {
namespace libtorch {

/// The part of a gradient that holds numbers: all of it, or a sparse gradient's values.
at::Tensor dense_part(at::Tensor const& gradient);
/// Makes a sparse gradient store one row for each index: backward stores a row for each use of an index, and the norm
/// and the elements that are limited are those of their sums. On a GPU this waits for the device.
void sum_rows(at::Tensor const& parameter);
void sum_sparse_rows(auto const& parameters) {
  if constexpr (!requires { parameters.each_gradient([](at::Tensor const&) {}); })  // flat gradients are dense
    for (auto const& parameter : parameters) sum_rows(parameter);
}

/// The defined gradients of some parameters, valid during one call. The list is thread-local and reused, so that a step
/// allocates none. Parameters that know their flat gradients (ArenaParameters) give a few flat tensors.
class Gradients : Pinned {
 public:
  explicit Gradients(auto const& parameters) {
    if constexpr (requires { parameters.each_gradient([](at::Tensor const&) {}); }) {
      parameters.each_gradient([](at::Tensor const& flat) { list().push_back(flat); });
    } else
      for (auto const& parameter : parameters) {
        auto const& gradient = parameter.grad();
        if (gradient.defined()) list().push_back(dense_part(gradient));
      }
  }
  ~Gradients() { list().clear(); }

  std::vector<at::Tensor>& operator*() const { return list(); }
  std::vector<at::Tensor>* operator->() const { return &list(); }

  bool on_one_device() const;

 private:
  static std::vector<at::Tensor>& list();
  at::NoGradGuard no_graph_;
};

template <class Parameters>
void scale_gradients(Parameters const& parameters, double factor) {
  Gradients const gradients(parameters);
  if (factor != 1.0 && !gradients->empty()) at::_foreach_mul_(*gradients, factor);
}

/// Computes min(1, limit / (norm + 1e-6)) by a single division, as LibTorch does: a reciprocal times the limit would
/// differ in the last bits.
at::Tensor factor_of(at::Tensor const& norm, double limit);

/// The same factor as a plain number, with the same bits; nullopt if reading the norm would wait for a device. It is
/// also nullopt while Captured records a step, since the number would become part of the recording.
std::optional<double> factor_now(at::Tensor const& norm, double limit);

/// The 2-norm of each gradient, in the order of the parameters, even if all are in one flat buffer: the norm of these
/// norms has LibTorch's bits, and one sum over the buffer would not. On the CPU the kernel is called directly, without
/// the dispatcher.
std::vector<at::Tensor> norms_of(auto const& parameters, std::vector<at::Tensor> const& gradients) {
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
/// torch::nn::utils::clip_grad_norm_. If the factor is 1, nothing is written. Returns the norm before clipping, as a
/// tensor on the gradients' device; the caller may read it.
template <class Parameters>
at::Tensor clip_norm(Parameters const& parameters, double limit) {
  sum_sparse_rows(parameters);
  Gradients const gradients(parameters);
  if (gradients->empty()) return at::zeros({}, at::TensorOptions(at::kFloat));
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
  sum_sparse_rows(parameters);
  Gradients const gradients(parameters);
  if (gradients->empty()) return;
  if (gradients->front().is_cpu()) {
    for (auto& gradient : *gradients) gradient.clamp_(-limit, limit);
  } else {
    at::_foreach_clamp_min_(*gradients, -limit);
    at::_foreach_clamp_max_(*gradients, limit);
  }
}

// Checks that all numbers of gradients are finite: on the CPU in one pass over memory, on a device without waiting.

/// Zero times a finite number is zero, and zero times inf or nan is nan, so one sum of such products checks all
/// numbers. It uses four independent sums in registers: g++ at -O2 keeps an array of sums in memory.
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
template <class T>
bool all_finite(T const* numbers, std::size_t size) {
  return native::in_widest_vectors<T>(
      [&]<class Numbers>() __attribute__((always_inline)) { return all_finite_in<Numbers>(numbers, size); });
}

/// The same for 16-bit types: a number is inf or nan if all bits of its exponent are ones.
bool all_finite(std::uint16_t const* bits, std::size_t size, std::uint16_t exponent);

/// The same for a dense tensor on the CPU, without an operator; nullopt for any other tensor.
std::optional<bool> plainly_finite(at::Tensor const& tensor);
bool all_finite(at::Tensor const& tensor);

bool on_a_device(auto const& parameters) {
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

/// The name of a buffer that holds a nan, or "". Infinite numbers are accepted: they may be intended, as in an
/// attention mask.
std::string buffer_with_nan(torch::nn::Module const* model);

/// Adds the largest magnitude of each tensor to `noted`: nan or inf if one of its numbers is not finite. Nothing is
/// waited for, and on a GPU one operator reads all tensors. The tensors of `all` that hold no such numbers are dropped.
void note_largest(std::vector<at::Tensor>& noted, std::vector<at::Tensor>& all);
template <class Parameters>
void note_gradients(std::vector<at::Tensor>& noted, Parameters const& parameters) {
  Gradients const gradients(parameters);
  note_largest(noted, *gradients);
}
template <class Parameters>
void note_weights(std::vector<at::Tensor>& noted, Parameters const& parameters) {
  std::vector<at::Tensor> all(parameters.begin(), parameters.end());
  note_largest(noted, all);
}

// Checks large gradients when it costs least: right after backward has made each of them, while it is still in the
// cache. Before the update it would have to be read from memory again.

/// The results of the checks in the current step. A gradient is identified by its handle and its version: the result is
/// dropped if the gradient was written to afterwards.
class SeenGradients {
 public:
  /// Forgets all results. `look`: true if the gradients that backward makes next should be checked.
  void begin(bool look) {
    seen_.clear();
    look_ = look;
  }
  void forget() { seen_.clear(); }
  bool looks() const { return look_; }
  /// Checks a gradient that backward has just made.
  void look(at::Tensor const& gradient);
  void note(at::Tensor const& gradient, bool finite);

  bool empty() const { return seen_.empty(); }
  /// True if all numbers of a gradient are finite; nullopt if it was not checked since it was last written.
  std::optional<bool> finite(at::Tensor const& gradient) const;

 private:
  /// A weak handle: while it lives, no other tensor gets the address, and the reference counts that backward reads do
  /// not change.
  using Handle = c10::weak_intrusive_ptr<at::TensorImpl>;
  struct Seen {
    Handle gradient;
    std::uint32_t version;
    bool finite;
    bool is(at::Tensor const& other) const;
  };

  std::vector<Seen> seen_;
  bool look_ = false;
};

/// Registers a hook for each large parameter of a model that checks its gradient as soon as it is complete. Gradients
/// that fit into the L2 cache are not checked in this way, and neither are those on a device, for which the host does
/// not wait.
class GradientLooks {
 public:
  GradientLooks();
  GradientLooks(GradientLooks&&) noexcept;
  GradientLooks& operator=(GradientLooks&&) = delete;
  ~GradientLooks();

  void attach(auto const& model) { attach_to(module_if_any(model)); }
  void detach();

  /// The results for the gradients of the current step; nullptr if no parameter is checked.
  SeenGradients* operator->() const { return seen_.get(); }
  SeenGradients& operator*() const { return *seen_; }
  explicit operator bool() const { return seen_ != nullptr; }

  /// The results for this parameter's gradients; nullptr if the parameter is not checked.
  static std::shared_ptr<SeenGradients> seen_of(at::Tensor const& parameter);

  /// Drops the results for these parameters: their gradients were written to, maybe without a new version.
  static void forget(std::vector<at::Tensor> const& parameters);

  static constexpr std::size_t least_bytes = std::size_t{1} << 16,  ///< size of a parameter
      least_bytes_in_all = std::size_t{1} << 22;

 private:
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    explicit Hook(std::shared_ptr<SeenGradients> where) : seen(std::move(where)) {}
    void operator()(at::Tensor const& parameter) override;
    std::shared_ptr<SeenGradients> seen;
  };

  void attach_to(torch::nn::Module const* model);
  /// A parameter that has never required a gradient has no place for the hook.
  static bool is_large(at::Tensor const& parameter);

  std::shared_ptr<SeenGradients> seen_;
  std::vector<at::Tensor> watched_;
};

/// The same result as `gradients_finite`, using the checks already done.
template <class Parameters>
bool gradients_finite(Parameters const& parameters, SeenGradients const& seen) {
  for (auto const& parameter : parameters) {
    auto const& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (auto const known = seen.finite(gradient); known ? !*known : !all_finite(dense_part(gradient))) return false;
  }
  return true;
}

// All of it for the parameters of LibTorch's optimizers, and in first_order.hpp for those of ours.
#define FULGURITE_CLIPPING(WHAT, LIST)                                                                                 \
  FULGURITE_##WHAT(at::Tensor clip_norm(LIST const&, double));                                                         \
  FULGURITE_##WHAT(void clip_value(LIST const&, double));                                                              \
  FULGURITE_##WHAT(void scale_gradients(LIST const&, double));                                                         \
  FULGURITE_##WHAT(bool gradients_finite(LIST const&));                                                                \
  FULGURITE_##WHAT(bool gradients_finite(LIST const&, SeenGradients const&));                                          \
  FULGURITE_##WHAT(bool weights_finite(LIST const&));                                                                  \
  FULGURITE_##WHAT(void note_gradients(std::vector<at::Tensor>&, LIST const&));                                        \
  FULGURITE_##WHAT(void note_weights(std::vector<at::Tensor>&, LIST const&))
FULGURITE_CLIPPING(EXTERN, std::vector<at::Tensor>);

// The norms of gradients, one for each parameter and one over all, with a single read from the device.

using Norms = std::vector<std::pair<std::string, double>>;

/// The norm of each defined gradient; the last entry is the norm over all. Empty if there is none.
Norms gradient_norms(std::vector<std::pair<std::string, at::Tensor>> const& parameters, double type);

/// The norms of the gradients of an optimizer's parameters, by the model's names, or by their positions in the
/// optimizer if the model has no names.
Norms gradient_norms(auto& model, auto& optimizer, double type) {
  auto const& stepped = optimizer.parameters();
  auto named = named_parameters(model);
  if (named.empty())
    for (auto const& parameter : stepped) named.emplace_back(std::to_string(named.size()), parameter);
  std::unordered_set<void const*> own;
  for (std::size_t i = 0; i != stepped.size(); ++i) {
    if constexpr (requires {
                    stepped.has_gradient(i);
                  })  // an arena's gradient is defined even if backward did not write to it
      if (!stepped.has_gradient(i)) continue;
    own.insert(stepped[i].unsafeGetTensorImpl());
  }
  std::erase_if(named, [&](auto const& one) { return !own.contains(one.second.unsafeGetTensorImpl()); });
  return gradient_norms(named, type);
}

}  // namespace libtorch

/// Lightning's grad_norm: `grad_2.0_norm/<name>` for each parameter that has a gradient, then `grad_2.0_norm_total`.
/// Waits once for the device. The callback `GradientNorm` logs the same values.
template <std::derived_from<torch::nn::Module> Model>
std::vector<std::pair<std::string, double>> grad_norm(Model& model, double norm_type = 2.0) {
  GradientNorm::check(norm_type);
  auto norms = libtorch::gradient_norms(libtorch::named_parameters(model), norm_type);
  GradientNorm::name_all(norms, norm_type);
  return norms;
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/clip.ipp>
#endif
