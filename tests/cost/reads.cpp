// Host synchronisations: the trainer waits for the device at the logging cadence and nowhere else (P9), counted on the
// toy's imagined device.

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "rows.hpp"

namespace {

struct Net {
  static constexpr fulgurite::Metric<"loss"> train_loss{};
  static constexpr fulgurite::Metric<"loss/validation"> val_loss{};
  using Metrics = fulgurite::MetricList<train_loss, val_loss>;
  toy::Tensor p = toy::Tensor::parameter(0.5);

  toy::Tensor training_step(long batch, auto& ctx) {
    auto loss = p * toy::Tensor(static_cast<double>(batch));
    ctx.log(train_loss, loss);
    return loss;
  }
  void validation_step(long batch, auto& ctx) { ctx.log(val_loss, p * toy::Tensor(static_cast<double>(batch))); }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 1e-9}; }
};

long reads(long batches, fulgurite::TrainerOptions options, fulgurite::Automatic how = {}, long validation = 0) {
  toy::Restored<bool> const waits(toy::world.device_waits, true);
  Net net;
  options.max_epochs = 1;
  options.num_sanity_val_steps = 0;
  if (validation == 0) options.limit_val_batches = 0;
  auto trainer = fulgurite::make_trainer<Net>(options, toy::Device{}, fulgurite::Float32{}, how, toy::Rows{});
  null::Count train(batches), val(std::max(1L, validation));
  long const before = toy::world.reads;
  trainer.fit(net, train, val);
  return toy::world.reads - before;
}

}  // namespace

TEST_CASE("P9: one host synchronisation every k steps, whatever k is") {
  int const every = GENERATE(1, 5, 10, 50);
  fulgurite::TrainerOptions const options{.log_every_n_steps = every};
  CHECK(reads(1000, options) - reads(500, options) == 500 / every);
}

TEST_CASE("P9: without rows there is one for all of an epoch") { CHECK(reads(1000, {.log_every_n_steps = 0}) == 1); }

TEST_CASE("P9: steps are what is counted, not batches of a window") {
  fulgurite::TrainerOptions const options{.log_every_n_steps = 10};
  CHECK(reads(4000, options, {.accumulate_grad_batches = 4}) - reads(2000, options, {.accumulate_grad_batches = 4}) ==
        50);
}

TEST_CASE("P9: a validation is read once, however many batches it has") {
  fulgurite::TrainerOptions const options{.log_every_n_steps = 0};
  CHECK(reads(100, options, {}, 40) - reads(100, options) == 1);
  CHECK(reads(100, options, {}, 400) - reads(100, options) == 1);
}
