// Searches where windows begin or end with left-out batches, and with optimizers of which files do not hold all.
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models.hpp"

using namespace fulgurite;

namespace {

using Some = std::vector<std::optional<double>>;

struct Bowl {
  double lr = 0.5;
  toy::Tensor p = toy::Tensor::parameter(10.0);
  std::vector<double> rates = {};
  toy::Tensor training_step(double) { return p * p; }
  void on_before_optimizer_step(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

/// An optimizer of the user's own, of which files hold no rate.
struct Plain {
  static constexpr bool needs_closure = false, stable_gradients = true;
  std::vector<toy::Tensor> params;
  double rate = 0.5, moment = 0;
  void zero_grad() {
    for (auto& one : params) one.clear_grad();
  }
  void step() {
    for (auto& one : params) {
      moment = 0.5 * moment + one.grad();
      one.set(one.value() - rate * moment);
    }
  }
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return rate; }
  void set_lr(std::size_t, double to) { rate = to; }
  std::vector<toy::Tensor> const& parameters() const { return params; }
  void state(auto& archive) { archive("moment", moment); }
};
struct WithPlain : Bowl {
  Plain configure_optimizers() { return {.params = {p}, .rate = 0.01}; }
};

/// Two slices of each batch, a step for each.
struct Sliced {
  using Hidden = toy::Tensor;
  struct Output {
    toy::Tensor loss, hidden;
  };
  double lr = 0.1;
  toy::Tensor p = toy::Tensor::parameter(10.0);
  Output training_step(std::vector<double> const&, std::optional<Hidden> const&) { return {p * p, toy::Tensor(0.0)}; }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = lr}; }
};

TrainerOptions options(int epochs) {
  return {.max_epochs = epochs, .silence = {"fulgurite.tuner.no_suggestion", "fulgurite.data.none"}};
}

}  // namespace

TEST_CASE("a window that a left-out batch opens is made at a rate of the search") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(9), Automatic{.accumulate_grad_batches = 2});
  Some const data{std::nullopt, 1.0, 1.0, 1.0};
  auto const found =
      tune::lr_find(trainer, model, data, {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 6, .skip_begin = 0});
  CHECK(found.lr.size() == 6);
  CHECK(model.rates == found.lr);
  CHECK(found.ended.empty());
}

TEST_CASE("the step of a window that a left-out batch closes is told of, once and without a loss") {
  Bowl model;
  auto trainer = toy::train<Bowl>(options(8), Automatic{.accumulate_grad_batches = 2});
  std::vector<long> before, after;
  std::vector<bool> losses;
  RehearsalPlan plan{.steps = 4};
  plan.before_step = [&](RehearsedStep& step) { before.push_back(step.number()); };
  plan.after_step = [&](RehearsedStep& step) {
    after.push_back(step.number());
    losses.push_back(step.has_loss());
  };
  tune::rehearse(trainer, model, Some{1.0, std::nullopt, 1.0, 1.0}, plan);
  CHECK(before == std::vector<long>{0, 1, 2, 3});
  CHECK(after == std::vector<long>{0, 1, 2, 3});
  CHECK(losses == std::vector<bool>{false, true, false, true});
}

TEST_CASE("a search in a fit gives an optimizer its rate back, of which files do not hold it") {
  WithPlain model;
  auto trainer = toy::train<WithPlain>(
      options(1), Automatic{},
      LearningRateFinder<WithPlain>{{.search = {.min_lr = 1e-4, .max_lr = 0.4, .num_training = 2, .skip_begin = 0}}});
  trainer.fit(model, toy::batches(3));
  CHECK_FALSE(trainer.callback<LearningRateFinder>().results().suggested);
  REQUIRE(model.rates.size() == 5);
  CHECK(std::vector(model.rates.begin() + 2, model.rates.end()) == std::vector(3, 0.01));
}

TEST_CASE("a search that made all its steps says no other end, whatever a batch is cut into") {
  Sliced model;
  auto trainer = toy::train<Sliced>(options(1), Automatic{.tbptt = 2});
  auto const found =
      tune::lr_find(trainer, model, std::vector(2, std::vector(4, 1.0)),
                    tune::RateSearch<Sliced>{.min_lr = 1e-4, .max_lr = 0.4, .num_training = 4, .skip_begin = 0});
  CHECK(found.ended.empty());
}

namespace {

/// Its third epoch has a tenth of the rate.
struct Lowers : Bowl {
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 2) ctx.optimizer().set_lr(0, ctx.optimizer().lr(0) * 0.1);
  }
};

}  // namespace

TEST_CASE("a search: the rate that it has written into the model is the run's own where that is resumed") {
  auto const trainer_of = [](int epochs) {
    return toy::train<Lowers>(
        {.max_epochs = epochs, .num_sanity_val_steps = 0}, Automatic{},
        LearningRateFinder<Lowers>{
            {.search = {.min_lr = 1e-4, .max_lr = 0.1, .num_training = 12, .skip_begin = 0, .update = &Lowers::lr}}});
  };
  Lowers whole, model;
  auto const data = toy::batches(4);
  trainer_of(7).fit(whole, data);
  auto trainer = trainer_of(3);
  trainer.fit(model, data);
  auto const kept = snapshot(trainer);
  auto options = trainer.given_options();
  options.max_epochs = 5;
  trainer.set_options(options);
  trainer.fit(model, data, kept);
  CHECK(model.lr == whole.lr);
  trainer.save_checkpoint("end");
  Lowers other;  // with the rate that the search began from, as in a new process
  auto then = trainer_of(7);
  then.fit(other, data, CkptPath{"end"});
  auto rates = model.rates;
  rates.insert(rates.end(), other.rates.begin(), other.rates.end());
  CHECK(rates == whole.rates);
  CHECK(other.p.value() == whole.p.value());
  for (auto const& warning : then.warnings()) CHECK(warning.find("[fulgurite.resume.options]") == std::string::npos);
  for (auto const& warning : trainer.warnings()) CHECK(warning.find("[fulgurite.resume.options]") == std::string::npos);
}
