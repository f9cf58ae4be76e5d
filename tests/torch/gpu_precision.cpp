// Mixed precisions on a GPU: the scaler of Fp16Mixed against one written out, and bfloat16 against the loop by hand.

#include "gpu.hpp"

#include <cmath>
#include <utility>
#include <vector>

using namespace gpu;

namespace {

/// Notes the weights after each batch, and the steps left out so far.
struct Noted : torch::nn::Module {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)));
  std::vector<torch::Tensor> after = {};
  std::vector<long> skipped = {};
  torch::Tensor loss_of(data::Batch const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }
  torch::Tensor training_step(data::Batch const& batch) { return loss_of(batch); }
  void on_train_batch_end(auto& ctx) {
    for (auto const& weight : this->parameters()) after.push_back(weight.detach().clone());
    skipped.push_back(ctx.skipped_steps());
  }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.1, .momentum = 0.9}); }
};

/// 2^24 overflows in float16 in the first steps; three good ones in a row and the scale doubles, which overflows again.
constexpr Fp16Mixed hasty{.init_scale = 16777216.0, .growth_interval = 3};

template <class Strategy, class Precision>
Noted fitted(Strategy strategy, Precision precision, std::vector<data::Batch> const& train, Automatic how = {}) {
  auto model = fresh<Noted>();
  auto trainer = make_trainer<Noted>({.max_epochs = 1}, strategy, precision, how, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  return model;
}

/// The same by hand, with the rules of torch.amp.GradScaler read on the host.
Noted scaled_by_hand(std::vector<data::Batch> const& train) {
  auto model = fresh<Noted>();
  model.to(torch::kCUDA);
  torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  double scale = hasty.init_scale;
  int good = 0;
  long skipped = 0;
  for (auto const& batch : on_gpu(train)) {
    sgd.zero_grad();
    torch::Tensor loss;
    {
      libtorch::AutocastScope const on(at::kCUDA, at::kHalf);
      loss = model.loss_of(batch);
    }
    (loss * scale).backward();
    bool finite = true;
    for (auto const& weight : model.parameters()) finite = finite && torch::isfinite(weight.grad()).all().item<bool>();
    if (finite) {
      for (auto const& weight : model.parameters()) weight.mutable_grad().mul_(static_cast<float>(1 / scale));
      sgd.step();
      if (++good == hasty.growth_interval) scale *= 2, good = 0;
    } else {
      ++skipped;
      scale /= 2;
      good = 0;
    }
    for (auto const& weight : model.parameters()) model.after.push_back(weight.detach().clone());
    model.skipped.push_back(skipped);
  }
  return model;
}

}  // namespace

TEST_CASE("on a GPU the scaler of Fp16Mixed leaves out, shrinks and grows as one that is written out") {
  if (absent()) SKIP(none);
  auto const train = batches(40, 8);
  auto const expected = scaled_by_hand(train);
  REQUIRE(expected.skipped.front() == 1);
  REQUIRE(expected.skipped.back() > 3);
  REQUIRE(expected.skipped.back() < 20);
  auto const check = [&](auto strategy) {
    auto const model = fitted(strategy, hasty, train);
    CHECK(model.skipped == expected.skipped);
    CHECK(same(model.after, expected.after));
    for (auto const& weight : model.parameters()) CHECK(weight.scalar_type() == torch::kFloat);
  };
  check(SingleDevice{cuda});
  check(SingleDevice{automatic});
  Captured captured{SingleDevice{cuda}};
  check(captured);
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
  INFO(all_of(captured.report()->reasons));
  CHECK(captured.report()->replayed > 10);
  CHECK(captured.report()->reasons.empty());
#endif
}

TEST_CASE("on a GPU Bf16Mixed has the bits of the loop by hand under autocast, captured or not") {
  if (absent()) SKIP(none);
  auto const train = batches(30, 8);
  auto expected = fresh<Noted>();
  expected.to(torch::kCUDA);
  torch::optim::SGD sgd(expected.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (auto const& batch : on_gpu(train)) {
    sgd.zero_grad();
    torch::Tensor loss;
    {
      libtorch::AutocastScope const on(at::kCUDA, at::kBFloat16);
      loss = expected.loss_of(batch);
    }
    loss.backward();
    sgd.step();
  }
  CHECK(same(fitted(SingleDevice{cuda}, Bf16Mixed{}, train), expected));
  Captured captured{SingleDevice{cuda}};
  CHECK(same(fitted(captured, Bf16Mixed{}, train), expected));
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
  INFO(all_of(captured.report()->reasons));
  CHECK(captured.report()->replayed > 10);
#endif
}

TEST_CASE("on a GPU windows, clipping and the other precisions train, captured as they are written") {
  if (absent()) SKIP(none);
  auto const train = batches(31, 8);
  Automatic const how{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}};
  auto const check = [&](auto precision) {
    auto const plain = fitted(SingleDevice{cuda}, precision, train, how);
    CHECK(same(plain.after, fitted(Captured{SingleDevice{cuda}}, precision, train, how).after));
    for (torch::Tensor const& weight : plain.parameters()) CHECK(torch::isfinite(weight).all().item<bool>());
    CHECK_FALSE(same(plain, fresh<Noted>()));
  };
  check(hasty);
  check(Bf16Mixed{});
  check(Bf16True{});
  check(Fp16True{});
  check(Float64{});
}
