// Flat optimizers beside others: moved, two on one model, a cloned module, layouts, weights from a file, clipping,
// averages.
#include "fixtures.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

namespace {
using fixtures::same_bits;
using fulgurite::LibTorch;
using torch::Tensor;
namespace ours = fulgurite::optim;
namespace theirs = torch::optim;

struct Conv : torch::nn::Cloneable<Conv> {
  torch::nn::Conv2d in{nullptr};
  torch::nn::Linear out{nullptr};
  Conv() { reset(); }
  void reset() override {
    in = register_module("in", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 5, 3)));
    out = register_module("out", torch::nn::Linear(5, 2));
  }
  Tensor loss(Tensor const& x) { return out(in(x).relu().mean({2, 3})).square().mean(); }
};

Conv fresh() {
  torch::manual_seed(2);
  return Conv();
}
Tensor images(int step) {
  torch::manual_seed(static_cast<std::uint64_t>(50 + step));
  return torch::randn({4, 3, 6, 6});
}
template <class Optimizer>
void learn(Conv& net, Optimizer& optimizer, int step) {
  optimizer.zero_grad();
  net.loss(images(step)).backward();
  optimizer.step();
}
bool same(std::vector<Tensor> const& a, std::vector<Tensor> const& b) {
  for (std::size_t i = 0; i != a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return a.size() == b.size();
}
}  // namespace

TEST_CASE("an optimizer that is moved between steps, and a module cloned from one in an arena, go their own ways",
          "[arena]") {
  auto by_torch = fresh(), flat = fresh();
  theirs::Adam raw(by_torch.parameters(), 0.01);
  std::optional<ours::Adam> first(std::in_place, flat, ours::AdamOptions{.lr = 0.01});
  for (int step = 0; step != 3; ++step) learn(by_torch, raw, step), learn(flat, *first, step);
  auto const range = first->parameters();
  auto moved = std::move(*first);
  first.reset();
  for (int step = 3; step != 6; ++step) learn(by_torch, raw, step), learn(flat, moved, step);
  CHECK(same(by_torch.parameters(), flat.parameters()));
  CHECK(LibTorch::clip_norm(range, 1e9).item<double>() > 0);
  CHECK(moved.state("in.weight").step == 6);

  auto const copy = std::dynamic_pointer_cast<Conv>(flat.clone());
  auto const copy_by_torch = std::dynamic_pointer_cast<Conv>(by_torch.clone());
  CHECK(same(copy->parameters(), flat.parameters()));
  CHECK_FALSE(copy->out->weight.storage().is_alias_of(flat.out->weight.storage()));
  ours::Adam of_copy(*copy, {.lr = 0.1});
  theirs::Adam raw_of_copy(copy_by_torch->parameters(), 0.1);
  for (int step = 6; step != 9; ++step) {
    learn(by_torch, raw, step), learn(flat, moved, step);
    learn(*copy, of_copy, step), learn(*copy_by_torch, raw_of_copy, step);
  }
  CHECK(same(by_torch.parameters(), flat.parameters()));
  CHECK(same(copy_by_torch->parameters(), copy->parameters()));
  CHECK_FALSE(same(copy->parameters(), flat.parameters()));
}

