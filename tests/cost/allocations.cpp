// A warm step of fit allocates nothing that the same step by hand does not (P2), on the toy tensor.

#include "allocations.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "rows.hpp"

namespace {

using fulgurite::Automatic;
using fulgurite::TrainerOptions;

struct Quiet {
  toy::Tensor p = toy::Tensor::parameter(0.5);
  toy::Tensor loss(double batch) const { return p * toy::Tensor(batch); }
  toy::Tensor training_step(long batch) { return loss(static_cast<double>(batch)); }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 1e-9}; }
};

struct Logging {
  static constexpr fulgurite::Metric<"loss"> train_loss{};
  static constexpr fulgurite::Metric<"twice"> twice{};
  using Metrics = fulgurite::MetricList<train_loss, twice>;
  Quiet net = {};
  toy::Tensor training_step(long batch, auto& ctx) {
    auto loss = net.loss(static_cast<double>(batch));
    ctx.log(train_loss, loss);
    ctx.log(twice, 2.0 * loss.value());
    return loss;
  }
  toy::Sgd configure_optimizers() { return net.configure_optimizers(); }
};

struct Hearing {
  using Stateless = fulgurite::ByChoice;
  long heard = 0;
  void on_train_batch_start(auto&) { ++heard; }
  void on_before_optimizer_step(auto&, auto&) { ++heard; }
  void on_train_batch_end(auto const&, auto&) { ++heard; }
};

/// What a trainer does, and nothing else: `window` batches, then a step.
double by_hand(int window = 1) {
  return cost::allocations_a_step(
      [&](long steps) {
        Quiet net;
        auto optimizer = net.configure_optimizers();
        for (long b = 0; b != steps * window; ++b) {
          auto loss = net.training_step(b);
          if (b % window == 0) optimizer.zero_grad();
          loss.backward(1.0 / window);
          if (b % window == window - 1) optimizer.step();
        }
      },
      200, 1200);
}

template <class Model, class... Cs>
double by_fit(TrainerOptions options, Automatic how, Cs... callbacks) {
  return cost::allocations_a_step(
      [&](long steps) {
        Model model;
        auto trainer = fulgurite::make_trainer<Model>(options, toy::Device{}, fulgurite::Float32{}, how, callbacks...);
        null::Count batches(steps * how.accumulate_grad_batches);
        trainer.fit(model, batches);
        REQUIRE(trainer.progress().global_step == steps);
      },
      200, 1200);
}

TrainerOptions one_epoch() { return {.max_epochs = 1}; }

}  // namespace

TEST_CASE("the counter counts: a step by hand on the toy allocates its tensors and what backward visits") {
  CHECK(by_hand() >= 2);
  CHECK(by_hand(4) > 3 * by_hand());
}

TEST_CASE("P2: a warm step of fit allocates exactly what the same step by hand does") {
  CHECK(by_fit<Quiet>(one_epoch(), {}) == by_hand());
}

TEST_CASE("P2: so does a step that closes a window of four batches, and one that clips") {
  CHECK(by_fit<Quiet>(one_epoch(), {.accumulate_grad_batches = 4}) == by_hand(4));
  CHECK(by_fit<Quiet>(one_epoch(), {.clip = fulgurite::ClipNorm{0.5}}) ==
        by_hand() + 1);  // the norm, a tensor of the toy
}

TEST_CASE("P2: callbacks that hear each step add no allocation") {
  CHECK(by_fit<Quiet>(one_epoch(), {}, Hearing{}, fulgurite::Timer{}) == by_hand());
}

TEST_CASE("P8: logging a tensor and a number each step adds no allocation") {
  CHECK(by_fit<Logging>(one_epoch(), {}) == by_hand());
}

TEST_CASE("P8: where values wait for a device, logging adds none either until they are read") {
  toy::Restored<bool> const waits(toy::world.device_waits, true);
  CHECK(by_fit<Logging>({.max_epochs = 1, .log_every_n_steps = 0}, {}) == by_hand());
}

TEST_CASE("a limit, a stop that never comes and an interval of validation add no allocation") {
  auto options = one_epoch();
  options.max_steps = 1'000'000;
  options.min_steps = 1;
  CHECK(by_fit<Quiet>(options, {}) == by_hand());
}
