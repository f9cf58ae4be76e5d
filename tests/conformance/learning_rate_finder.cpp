// Section 11.10: the learning-rate finder.
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "observed.hpp"

using namespace fulgurite;

namespace {

/// Its loss falls with p, the faster the higher the rate; or is what the test says, step after step.
struct Rated {
  double lr = 0.5;
  toy::Tensor p = toy::Tensor::parameter(10.0);
  std::vector<double> losses = {}, rates = {};
  std::size_t steps = 0;
  toy::Tensor training_step(double) {
    if (losses.empty()) return p * p;
    return p * toy::Tensor(0.0) + toy::Tensor(losses.at(steps++));
  }
  void on_before_optimizer_step(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

auto of(TrainerOptions options = {.max_epochs = 100, .silence = {"fulgurite.tuner.no_suggestion"}}) {
  return toy::train<Rated>(options, Automatic{});
}

bool near(double a, double b) { return std::abs(a - b) <= 5e-4 * std::abs(b); }

}  // namespace

TEST_CASE(
    "C119 exponential 1e-4 to 1 in 20 steps, both ends included; afterwards gs 0, limits kept, the rate written") {
  Rated model;
  auto trainer = of({.max_epochs = 100, .max_steps = 7});
  auto const found = tune::lr_find(trainer, model, toy::batches(4), {.min_lr = 1e-4, .max_lr = 1, .num_training = 20});
  REQUIRE(found.lr.size() == 20);
  CHECK(found.lr.front() == 1e-4);
  for (std::size_t i = 1; i != 20; ++i) CHECK(near(found.lr[i] / found.lr[i - 1], std::pow(1e4, 1.0 / 19)));
  CHECK(near(found.lr[1], 1.6238e-4));
  CHECK(found.lr.back() == 1.0);
  CHECK(model.rates == found.lr);
  CHECK(trainer.progress().global_step == 0);
  CHECK(trainer.options().max_steps == 7);
  CHECK(model.p.value() == 10.0);
  REQUIRE(found.suggested);
  CHECK(*found.suggested == found.lr[found.suggested.point]);
  CHECK(model.lr == *found.suggested);
}

TEST_CASE("C120 linear .001 to 1 in 10 steps; 10 points are skipped unless it is said; nullptr keeps the field") {
  Rated model;
  auto trainer = of();
  auto const found = tune::lr_find(trainer, model, toy::batches(4),
                                   {.min_lr = 1e-3, .max_lr = 1, .num_training = 10, .mode = tune::linear});
  REQUIRE(found.lr.size() == 10);
  for (std::size_t i = 0; i != 10; ++i) CHECK(near(found.lr[i], 1e-3 + static_cast<double>(i) * 0.111));
  CHECK(!found.suggestion());
  CHECK(!found.suggested);
  CHECK(found.suggestion(0, 1));
  CHECK(model.lr == 0.5);
  CHECK(trainer.warnings().size() == 1);

  auto const kept = tune::lr_find(
      trainer, model, toy::batches(4),
      {.min_lr = 1e-3, .max_lr = 1, .num_training = 10, .mode = tune::linear, .skip_begin = 0, .update = nullptr});
  CHECK(kept.suggested);
  CHECK(model.lr == 0.5);
}

TEST_CASE("C121 losses 1 five times, then 500, threshold 4: recorded .505 .673 .758 .808 .842 76.544, and it stops") {
  Rated model{.losses = {1, 1, 1, 1, 1, 500, 1, 1}};
  auto trainer = of();
  auto const found = tune::lr_find(trainer, model, toy::batches(4), {});
  std::vector const expected{.505, .673, .758, .808, .842, 76.544};
  REQUIRE(found.loss.size() == expected.size());
  for (std::size_t i = 0; i != expected.size(); ++i) CHECK(std::abs(found.loss[i] - expected[i]) <= 6e-4);
  CHECK(found.raw.back() == 500);
}

TEST_CASE("C122 fast_dev_run: nothing is searched") {
  Rated model;
  auto trainer = of({.fast_dev_run = 1, .silence = {"fulgurite.options.dev_run"}});
  auto const found = tune::lr_find(trainer, model, toy::batches(4), {});
  CHECK(found.lr.empty());
  CHECK(!found.suggested);
  CHECK(model.rates.empty());

  auto searching = toy::train<Rated>({.fast_dev_run = 1, .silence = {"fulgurite.options.dev_run"}}, Automatic{},
                                     LearningRateFinder<Rated>{});
  searching.fit(model, toy::batches(4));
  CHECK(model.rates == std::vector{0.5});
}

TEST_CASE("C123 a callback with 20 steps, n5 E2: 10 points are too few, the field is kept, then a normal fit, gs 10") {
  Rated model;
  auto trainer = toy::train<Rated>({.max_epochs = 2, .silence = {"fulgurite.tuner.no_suggestion"}}, Automatic{},
                                   LearningRateFinder<Rated>{{.search = {.num_training = 20}}});
  trainer.fit(model, toy::batches(5));
  auto const& results = trainer.callback<LearningRateFinder>().results();
  CHECK(results.lr.size() == 10);
  CHECK(!results.suggested);
  CHECK(model.lr == 0.5);
  CHECK(trainer.progress().global_step == 10);
  CHECK(model.rates.size() == 20);
  CHECK(model.rates.back() == 0.5);
}
