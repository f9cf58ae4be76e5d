// What becomes of logged values: reductions, weights, several values in one step, the latest value, values while an
// epoch runs.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

#include "models.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {

using Sizes = std::vector<std::vector<double>>;

/// Logs its batch index under each reduction.
struct Reduces {
  static constexpr Metric<"mean"> mean{};
  static constexpr Metric<"weighted once"> single{};
  static constexpr Metric<"sum"> sum{.reduce = Reduce::sum};
  static constexpr Metric<"min"> min{.reduce = Reduce::min};
  static constexpr Metric<"max"> max{.reduce = Reduce::max};
  static constexpr Metric<"number"> number{};
  static constexpr Metric<"unlogged"> unlogged{};
  static constexpr Metric<"start"> start{};
  using Metrics = MetricList<mean, single, sum, min, max, number, unlogged, start>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> running = {}, latest = {};
  std::vector<bool> absent = {};

  Tensor training_step(auto const&, auto& ctx) {
    Tensor const b(static_cast<double>(ctx.batch_idx()));
    ctx.log(mean, b);
    ctx.log(single, b, {.batch_size = 1});
    ctx.log_dict(sum, b, min, b, max, b);
    ctx.log(number, ctx.batch_idx());
    return -p;
  }
  void on_train_start(auto& ctx) { ctx.log(start, 5.0); }
  void on_train_batch_start(auto& ctx) { absent.push_back(!ctx.value(mean)); }
  void on_train_batch_end(auto& ctx) {
    running.push_back(*ctx.value(mean));
    latest.push_back(*ctx.value(mean.last()));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

/// Logs what it is told.
struct Logs {
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"w"> w{.reduce = Reduce::max};
  using Metrics = MetricList<v, w>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> values = {};
  Tensor training_step(double, auto& ctx) {
    for (double value : values) {
      ctx.log(v, Tensor(value));
      ctx.log(w, value);
    }
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

struct NoRows {
  long batch_size() const { return 0; }
};
struct LogsNoRows : Logs {
  Tensor training_step(NoRows const&, auto& ctx) {
    ctx.log(v, 1.0);
    return -p;
  }
};

/// Reads the other phase's metrics.
struct Reads : toy::P {
  static constexpr Metric<"val"> val{};
  using Metrics = MetricList<loss, val>;
  std::vector<std::optional<double>> at_epoch_end = {}, at_validation_end = {}, after_batch = {};
  void validation_step(double batch, auto& ctx) { ctx.log(val, batch + ctx.current_epoch()); }
  void on_validation_end(auto& ctx) { at_validation_end.push_back(ctx.value(val)); }
  void on_train_batch_end(auto& ctx) { after_batch.push_back(ctx.value(val)); }
  void on_train_epoch_end(auto& ctx) { at_epoch_end.push_back(ctx.value(val)); }
};

}  // namespace

TEST_CASE("values 0, 1, 2: numbers are reduced like tensors, the minimum, the latest, the running mean, on a device "
          "that waits or not") {
  for (bool waits : {false, true}) {
    toy::world.device_waits = waits;
    Reduces model;
    auto trainer = toy::train<Reduces>({.max_epochs = 1}, Automatic{});
    trainer.fit(model, Sizes{std::vector<double>(4), std::vector<double>(4), std::vector<double>(2)});
    toy::world.device_waits = false;
    CHECK(trainer.value(Reduces::number) == 0.8);
    CHECK(trainer.value(Reduces::min) == 0.0);
    CHECK(trainer.value(Reduces::mean.last()) == 2.0);  // D22
    CHECK(trainer.value(Reduces::unlogged) == std::nullopt);
    CHECK(trainer.value(Reduces::start) == 5.0);  // logged before the first epoch began
    CHECK(model.running == std::vector<double>{0, 0.5, 0.8});
    CHECK(model.latest == std::vector<double>{0, 1, 2});
    CHECK(model.absent == std::vector<bool>{true, false, false});
  }
}

TEST_CASE("an epoch's figures start afresh; the last epoch's value stays until the next has one") {
  Reduces model;
  auto trainer = toy::train<Reduces>({.max_epochs = 2}, Automatic{});
  trainer.fit(model, Sizes{{1}, {1}, {1}});
  CHECK(model.running == std::vector<double>{0, 0.5, 1, 0, 0.5, 1});
  CHECK(model.absent == std::vector<bool>{true, false, false, false, false, false});
  CHECK(trainer.value(Reduces::sum) == 3.0);
}

TEST_CASE("a NaN stays visible in every reduction") {
  Logs model{.values = {1, std::numeric_limits<double>::quiet_NaN(), 3}};
  auto trainer = toy::train<Logs>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(1));
  CHECK(std::isnan(*trainer.value(Logs::v)));
  CHECK(std::isnan(*trainer.value(Logs::w)));
}

TEST_CASE("the greatest of values is the greatest also where their sum is none, as that of opposite infinities") {
  auto const of = [](std::vector<double> values) {
    Logs model{.values = std::move(values)};
    auto trainer = toy::train<Logs>({.max_epochs = 1}, Automatic{});
    trainer.fit(model, toy::batches(1));
    CHECK(std::isnan(*trainer.value(Logs::v)));
    return *trainer.value(Logs::w);
  };
  double const infinity = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  CHECK(of({1, -infinity, infinity, 2}) == infinity);
  CHECK(std::isnan(of({infinity, none, -infinity})));
  CHECK(std::isnan(of({none, infinity, 1, -infinity})));
}

TEST_CASE("a batch that holds no tensor: logging without batch_size is an Error that names the metric") {
  LogsNoRows model;
  std::string said;
  CHECK(toy::refusal([&] { toy::train<LogsNoRows>({.max_epochs = 1}, Automatic{}).fit(model, std::vector<NoRows>(1)); },
                     &said) == "fulgurite.metric.batch_size");
  CHECK(said.find("log v with") != std::string::npos);
}

TEST_CASE(
    "a validation metric: its mean at on_validation_end, and from then on in training's hooks until the next one") {
  Reads model;
  auto trainer = toy::train<Reads>({.max_epochs = 2, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model, toy::batches(2), toy::batches(3));
  using Values = std::vector<std::optional<double>>;
  CHECK(model.at_validation_end == Values{1.0, 2.0});
  CHECK(model.after_batch == Values{std::nullopt, std::nullopt, 1.0, 1.0});
  CHECK(model.at_epoch_end == Values{1.0, 2.0});
  CHECK(trainer.value(Reads::val) == 2.0);
}
