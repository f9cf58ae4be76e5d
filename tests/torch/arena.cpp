// Optimizers over flat buffers: the steps of torch::optim, bit for bit, whatever happens to the parameters meanwhile.
#include "fixtures.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/gradient_norm.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/optim/adagrad.hpp>
#include <fulgurite/torch/optim/adam.hpp>
#include <fulgurite/torch/optim/rmsprop.hpp>
#include <fulgurite/torch/optim/sgd.hpp>

namespace {
using fixtures::same_bits;
using fulgurite::LibTorch;
using torch::Tensor;
namespace ours = fulgurite::optim;
namespace theirs = torch::optim;

/// Sizes on both sides of every width of a vector register, one above a block, one empty.
std::vector<Tensor> parameters(at::ScalarType type = at::kFloat) {
  torch::manual_seed(5);
  std::vector<Tensor> all;
  for (auto const& sizes : std::vector<std::vector<std::int64_t>>{{1}, {3, 5}, {16}, {7, 11}, {300}, {0}, {41, 50}, {}})
    all.push_back(torch::randn(sizes, type).requires_grad_());
  return all;
}

/// The same gradients for both, some of them tiny, some zero.
void give_gradients(std::vector<Tensor> const& a, std::vector<Tensor> const& b, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(1000 + step));
  for (std::size_t i = 0; i != a.size(); ++i) {
    auto const scale = torch::randn_like(a[i]) * std::pow(10.0, step % 7 - 3);
    for (auto const& p : {a[i], b[i]}) (p * scale).sum().backward();
  }
}

bool same(std::vector<Tensor> const& a, std::vector<Tensor> const& b) {
  for (std::size_t i = 0; i != a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// 1000 steps of both.
template <class Theirs, class Ours>
void check_same(std::vector<Tensor>& by_torch, Theirs raw, std::vector<Tensor>& flat, Ours optimizer, int steps = 1000) {
  static_assert(fulgurite::OptimizerLike<Ours>);
  static_assert(Ours::stable_gradients && !Ours::needs_closure);
  static_assert(std::is_same_v<Ours, decltype(LibTorch::adopt(std::move(optimizer)))>);
  int first_difference = -1;
  for (int step = 0; step != steps && first_difference < 0; ++step) {
    raw.zero_grad();
    optimizer.zero_grad();
    give_gradients(by_torch, flat, step);
    if (step == steps / 2) {
      raw.param_groups()[0].options().set_lr(0.003);
      optimizer.set_lr(0, 0.003);
    }
    raw.step();
    optimizer.step();
    if (!same(by_torch, flat)) first_difference = step;
  }
  CHECK(first_difference == -1);
}

template <class Raw, class Optimizer, class RawOptions, class Options>
void check_kind(RawOptions const& raw, Options const& options) {
  for (auto const type : {at::kFloat, at::kDouble}) {
    auto by_torch = parameters(type), flat = parameters(type);
    check_same(by_torch, Raw(by_torch, raw), flat, Optimizer(flat, options));
  }
}
}  // namespace

TEST_CASE("1000 steps of each optimizer are those of torch::optim, bit for bit", "[arena]") {
  SECTION("SGD") {
    check_kind<theirs::SGD, ours::SGD>(theirs::SGDOptions(0.01), ours::SGDOptions{.lr = 0.01});
    check_kind<theirs::SGD, ours::SGD>(theirs::SGDOptions(0.01).momentum(0.9).dampening(0.1).weight_decay(0.02),
                                       ours::SGDOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.02});
    check_kind<theirs::SGD, ours::SGD>(theirs::SGDOptions(0.01).momentum(0.9).nesterov(true),
                                       ours::SGDOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true});
  }
  SECTION("Adam") {
    check_kind<theirs::Adam, ours::Adam>(theirs::AdamOptions(0.01), ours::AdamOptions{.lr = 0.01});
    check_kind<theirs::Adam, ours::Adam>(theirs::AdamOptions(0.01).betas({0.8, 0.99}).eps(1e-6).weight_decay(0.02).amsgrad(true),
                                         ours::AdamOptions{.lr = 0.01, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = 0.02, .amsgrad = true});
  }
  SECTION("AdamW") {
    check_kind<theirs::AdamW, ours::AdamW>(theirs::AdamWOptions(0.01).weight_decay(0.1), ours::AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
    check_kind<theirs::AdamW, ours::AdamW>(theirs::AdamWOptions(0.01).amsgrad(true), ours::AdamWOptions{.lr = 0.01, .amsgrad = true});
  }
  SECTION("RMSprop") {
    check_kind<theirs::RMSprop, ours::RMSprop>(theirs::RMSpropOptions(0.01), ours::RMSpropOptions{});
    check_kind<theirs::RMSprop, ours::RMSprop>(theirs::RMSpropOptions(0.01).centered(true).momentum(0.9).weight_decay(0.02),
                                               ours::RMSpropOptions{.lr = 0.01, .weight_decay = 0.02, .momentum = 0.9, .centered = true});
  }
  SECTION("Adagrad") {
    check_kind<theirs::Adagrad, ours::Adagrad>(theirs::AdagradOptions(0.01), ours::AdagradOptions{.lr = 0.01});
    check_kind<theirs::Adagrad, ours::Adagrad>(
        theirs::AdagradOptions(0.01).lr_decay(0.1).weight_decay(0.02).initial_accumulator_value(0.5),
        ours::AdagradOptions{.lr = 0.01, .lr_decay = 0.1, .weight_decay = 0.02, .initial_accumulator_value = 0.5});
  }
}
