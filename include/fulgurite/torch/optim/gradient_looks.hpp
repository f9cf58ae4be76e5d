#pragma once
// A look at large gradients where it costs least: right after backward has made each of them, while it is still in the
// cache. Before the update it would have to be fetched from memory once more.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/optim/finite.hpp>

namespace fulgurite::libtorch {

/// What was seen of the gradients of the step at hand. A gradient is known by its handle and its version: what was seen
/// of one that was written to since is not true of it any more.
class SeenGradients {
 public:
  /// Forgets what was seen. `look`: whether the gradients that backward makes next are worth a look.
  void begin(bool look) {
    seen_.clear();
    look_ = look;
  }
  void forget() { seen_.clear(); }
  bool looks() const { return look_; }
  /// Looks at a gradient that backward has just made.
  void look(at::Tensor const& gradient) {
    if (!look_ || !gradient.defined()) return;
    if (auto const finite = plainly_finite(gradient)) note(gradient, *finite);
  }
  void note(at::Tensor const& gradient, bool finite) {
    for (auto& one : seen_)
      if (one.is(gradient)) {
        one.version = version(gradient);
        one.finite = finite;
        return;
      }
    seen_.push_back({Handle(gradient.getIntrusivePtr()), version(gradient), finite});
  }

  bool empty() const { return seen_.empty(); }
  /// Whether all numbers of a gradient are finite; nullopt: it was not looked at since it was last written.
  std::optional<bool> finite(at::Tensor const& gradient) const {
    for (auto const& one : seen_)
      if (one.is(gradient) && one.version == version(gradient)) return one.finite;
    return std::nullopt;
  }

 private:
  /// A weak handle: no other tensor gets the address while it lives, and the reference counts that backward looks at
  /// stay the same.
  using Handle = c10::weak_intrusive_ptr<at::TensorImpl>;
  struct Seen {
    Handle gradient;
    std::uint32_t version;
    bool finite;
    bool is(at::Tensor const& other) const { return gradient._unsafe_get_target() == other.unsafeGetTensorImpl(); }
  };
  static std::uint32_t version(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }

  std::vector<Seen> seen_;
  bool look_ = false;
};

/// Has LibTorch call it for the large parameters of a model, as soon as the gradient of each is complete. Gradients
/// that stay in the second cache are not worth it, nor are those on a device, for which nobody waits.
class GradientLooks {
 public:
  GradientLooks() = default;
  GradientLooks(GradientLooks&&) = default;
  GradientLooks& operator=(GradientLooks&&) = delete;
  ~GradientLooks() { detach(); }

  template <class Model>
  void attach(Model const& model) {
    detach();
    if constexpr (std::derived_from<Model, torch::nn::Module>) attach_to(model.parameters());
  }
  void detach() {
    for (auto const& parameter : watched_)
      if (seen_of(parameter) == seen_) torch::autograd::impl::post_acc_grad_hooks(parameter).reset();
    watched_.clear();
    seen_.reset();
  }

  /// What is seen of the gradients of the step at hand; nullptr: nothing ever is.
  SeenGradients* operator->() const { return seen_.get(); }
  SeenGradients& operator*() const { return *seen_; }
  explicit operator bool() const { return seen_ != nullptr; }

  /// What is seen of this parameter's gradients; nullptr: it is not looked at.
  FULGURITE_COLD static std::shared_ptr<SeenGradients> seen_of(at::Tensor const& parameter) {
    if (!parameter.unsafeGetTensorImpl()->autograd_meta()) return nullptr;
    auto const* const hook = dynamic_cast<Hook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
    return hook ? hook->seen : nullptr;
  }

  /// Somebody has put other numbers into gradients of these parameters, and may have moved no version.
  FULGURITE_COLD static void forget(std::vector<at::Tensor> const& parameters) {
    for (auto const& parameter : parameters)
      if (auto const seen = seen_of(parameter)) return seen->forget();
  }

  static constexpr std::size_t least_bytes = std::size_t{1} << 16,  ///< of a parameter
      least_bytes_in_all = std::size_t{1} << 22;

 private:
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    explicit Hook(std::shared_ptr<SeenGradients> where) : seen(std::move(where)) {}
    void operator()(at::Tensor const& parameter) override { seen->look(parameter.grad()); }
    std::shared_ptr<SeenGradients> seen;
  };

  FULGURITE_COLD void attach_to(std::vector<at::Tensor> const& parameters) {
    std::size_t bytes = 0;
    for (auto const& parameter : parameters)
      if (is_large(parameter)) bytes += parameter.nbytes();
    if (bytes < least_bytes_in_all) return;
    seen_ = std::make_shared<SeenGradients>();
    for (auto const& parameter : parameters)
      if (is_large(parameter) && !torch::autograd::impl::post_acc_grad_hooks(parameter)) {
        torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(seen_));
        watched_.push_back(parameter);
      }
  }
  /// Only a parameter that has needed a gradient has a place for the hook.
  static bool is_large(at::Tensor const& parameter) {
    return parameter.is_cpu() && parameter.requires_grad() && parameter.is_leaf() && parameter.nbytes() >= least_bytes;
  }

  std::shared_ptr<SeenGradients> seen_;
  std::vector<at::Tensor> watched_;
};

/// The same answer as `gradients_finite`, with what was seen already.
template <class Parameters>
bool gradients_finite(Parameters const& parameters, SeenGradients const& seen) {
  for (auto const& parameter : parameters) {
    auto const& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (auto const known = seen.finite(gradient); known ? !*known : !all_finite(dense_part(gradient))) return false;
  }
  return true;
}

}  // namespace fulgurite::libtorch
