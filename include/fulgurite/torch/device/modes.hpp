#pragma once
// Modes that are switched until a scope ends, on this thread or in one model: gradients, and train() or eval().

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/module.h>

#include <fulgurite/torch/device/autocast.hpp>

namespace fulgurite::libtorch {

/// No gradients until the scope ends; with `inference` LibTorch's inference mode, whose tensors can never be trained
/// on. Where autocast is on, casts of parameters that were made in the scope are forgotten: they have no graph, and a
/// later training step must not reuse them.
class NoGradScope {
 public:
  explicit NoGradScope(bool inference = false) {
    if (inference) inference_.emplace();
  }
  ~NoGradScope() {
    if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA))
      at::autocast::clear_cache();
  }
  NoGradScope(NoGradScope const&) = delete;
  NoGradScope& operator=(NoGradScope const&) = delete;

 private:
  at::NoGradGuard no_graph_;
  std::optional<c10::InferenceMode> inference_;
};

/// The model is in eval() until the scope ends (with `now` false the model sees to that itself). Afterwards each
/// sub-module has the flag that it had before, so that one which was frozen in eval() still is.
class EvaluationScope {
 public:
  explicit EvaluationScope(torch::nn::Module& model, bool now = true)
      : model_(model), training_(model.is_training()), children_(model.modules(false)) {
    flags_.reserve(children_.size());
    for (auto const& child : children_) flags_.push_back(child->is_training());
    if (now) model.eval();
  }
  /// train(flag) also sets all sub-modules. Parents come before their children in the list, so each module ends with
  /// its own flag.
  ~EvaluationScope() {
    if (model_.is_training() != training_) model_.train(training_);
    for (std::size_t i = 0; i != children_.size(); ++i)
      if (children_[i]->is_training() != flags_[i]) children_[i]->train(flags_[i]);
  }
  EvaluationScope(EvaluationScope const&) = delete;
  EvaluationScope& operator=(EvaluationScope const&) = delete;

 private:
  torch::nn::Module& model_;
  bool training_;
  std::vector<std::shared_ptr<torch::nn::Module>> children_;
  std::vector<bool> flags_;
};

template <class Model>
auto evaluating(Model& model, [[maybe_unused]] bool now = true) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return EvaluationScope(model, now);
  else return NoScope{};
}

}  // namespace fulgurite::libtorch
