#pragma once
// The dynamic twin on LibTorch.

#include <utility>

#include <torch/torch.h>

#include "trainer.hpp"

namespace twin {

struct LibTorch {
  using Tensor = torch::Tensor;
  using Batch = torch::data::Example<>;
  static long batch_size(Batch const& batch) { return batch.data.size(0); }
  static Tensor detached(Tensor const& t) { return t.detach(); }
  static double read(Tensor const& t) { return t.item<double>(); }
  static void backward(Tensor& loss, double seed) {
    if (seed == 1.0) loss.backward();
    else loss.backward(torch::full_like(loss, seed));
  }
  static auto no_grad() { return torch::NoGradGuard(); }
};

/// Any optimizer of LibTorch.
template <class O>
class TorchOptimizer final : public Optimizer {
 public:
  explicit TorchOptimizer(O optimizer) : optimizer_(std::move(optimizer)) {}
  O const& optimizer() const { return optimizer_; }
  void zero_grad() override { optimizer_.zero_grad(); }
  void step() override { optimizer_.step(); }
  void scale_gradients(double factor) override {
    torch::NoGradGuard const off;
    for (auto& p : optimizer_.parameters())
      if (p.grad().defined()) p.mutable_grad().mul_(factor);
  }
  void clip_norm(double limit) override { torch::nn::utils::clip_grad_norm_(optimizer_.parameters(), limit); }

 private:
  O optimizer_;
};

}  // namespace twin
