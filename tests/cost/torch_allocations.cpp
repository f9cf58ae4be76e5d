// A warm step of fit on LibTorch allocates nothing that the same step by hand does not (P2). LibTorch itself makes
// hundreds.

#include <torch/torch.h>

#include "allocations.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

namespace {

namespace nn = torch::nn;
using fulgurite::Automatic;
using Batch = torch::data::Example<>;

struct Net : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(8, 8)), out = register_module("out", nn::Linear(8, 2));
  torch::Tensor loss(Batch const& batch) {
    return nn::functional::cross_entropy(out->forward(torch::relu(in->forward(batch.data))), batch.target);
  }
  torch::Tensor training_step(Batch const& batch) { return loss(batch); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9)); }
};

struct Logging : Net {
  static constexpr fulgurite::Metric<"loss"> train_loss{};
  using Metrics = fulgurite::MetricList<train_loss>;
  torch::Tensor training_step(Batch const& batch, auto& ctx) {
    auto value = loss(batch);
    ctx.log(train_loss, value);
    return value;
  }
};

/// The same batch again and again: what is counted is the step, not the loading.
class Same {
 public:
  using value_type = Batch;
  Same(Batch batch, long n) : batch_(std::move(batch)), n_(n) {}
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    Batch* batch;
    long at;
    Batch& operator*() const { return *batch; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const& other) const { return at == other.at; }
  };
  Iterator begin() { return {&batch_, 0}; }
  Iterator end() { return {&batch_, n_}; }
  std::size_t size() const { return static_cast<std::size_t>(n_); }

 private:
  Batch batch_;
  long n_;
};

Batch batch() {
  torch::manual_seed(1);
  return {torch::randn({4, 8}), torch::randint(2, {4}, torch::kLong)};
}

double by_hand(int window = 1) {
  return cost::allocations_a_step(
      [&](long steps) {
        Net net;
        auto optimizer = net.configure_optimizers();
        Batch const given = batch();
        auto const seed = torch::full({}, 1.0 / window);
        for (long b = 0; b != steps * window; ++b) {
          auto loss = net.loss(given);
          if (b % window == 0) optimizer.zero_grad();
          loss.backward(seed);
          if (b % window == window - 1) optimizer.step();
        }
      },
      50, 450);
}

template <class Model>
double by_fit(Automatic how) {
  return cost::allocations_a_step(
      [&](long steps) {
        Model model;
        auto trainer = fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1},
                                                      fulgurite::SingleDevice{fulgurite::cpu}, fulgurite::Float32{},
                                                      how, fulgurite::NoDefaults{});
        Same data(batch(), steps * how.accumulate_grad_batches);
        trainer.fit(model, data);
        REQUIRE(trainer.progress().global_step == steps);
      },
      50, 450);
}

}  // namespace

TEST_CASE("P2: a warm step of fit on LibTorch allocates no more than the same step by hand") {
  auto const hand = by_hand(), fit = by_fit<Net>({});
  INFO("by hand " << hand << ", fit " << fit);
  CHECK(hand > 50);
  CHECK(fit < hand + 0.5);  // a whole one would show; LibTorch itself varies by less
}

TEST_CASE("P2: nor with windows of four batches") {
  auto const hand = by_hand(4), fit = by_fit<Net>({.accumulate_grad_batches = 4});
  INFO("by hand " << hand << ", fit " << fit);
  CHECK(fit < hand + 0.5);
}

TEST_CASE("P8: logging a tensor each step adds no allocation on LibTorch") {
  auto const quiet = by_fit<Net>({}), logging = by_fit<Logging>({});
  INFO("without " << quiet << ", with " << logging);
  CHECK(logging < quiet + 0.5);
}

TEST_CASE("loading allocates by the batch: as often for 64 samples as for 2") {
  auto const by_batch = [](long size) {
    return cost::allocations_a_step(
        [&](long batches) {
          fulgurite::data::TensorLoader loader{torch::zeros({batches * size, 8}),
                                               torch::zeros({batches * size}, torch::kLong),
                                               {.batch_size = size, .shuffle = true}};
          long loaded = 0;
          for (auto const& batch : loader) loaded += batch.data.size(0);
          REQUIRE(loaded == batches * size);
        },
        50, 450);
  };
  auto const small = by_batch(2), large = by_batch(64);
  INFO("of 2 samples " << small << ", of 64 " << large);
  CHECK(large < small + 0.5);
}