TEST_CASE("two optimizers on parts of a model, and on a part that both update, take the steps of torch::optim",
          "[arena]") {
  for (bool const shared : {false, true}) {
    auto by_torch = fresh(), flat = fresh();
    auto const second = [&](Conv& net) { return shared ? net.parameters() : net.out->parameters(); };
    theirs::Adam raw_in(by_torch.in->parameters(), 0.01);
    theirs::SGD raw_out(second(by_torch), theirs::SGDOptions(0.1).momentum(0.9));
    ours::Adam in(flat.in->parameters(), {.lr = 0.01});
    ours::SGD out(second(flat), {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step != 12; ++step) {
      if (step % 3 == 2) {  // both from one backward
        for (auto* optimizer : {static_cast<theirs::Optimizer*>(&raw_in), static_cast<theirs::Optimizer*>(&raw_out)})
          optimizer->zero_grad();
        in.zero_grad();
        out.zero_grad();
        by_torch.loss(images(step)).backward();
        flat.loss(images(step)).backward();
        raw_in.step();
        raw_out.step();
        in.step();
        out.step();
      } else if (step % 3 == 1) {
        learn(by_torch, raw_in, step), learn(flat, in, step);
      } else {
        learn(by_torch, raw_out, step), learn(flat, out, step);
      }
      CHECK(same(by_torch.parameters(), flat.parameters()));
    }
  }
}

TEST_CASE("parameters that lie channels last stay so, their gradients and states with them", "[arena]") {
  auto by_torch = fresh(), flat = fresh();
  for (auto* net : {&by_torch, &flat})
    net->in->weight.set_data(net->in->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  theirs::Adam raw(by_torch.parameters(), 0.01);
  ours::Adam optimizer(flat, {.lr = 0.01});
  for (int step = 0; step != 5; ++step) {
    for (auto* net : {&by_torch, &flat}) net->zero_grad();
    raw.zero_grad();
    optimizer.zero_grad();
    by_torch.loss(images(step).contiguous(at::MemoryFormat::ChannelsLast)).backward();
    flat.loss(images(step).contiguous(at::MemoryFormat::ChannelsLast)).backward();
    raw.step();
    optimizer.step();
  }
  CHECK(same(by_torch.parameters(), flat.parameters()));
  for (auto const& tensor : {flat.in->weight, flat.in->weight.grad(), optimizer.state("in.weight")["exp_avg"]})
    CHECK(tensor.strides() == by_torch.in->weight.strides());
}

TEST_CASE("weights from a file reach a flat model in training; a parameter registered later is nobody's", "[arena]") {
  auto by_torch = fresh(), flat = fresh();
  theirs::Adam raw(by_torch.parameters(), 0.01);
  ours::Adam optimizer(flat, {.lr = 0.01});
  for (int step = 0; step != 3; ++step) learn(by_torch, raw, step), learn(flat, optimizer, step);
  auto const path = std::filesystem::temp_directory_path() / "fulgurite_arena.safetensors";
  LibTorch::save(path, flat, [](auto&) {});
  for (int step = 3; step != 5; ++step) learn(by_torch, raw, step), learn(flat, optimizer, step);
  CHECK(same(by_torch.parameters(), flat.parameters()));
  for (auto* net : {&by_torch, &flat}) fulgurite::load_weights(*net, path);
  std::filesystem::remove(path);
  auto const late = flat.register_parameter("late", torch::ones({3}));
  for (int step = 5; step != 7; ++step) {
    learn(by_torch, raw, step);
    optimizer.zero_grad();
    (flat.loss(images(step)) + late.sum()).backward();
    optimizer.step();
  }
  CHECK(same_bits(by_torch.in->weight, flat.in->weight));
  CHECK(same_bits(late, torch::ones({3})));
  CHECK(late.grad().sum().item<double>() == 6);
}

TEST_CASE("the factor of a norm is a number on the CPU, with the bits of the operators, and 1 writes nothing",
          "[arena]") {
  for (auto const type : {at::kFloat, at::kDouble})
    for (double const size :
         {1e-9, 0.001, 0.3, 1.0, 7.0, 3e12, std::numeric_limits<double>::infinity(), std::nan("")}) {
      CAPTURE(type, size);
      torch::manual_seed(8);
      auto const value = torch::randn({300}, type) * size;
      auto p = torch::zeros({300}, type).requires_grad_();
      ours::SGD optimizer(std::vector{p});
      p.grad().copy_(value);
      Tensor norm;
      {
        fixtures::Operators const operators;
        norm = LibTorch::clip_norm(optimizer.parameters(), 0.7);
        CHECK(operators.saw("aten::mul_") == !(size < 0.01));
        CHECK_FALSE(operators.saw("aten::reciprocal_"));
      }
      CHECK(same_bits(p.grad(), value * fulgurite::libtorch::factor_of(norm, 0.7)));
      // Separate tensors, as torch::optim has them.
      std::vector<Tensor> const two{torch::zeros({200}, type).requires_grad_(),
                                    torch::zeros({100}, type).requires_grad_()};
      two[0].mutable_grad() = value.narrow(0, 0, 200).clone();
      two[1].mutable_grad() = value.narrow(0, 200, 100).clone();
      auto const total = LibTorch::clip_norm(two, 0.7);
      CHECK(same_bits(two[1].grad(), value.narrow(0, 200, 100) * fulgurite::libtorch::factor_of(total, 0.7)));
    }
  // While a step is recorded the factor has to be part of it.
  auto const norm = torch::ones({});
  CHECK(fulgurite::libtorch::factor_now(norm, 0.5));
  c10::impl::IncludeDispatchKeyGuard const recording(c10::DispatchKey::Fake);
  CHECK_FALSE(fulgurite::libtorch::factor_now(norm, 0.5));
}

TEST_CASE("an average of neighbours is one operation, with the bits of separate ones", "[arena]") {
  torch::manual_seed(4);
  std::vector<Tensor> p;
  for (auto const& sizes :
       std::vector<std::vector<std::int64_t>>{{3, 5}, {1}, {16}, {0}, {77}, {7, 11}, {2, 3, 4, 4}, {}})
    p.push_back(torch::randn(sizes).requires_grad_());
  ours::SGD optimizer(p);
  auto live = p;
  live.push_back(torch::randn({9}, at::kDouble));
  live.push_back(torch::randn({5}, at::kBFloat16));
  live.push_back(torch::randn({21}, at::kBFloat16));
  live.push_back(torch::randn({6}));
  auto const check = [&](std::vector<Tensor> const& values, std::size_t operations) {
    std::vector<Tensor> one_by_one;
    for (auto const& value : values) one_by_one.push_back(LibTorch::clone(value));
    auto together = LibTorch::clones(values);
    CHECK(same(together, one_by_one));
    for (double const t : {0.001, 0.4, 0.7, 1.0}) {
      at::NoGradGuard const no_graph;
      for (auto& value : values) Tensor(value).mul_(1.1).add_(0.01);
      for (std::size_t i = 0; i != values.size(); ++i) LibTorch::lerp_into(one_by_one[i], values[i], t);
      fixtures::Operators const operators;
      LibTorch::lerp_into(together, values, t);
      CHECK(operators.all() == operations);
      CHECK(same(together, one_by_one));
    }
  };
  check(p, 1);
  check(live, 1 + 5);                  // the neighbours, and a list of four
  check({p[0], p[2], p[1], p[4]}, 5);  // p[2] does not follow p[0], p[4] not p[1]
  p[2].set_data(torch::randn({16}));   // until the next step it lies elsewhere
  check({p[0], p[1], p[2], p[4], p[5]}, 2 + 2);
  p[6].set_data(torch::randn({2, 4, 4, 3}).permute({0, 3, 1, 2}));
  check({p[5], p[6]}, 3);
  // In its place again, but with its numbers in another order than when the average was begun.
  optimizer.step();
  std::vector<Tensor> const pair{p[5], p[6]};
  auto together = LibTorch::clones(pair);
  at::NoGradGuard const no_graph;
  p[6].set_data(p[6].detach().as_strided({2, 3, 4, 4}, {48, 1, 12, 3}).add_(1));
  auto const expected = together[1].lerp(p[6], 0.3);
  LibTorch::lerp_into(together, pair, 0.3);
  CHECK(same_bits(together[1], expected));
}
