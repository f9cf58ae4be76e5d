#pragma once
// Two networks that are trained against each other by hand, for tests of replayed steps: a test adds the optimizers and
// the step.

#include <limits>
#include <vector>

#include <torch/torch.h>

#include <fulgurite/fulgurite.hpp>

namespace fixtures {

struct Adversaries : torch::nn::Module {
  static constexpr fulgurite::Metric<"loss/g"> g_loss{.on_step = fulgurite::Report::yes,
                                                      .on_epoch = fulgurite::Report::yes};
  static constexpr fulgurite::Metric<"loss/d"> d_loss{.on_step = fulgurite::Report::yes,
                                                      .on_epoch = fulgurite::Report::yes};
  using Metrics = fulgurite::MetricList<g_loss, d_loss>;
  torch::nn::Sequential g = register_module(
      "g", torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 6)));
  torch::nn::Sequential d =
      register_module("d", torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Dropout(0.2),
                                                 torch::nn::Linear(8, 1)));
  int ran = 0;
  long now = 0, updates = 0;
  std::vector<torch::Tensor> left = {};
  static inline double factor = 1;
  static inline long changes_at = -1, breaks_at = -1;

  torch::Tensor judged(torch::Tensor const& x, double truth) {
    auto const verdict = d->forward(x);
    return torch::nn::functional::binary_cross_entropy_with_logits(verdict, torch::full_like(verdict, truth));
  }
  void on_train_batch_start(auto& batch, auto&) {
    factor = changes_at >= 0 && now >= changes_at ? 0.5 : 1.0;
    if (breaks_at >= 0 && now == breaks_at) batch.data.fill_(std::numeric_limits<float>::infinity());
    ++now;
  }
  void state(auto& archive) { archive("now", now)("updates", updates)("ran", ran); }
};

}  // namespace fixtures
