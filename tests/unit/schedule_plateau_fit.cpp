// Plateau schedules in a fit: when they look, what they see, what happens where nobody has logged.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <utility>
#include <vector>

#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {

/// Logs the next of `losses` in each validation; the rate that each batch saw.
struct Watched {
  static constexpr Metric<"val/loss"> val_loss{};
  static constexpr Metric<"never"> never{};
  using Metrics = MetricList<val_loss, never>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> losses = {};
  ScheduleOptions how = {};
  bool strict = true;
  int patience = 0;
  std::vector<double> rates = {};
  std::size_t validations = 0;

  toy::Tensor training_step(double, auto& ctx) {
    rates.push_back(ctx.optimizer().lr(0));
    return -p;
  }
  void validation_step(double, auto& ctx) { ctx.log(val_loss, losses.at(validations++)); }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}},
                     schedule::ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = patience, .strict = strict}}, how);
  }
};
Watched fitted(TrainerOptions options, std::vector<double> losses, ScheduleOptions how = {}, bool strict = true,
               int n = 2, int patience = 0) {
  Watched model;
  model.patience = patience;
  model.losses = std::move(losses);
  model.how = std::move(how);
  model.strict = strict;
  options.num_sanity_val_steps = 0;
  toy::train<Watched>(std::move(options), Automatic{}).fit(model, toy::batches(n), toy::batches(1));
  return model;
}

struct Unlogged : Watched {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{never}); }
};

/// Steps it by hand.
struct ByHand : Watched {
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 0}});
  }
  void training_step(double batch, auto& ctx) {
    auto& [scheduler] = ctx.lr_schedulers();
    rates.push_back(scheduler.optimizer().lr(0));
    scheduler.step(batch);
  }
};

/// Asks for a file at the end of this epoch.
struct SavesAfter {
  using Stateless = ByChoice;
  int epoch;
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == epoch) ctx.request_checkpoint("after " + std::to_string(epoch));
  }
};

}  // namespace

TEST_CASE("a plateau looks once an epoch, after its validation") {
  CHECK(fitted({.max_epochs = 4}, {3, 3, 2, 2}).rates == std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5});
}

TEST_CASE("with the interval step it looks after the validation of the batch") {
  CHECK(fitted({.max_epochs = 1, .val_check_interval = 1}, {3, 3, 2, 2}, {.interval = Interval::step}, true, 4).rates ==
        std::vector<double>{1, 1, 0.5, 0.5});
}

TEST_CASE("C38: a metric of every second epoch is missing in the first, or is asked for every second epoch") {
  TrainerOptions const every_second{.max_epochs = 4, .check_val_every_n_epoch = 2};
  CHECK(toy::refusal([&] { fitted(every_second, {3, 3}); }) == "fulgurite.schedule.metric");
  CHECK(fitted(every_second, {3, 3}, {}, false).rates.size() == 8);  // not strict: the first epoch is left out
  CHECK(fitted({.max_epochs = 6, .check_val_every_n_epoch = 2}, {3, 3, 3}, {.frequency = 2}).rates ==
        std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5});
  Unlogged never;
  never.losses = {1, 1, 1};
  CHECK(toy::refusal([&] {
          toy::train<Unlogged>({.max_epochs = 1}, Automatic{}).fit(never, toy::batches(1), toy::batches(1));
        }) == "fulgurite.schedule.metric");
}

TEST_CASE("in manual optimization the plateau moves where it is told a value") {
  ByHand model;
  model.losses = {0, 0, 0};
  make_trainer<ByHand>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{})
      .fit(model, std::vector<double>{3, 2, 2, 2}, toy::batches(1));
  CHECK(model.rates == std::vector<double>{1, 1, 1, 0.5});
}

TEST_CASE("a plateau takes a value once: one that was not logged again since is no further one") {
  TrainerOptions const every_second{.max_epochs = 8, .check_val_every_n_epoch = 2};
  CHECK(fitted(every_second, {5, 6, 7, 8, 9}, {}, false, 1, 1).rates ==
        std::vector<double>{1, 1, 1, 1, 1, 1, 0.5, 0.5});
  // Per step, with a validation in each second batch of three.
  CHECK(fitted({.max_epochs = 2, .val_check_interval = 2}, {5, 6, 7, 8}, {.interval = Interval::step}, false, 4, 1)
            .rates == std::vector<double>{1, 1, 1, 1, 1, 1, 0.5, 0.5});
}

TEST_CASE("a plateau knows in a fit that resumes which value it has taken") {
  TrainerOptions const every_second{.max_epochs = 8, .check_val_every_n_epoch = 2, .num_sanity_val_steps = 0};
  for (int epoch = 1; epoch != 7; ++epoch) {
    auto const trained = [&](std::size_t validations, auto... from) {
      Watched model;
      model.losses = {5, 6, 7, 8, 9};
      model.strict = false;
      model.patience = 1;
      model.validations = validations;
      toy::train<Watched>(every_second, Automatic{}, SavesAfter{epoch})
          .fit(model, toy::batches(1), toy::batches(1), from...);
      return model.rates;
    };
    auto const whole = trained(0);
    auto const rest = trained(static_cast<std::size_t>(epoch + 1) / 2, CkptPath{"after " + std::to_string(epoch)});
    CAPTURE(epoch);
    CHECK(rest == std::vector<double>(whole.begin() + epoch + 1, whole.end()));
  }
}
