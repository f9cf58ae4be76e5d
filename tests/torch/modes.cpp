// Scopes that switch something and put it back: training flags, gradients, generators, anomaly detection, toggled
// optimizers.
#include "fixtures.hpp"

#include <stdexcept>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/torch/device/backend.hpp>

namespace {
using fulgurite::LibTorch;
using torch::Tensor;

/// Keeps one sub-module in eval mode whatever train() says.
struct Frozen : torch::nn::Module {
  fixtures::Net body;
  std::shared_ptr<fixtures::Net> net = register_module("net", std::make_shared<fixtures::Net>());
  torch::nn::Sequential head =
      register_module("head", torch::nn::Sequential(torch::nn::Linear(1, 1), torch::nn::Dropout()));
};
std::vector<bool> flags(torch::nn::Module& model) {
  std::vector<bool> all{model.is_training()};
  for (auto const& child : model.modules(false)) all.push_back(child->is_training());
  return all;
}
}  // namespace

TEST_CASE("evaluating restores every sub-module's own flag", "[modes]") {
  Frozen model;
  auto const check = [&] {
    auto const before = flags(model);
    {
      [[maybe_unused]] auto const scope = LibTorch::evaluating(model);
      CHECK(flags(model) == std::vector<bool>(before.size(), false));
      model.head->train();  // even where the evaluation itself switched something
    }
    CHECK(flags(model) == before);
  };
  check();
  model.net->norm->eval();
  check();
  model.eval();
  check();
  model.head->train();
  check();
  try {
    [[maybe_unused]] auto const scope = LibTorch::evaluating(model);
    throw std::runtime_error("validation failed");
  } catch (std::runtime_error const&) { CHECK(model.head->is_training()); }
  struct NoModule {
  } plain;
  [[maybe_unused]] auto const nothing = LibTorch::evaluating(plain);
}

TEST_CASE("no_grad and inference are scopes that nest", "[modes]") {
  auto const w = torch::ones({1}).requires_grad_();
  {
    [[maybe_unused]] auto const off = LibTorch::no_grad();
    auto const y = w * 2;
    CHECK((!y.requires_grad() && !y.is_inference()));
    {
      [[maybe_unused]] auto const inner = LibTorch::inference();
      CHECK((w * 2).is_inference());
    }
    CHECK_FALSE((w * 2).is_inference());
    CHECK_FALSE((w * 2).requires_grad());
    [[maybe_unused]] auto const by_flag = LibTorch::no_grad(true);
    CHECK((w * 2).is_inference());
  }
  CHECK((w * 2).requires_grad());
}

TEST_CASE("random numbers drawn in isolation leave no trace", "[modes]") {
  torch::manual_seed(5);
  auto const first = torch::rand({4});
  torch::manual_seed(5);
  {
    [[maybe_unused]] auto const scope = LibTorch::isolated_rng();
    torch::randn({100});
    torch::manual_seed(99);
    torch::randperm(10);
  }
  CHECK(fixtures::same_bits(torch::rand({4}), first));
}

TEST_CASE("anomaly detection names the culprit, for a scope", "[modes]") {
  auto const faulty = [] {
    auto x = torch::zeros({1}).requires_grad_();
    (torch::sqrt(x) * 0).sum().backward();  // 0 / 0
  };
  {
    [[maybe_unused]] auto const off = LibTorch::anomaly(false);
    CHECK_NOTHROW(faulty());
  }
  {
    [[maybe_unused]] auto const on = LibTorch::anomaly(true);
    CHECK_THROWS_WITH(faulty(), Catch::Matchers::ContainsSubstring("SqrtBackward"));
  }
  CHECK_NOTHROW(faulty());
}

TEST_CASE("toggling: own parameters keep what they had, shared ones stay on, strangers are untouched", "[toggle]") {
  auto const make = [](bool on) { return torch::ones({1}).requires_grad_(on); };
  Tensor const a = make(true), a_frozen = make(false), shared = make(true), b = make(true), b_frozen = make(false),
               stranger = make(true);
  auto all = std::tuple(LibTorch::adopt(torch::optim::SGD(std::vector{a, a_frozen, shared}, 0.1)),
                        LibTorch::adopt(torch::optim::Adam(std::vector{b, b_frozen, shared}, 0.1)));
  auto& [first, second] = all;
  using Flags = std::vector<bool>;
  auto const now = [&] {
    Flags on;
    for (auto const* p : {&a, &a_frozen, &shared, &b, &b_frozen, &stranger}) on.push_back(p->requires_grad());
    return on;
  };
  Flags const before = now();
  {
    [[maybe_unused]] auto const scope = LibTorch::toggled(first, all);
    CHECK(now() == Flags{true, false, true, false, false, true});
  }
  CHECK(now() == before);

  fulgurite::Toggle toggle;
  toggle.toggle(second, all);
  CHECK(now() == Flags{false, false, true, true, false, true});
  toggle.toggle(first, all);  // straight from one to the other
  CHECK(now() == Flags{true, false, true, false, false, true});
  toggle.untoggle();
  toggle.untoggle();
  CHECK(now() == before);

  try {
    [[maybe_unused]] auto const scope = LibTorch::toggled(second, all);
    throw std::runtime_error("a step failed");
  } catch (std::runtime_error const&) { CHECK(now() == before); }
  auto alone = std::tuple(LibTorch::adopt(torch::optim::SGD(std::vector{a, a_frozen}, 0.1)));
  [[maybe_unused]] auto const scope = LibTorch::toggled(std::get<0>(alone), alone);
  CHECK(now() == before);
}
