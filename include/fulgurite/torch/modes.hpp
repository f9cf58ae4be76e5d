#pragma once
// Modes that are switched for a scope: training flags, gradients, anomaly detection.

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/nn/module.h>

#include <fulgurite/torch/autocast.hpp>

namespace fulgurite::libtorch {

/// Gradients off; with `inference` also everything that autograd would need later (tensors made here can never train).
/// Inside an autocast scope the casts made meanwhile are forgotten: they have no graph, and a later step must not reuse
/// them.
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

/// eval() for a scope (`now` false: the model does that itself). Afterwards each sub-module has the flag it had, so one
/// that was frozen in eval mode still is.
class EvaluationScope {
 public:
  explicit EvaluationScope(torch::nn::Module& model, bool now = true)
      : model_(model), training_(model.is_training()), children_(model.modules(false)) {
    flags_.reserve(children_.size());
    for (auto const& child : children_) flags_.push_back(child->is_training());
    if (now) model.eval();
  }
  /// train(flag) reaches down; parents come before children in the list, so the last word on each is its own.
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

/// LibTorch's anomaly detection, which is one switch for the process: backward names the function that returned a nan.
class AnomalyScope {
 public:
  explicit AnomalyScope(bool on)
      : enabled_(torch::autograd::AnomalyMode::is_enabled()),
        checks_(torch::autograd::AnomalyMode::should_check_nan()) {
    if (on) torch::autograd::AnomalyMode::set_enabled(true, true);
  }
  ~AnomalyScope() { torch::autograd::AnomalyMode::set_enabled(enabled_, checks_); }
  AnomalyScope(AnomalyScope const&) = delete;
  AnomalyScope& operator=(AnomalyScope const&) = delete;

 private:
  bool enabled_;
  bool checks_;
};

/// Which algorithms operators may take, while it lives: those that give the same bits each time, those that cuDNN finds fastest.
class AlgorithmScope {
 public:
  AlgorithmScope(bool deterministic, std::optional<bool> benchmark)
      : deterministic_(at::globalContext().deterministicAlgorithms()), warn_only_(at::globalContext().deterministicAlgorithmsWarnOnly()),
        benchmark_(at::globalContext().benchmarkCuDNN()) {
    if (deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
    if (benchmark || deterministic) at::globalContext().setBenchmarkCuDNN(benchmark.value_or(false));
  }
  ~AlgorithmScope() {
    at::globalContext().setDeterministicAlgorithms(deterministic_, warn_only_);
    at::globalContext().setBenchmarkCuDNN(benchmark_);
  }
  AlgorithmScope(AlgorithmScope const&) = delete;
  AlgorithmScope& operator=(AlgorithmScope const&) = delete;

 private:
  bool deterministic_;
  bool warn_only_;
  bool benchmark_;
};

}  // namespace fulgurite::libtorch
