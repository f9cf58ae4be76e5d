#pragma once
// A SyncBatchNorm on each rank's rows against LibTorch's batch norm on the rows of all, number by number.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::test {

struct OneNorm : torch::nn::Module {
  SyncBatchNorm norm;
  explicit OneNorm(torch::nn::BatchNormOptions const& options)
      : norm(register_module("norm", SyncBatchNorm(options))) {}
};

/// A batch norm of the model's own class.
struct OwnNormImpl : torch::nn::BatchNorm1dImpl {
  using torch::nn::BatchNorm1dImpl::BatchNorm1dImpl;
};
struct OneOwnNorm : torch::nn::Module {
  std::shared_ptr<OwnNormImpl> norm = register_module("inner", std::make_shared<OwnNormImpl>(3));
};

/// How far the layer is from LibTorch's, at most, over two steps and an evaluation: outputs, gradients of the input,
/// the sum over ranks of those of weight and bias, and running statistics. Rank r has `rows[r]` rows.
template <class Plain, class Strategy>
double distance(Strategy strategy, torch::nn::BatchNormOptions const& options, std::vector<std::int64_t> shape,
                std::vector<std::int64_t> const& rows, at::ScalarType type) {
  torch::manual_seed(11);
  OneNorm model(options);
  Plain plain(options);
  auto const wide = type == at::kDouble ? at::kDouble : at::kFloat;
  strategy.setup(model, Float32{});
  model.to(wide);
  plain->to(wide);
  if (options.affine()) {
    at::NoGradGuard const no_graph;
    plain->weight.uniform_(0.5, 2);
    plain->bias.uniform_(-1, 1);
    model.norm->weight.copy_(plain->weight);
    model.norm->bias.copy_(plain->bias);
  }
  auto const rank = static_cast<std::size_t>(strategy.rank());
  std::int64_t before = 0, all = 0;
  for (std::size_t r = 0; r != rows.size(); ++r) {
    if (r < rank) before += rows[r];
    all += rows[r];
  }
  double far = 0;
  auto const compare = [&](at::Tensor const& is, at::Tensor const& wanted) {
    if (is.numel() != 0) far = std::max(far, (is - wanted).to(at::kDouble).abs().max().template item<double>());
  };
  shape.front() = all;
  for (int step = 0; step != 3; ++step) {
    bool const evaluates = step == 2;
    model.train(!evaluates);
    plain->train(!evaluates);
    auto whole = (torch::randn(shape, wide) * 3 + 100).to(type).requires_grad_(true);
    auto const slope = torch::randn(shape, wide).to(type);
    auto part = whole.detach().narrow(0, before, rows[rank]).clone().requires_grad_(true);
    auto const wanted = plain->forward(whole), is = model.norm->forward(part);
    compare(is, wanted.narrow(0, before, rows[rank]));
    (wanted * slope).sum().backward();
    (is * slope.narrow(0, before, rows[rank])).sum().backward();
    compare(part.grad(), whole.grad().narrow(0, before, rows[rank]));
    for (auto const& name : {"weight", "bias"})
      if (options.affine()) {
        auto sum = model.named_parameters()["norm." + std::string(name)].mutable_grad();
        strategy.group().sum(sum, name);
        compare(sum, plain->named_parameters()[name].grad());
        sum.zero_();
        plain->named_parameters()[name].mutable_grad().zero_();
      }
    if (options.track_running_stats()) {
      compare(model.norm->running_mean, plain->running_mean);
      compare(model.norm->running_var, plain->running_var);
      compare(model.norm->num_batches_tracked, plain->num_batches_tracked);
    }
  }
  strategy.teardown(model);
  return far;
}

/// What is refused, a line each; and whether those who look for batch norms know it.
template <class Strategy>
void print_refusals(Strategy strategy) {
  auto const say = [](auto&& action) {
    try {
      action();
      std::printf("nothing refused\n");
    } catch (std::exception const& error) { std::printf("%s\n", error.what()); }
  };
  OneNorm model(torch::nn::BatchNormOptions(3));
  strategy.setup(model, Float32{});
  say([&] { model.norm->forward(torch::ones({4, 2})); });
  say([&] {
    auto const x = torch::randn({4, 3}).requires_grad_(true);
    torch::autograd::grad({model.norm->forward(x).square().sum()}, {x}, {}, true, true);
  });
  strategy.teardown(model);
  std::printf("norms known: %d\n", libtorch::is_batch_norm(*model.norm) + libtorch::has_batch_norm(model));
  OneOwnNorm own;
  say([&] { distributed::require_synchronized_norms(own); });
  bool const is_last = strategy.rank() + 1 == strategy.world();
  std::printf("most %g of %g\n", strategy.reduce(is_last ? 7.0 : 1.5, Reduce::max),
              strategy.reduce(is_last ? -3.0 : 1.5, Reduce::min));
  data::SharedParts parts;
  say([&] { data::SharedForm<torch::Tensor>::put(parts, torch::ones({2}).requires_grad_(true)); });
}

/// A line for each kind of input and layer: its name, and the distance.
template <class Strategy>
void measure_norms(Strategy const& strategy) {
  namespace nn = torch::nn;
  auto const world = static_cast<std::size_t>(strategy.world());
  std::vector<std::int64_t> const even(world, 3);
  std::vector<std::int64_t> uneven(world, 2);
  uneven.back() = 5;
  std::vector<std::int64_t> without(world, 4);
  without.front() = 0;
  auto const say = [](std::string const& name, double far) { std::printf("norm %s %.3g\n", name.c_str(), far); };
  using Options = nn::BatchNormOptions;
  for (auto const type : {at::kDouble, at::kFloat}) {
    std::string const of = c10::toString(type);
    say(of + " rows", distance<nn::BatchNorm1d>(strategy, Options(5), {0, 5}, even, type));
    say(of + " lines", distance<nn::BatchNorm1d>(strategy, Options(5), {0, 5, 7}, uneven, type));
    say(of + " images", distance<nn::BatchNorm2d>(strategy, Options(3), {0, 3, 4, 5}, even, type));
    say(of + " volumes", distance<nn::BatchNorm3d>(strategy, Options(2), {0, 2, 3, 2, 4}, uneven, type));
    say(of + " none", distance<nn::BatchNorm2d>(strategy, Options(3), {0, 3, 4, 5}, without, type));
    say(of + " mean", distance<nn::BatchNorm1d>(strategy, Options(5).momentum(std::nullopt), {0, 5}, even, type));
    say(of + " plain", distance<nn::BatchNorm1d>(strategy, Options(5).affine(false), {0, 5}, uneven, type));
  }
  say("BFloat16 images", distance<nn::BatchNorm2d>(strategy, Options(3), {0, 3, 4, 5}, even, at::kBFloat16));
}

}  // namespace fulgurite::test
