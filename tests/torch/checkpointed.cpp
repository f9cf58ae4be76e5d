// checkpointed(block, inputs...): the bits of the block itself, without what it would keep.

#include <functional>
#include <string>
#include <vector>

#include "fixtures.hpp"

#include <fulgurite/fulgurite.hpp>

using namespace fulgurite;

namespace {

/// All that a second run could get wrong: random numbers, averages of a batch norm, a precision.
struct Block : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(6, 32));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(32));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 6));
  torch::Tensor forward(torch::Tensor const& x) { return out(drop(torch::gelu(norm(in(x))))); }
};

template <bool Again>
struct Net : torch::nn::Module {
  using Metrics = MetricList<>;
  std::shared_ptr<Block> one = register_module("one", std::make_shared<Block>());
  std::shared_ptr<Block> two = register_module("two", std::make_shared<Block>());
  torch::Tensor forward(torch::Tensor const& x) {
    if constexpr (Again) return checkpointed(*two, checkpointed(*one, x));
    else return two->forward(one->forward(x));
  }
  torch::Tensor training_step(auto const& batch) {
    return (forward(batch.data) - batch.target).square().mean() + torch::rand({1}).sum();
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
};

/// Weights and buffers after three epochs, and the next random number.
template <bool Again>
std::vector<torch::Tensor> trained(auto precision, auto strategy, int accumulate) {
  torch::manual_seed(3);
  Net<Again> net;
  data::TensorLoader batches{torch::randn({24, 6}), torch::randn({24, 6}), {.batch_size = 4}};
  auto trainer = make_trainer<Net<Again>>(TrainerOptions{.max_epochs = 3}, strategy, precision,
                                          Automatic{.accumulate_grad_batches = accumulate}, NoDefaults{});
  trainer.fit(net, batches);
  auto all = fixtures::copied_weights(net);
  all.push_back(torch::rand({4}));
  return all;
}

void same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
}

std::string what(std::function<void()> const& call) {
  try {
    call();
  } catch (Error const& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("a fit of checkpointed blocks has the bits of one that keeps everything", "[checkpointed]") {
  same(trained<true>(Float32{}, SingleDevice{cpu}, 1), trained<false>(Float32{}, SingleDevice{cpu}, 1));
  same(trained<true>(Float32{}, SingleDevice{cpu}, 4), trained<false>(Float32{}, SingleDevice{cpu}, 4));
  same(trained<true>(Bf16Mixed{}, SingleDevice{cpu}, 1), trained<false>(Bf16Mixed{}, SingleDevice{cpu}, 1));
  same(trained<true>(Float32{}, Captured{SingleDevice{cpu}}, 1), trained<false>(Float32{}, SingleDevice{cpu}, 1));
}

TEST_CASE("between forward and backward a checkpointed block keeps its inputs alone", "[checkpointed]") {
  c10::weak_intrusive_ptr<c10::TensorImpl> between{c10::intrusive_ptr<c10::TensorImpl>()};
  auto const block = [&](torch::Tensor const& x) {
    auto const y = x.exp();
    between = y.getIntrusivePtr();
    return y.sin();
  };
  auto const x = torch::randn({5}).requires_grad_();
  auto const kept = block(x);
  CHECK_FALSE(between.expired());
  auto const again = checkpointed(block, x);
  CHECK(between.expired());
  CHECK(fixtures::same_bits(kept, again));
  kept.sum().backward();
  auto const gradient = x.grad().clone();
  x.mutable_grad().reset();
  again.sum().backward();
  CHECK(fixtures::same_bits(x.grad(), gradient));
}

TEST_CASE("checkpointed: inputs without gradients, several inputs, frozen blocks, modules by holder",
          "[checkpointed]") {
  torch::nn::Linear layer(3, 2);
  auto const x = torch::randn({4, 3});
  checkpointed(layer, x).sum().backward();
  REQUIRE(layer->weight.grad().defined());
  auto const gradient = layer->weight.grad().clone();
  layer->zero_grad();
  layer(x).sum().backward();
  CHECK(fixtures::same_bits(layer->weight.grad(), gradient));

  auto const a = torch::randn({2}).requires_grad_(), b = torch::randn({2}), c = torch::randn({2}).requires_grad_();
  checkpointed([](auto const& p, auto const& q, auto const& r) { return p * q * r; }, a, b, c).sum().backward();
  CHECK(fixtures::same_bits(a.grad(), b * c.detach()));
  CHECK(fixtures::same_bits(c.grad(), a.detach() * b));
  CHECK_FALSE(b.grad().defined());

  for (auto& parameter : layer->parameters()) parameter.requires_grad_(false);
  auto const start = torch::randn({4, 3}).requires_grad_();
  (checkpointed(layer, x).sum() * start.sum()).backward();
  CHECK(start.grad().defined());

  torch::NoGradGuard const no_graph;
  CHECK_FALSE(checkpointed(layer, x).requires_grad());
}

TEST_CASE("checkpointed: inputs that are undefined reach the block as they are, wherever they stand",
          "[checkpointed]") {
  auto const a = torch::randn({2}).requires_grad_(), b = torch::randn({2}).requires_grad_();
  torch::Tensor const none;
  int undefined = 0;
  auto const block = [&](torch::Tensor const& p, torch::Tensor const& q, torch::Tensor const& mask) {
    undefined += (p.defined() ? 0 : 100) + (q.defined() ? 0 : 10) + (mask.defined() ? 0 : 1);
    return (p.defined() ? p.exp() : torch::ones({2})) * (q.defined() ? q.sin() : torch::ones({2}));
  };
  checkpointed(block, a, none, none).sum().backward();
  CHECK(undefined == 22);  // two runs
  CHECK(fixtures::same_bits(a.grad(), a.detach().exp()));
  checkpointed(block, none, b, none).sum().backward();
  CHECK(undefined == 22 + 202);
  CHECK(fixtures::same_bits(b.grad(), b.detach().cos()));
  torch::NoGradGuard const no_graph;
  checkpointed(block, none, none, b);
  CHECK(undefined == 22 + 202 + 110);
}

TEST_CASE("checkpointed refuses what would lose gradients", "[checkpointed]") {
  torch::nn::Linear layer(3, 2);
  auto const x = torch::randn({4, 3}).requires_grad_();
  auto const loss = [&] { return checkpointed(layer, x).square().sum(); };
  CHECK(what([&] { torch::autograd::grad({loss()}, {x}); }).find("[fulgurite.checkpointed.some_gradients]") !=
        std::string::npos);
  CHECK(what([&] { loss().backward({}, true, true); }).find("[fulgurite.checkpointed.second_gradients]") !=
        std::string::npos);
}
