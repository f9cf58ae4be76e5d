// When validation runs (5.5), on sized and unsized loaders, by batches, by parts of an epoch and by a clock; the sanity check (5.9).
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::Places;
using toy::Positions;

namespace {

template <class Loader>
Places validations(TrainerOptions options, Loader&& loader, Automatic how = {}) {
  toy::Validated model;
  options.num_sanity_val_steps = 0;
  auto trainer = toy::train<toy::Validated>(options, how, Positions{});
  trainer.fit(model, loader, toy::batches(1));
  return trainer.template callback<Positions>().validations;
}

Places each_epoch(int epochs, std::vector<long> batches) {
  Places all;
  for (int e = 0; e != epochs; ++e)
    for (long b : batches) all.emplace_back(e, b);
  return all;
}

// A clock that moves when it is asked.
long now = 0, tick = 0;
TrainerOptions::Clock::time_point fake() { return TrainerOptions::Clock::time_point(std::chrono::seconds(now += tick)); }

/// Asks the clock once a batch in epochs that validation leaves out, as C23 has it.
struct AsksTheClock {
  using Stateless = ByChoice;
  int every;
  void on_train_batch_end(auto& ctx) {
    if ((ctx.current_epoch() + 1) % every != 0) fake();
  }
};
std::vector<long> by_clock(long step, long interval, int n, std::optional<int> every) {
  now = 0;
  tick = step;
  toy::Validated model;
  TrainerOptions const options{.max_epochs = 5, .val_check_interval = std::chrono::seconds(interval), .check_val_every_n_epoch = every,
                               .num_sanity_val_steps = 0, .now = &fake};
  auto trainer = toy::train<toy::Validated>(options, Automatic{}, Positions{}, AsksTheClock{every.value_or(1)});
  trainer.fit(model, toy::batches(n), toy::batches(1));
  std::vector<long> counts(5);
  for (auto [e, b] : trainer.callback<Positions>().validations) ++counts[static_cast<std::size_t>(e)];
  return counts;
}

/// Draws random numbers and logs in validation.
struct Draws {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<v>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> drawn = {};
  int validated = 0;
  toy::Tensor training_step(double) {
    drawn.push_back(toy::draw());
    return -p;
  }
  void validation_step(double, auto& ctx) {
    ++validated;
    toy::draw();
    ctx.log(v, 1.0);
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct SeesMetrics {
  using Stateless = ByChoice;
  std::vector<std::string> seen = {};
  std::vector<long> batches = {};
  void on_train_start(auto& ctx) { seen.push_back(ctx.value(Draws::v) ? "kept" : "absent"); }
  void on_train_epoch_end(auto& ctx) { seen.push_back(ctx.value(Draws::v) ? "there" : "absent"); }
  void on_validation_end(auto& ctx) { batches.push_back(ctx.num_eval_batches().value_or(0)); }
};
struct Rows {
  using Stateless = ByChoice;
  int rows = 0;
  void log_metrics(std::span<Scalar const>, long) { ++rows; }
};

}  // namespace

TEST_CASE("C13: the default validates at each epoch's end") {
  CHECK(validations({.max_epochs = 2}, toy::batches(10)) == Places{{0, 9}, {1, 9}});
}

TEST_CASE("C14: parts of an epoch of 10 and of 64") {
  auto at = [](double part, int n) { return validations({.max_epochs = 2, .val_check_interval = Fraction{part}}, toy::batches(n)); };
  CHECK(at(0.5, 10) == each_epoch(2, {4, 9}));
  CHECK(at(0.3, 10) == each_epoch(2, {2, 5, 8}));
  CHECK(at(0.25, 10) == each_epoch(2, {1, 3, 5, 7, 9}));
  CHECK(at(0.01, 10) == each_epoch(2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK(at(1.0 / 3, 64) == each_epoch(2, {20, 41, 62}));
}

TEST_CASE("C16: a count of batches starts again each epoch") {
  CHECK(validations({.max_epochs = 2, .val_check_interval = 3}, toy::batches(10)) == each_epoch(2, {2, 5, 8}));
}

TEST_CASE("C17: without check_val_every_n_epoch batches are counted across epochs") {
  CHECK(validations({.max_steps = 12, .val_check_interval = 3, .check_val_every_n_epoch = std::nullopt}, toy::batches(4)) ==
        Places{{0, 2}, {1, 1}, {2, 0}, {2, 3}});
}

TEST_CASE("C18: every second epoch") {
  CHECK(validations({.max_epochs = 5, .check_val_every_n_epoch = 2}, toy::batches(2)) == Places{{1, 1}, {3, 1}});
}

TEST_CASE("C20: an interval above the epoch's batches is refused before training, unless it counts across epochs") {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>({.max_epochs = 1, .val_check_interval = 5}, Automatic{}, Positions{});
  std::string said;
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }, &said) == "fulgurite.options.val_check_interval");
  CHECK(said.find("5 batches is more than the 4") != std::string::npos);
  CHECK(model.seen.empty());
  CHECK(validations({.max_epochs = 2, .val_check_interval = 5, .check_val_every_n_epoch = std::nullopt}, toy::batches(4)) == Places{{1, 0}});
}

TEST_CASE("C24: an unsized loader of 7") {
  CHECK(validations({.max_epochs = 2}, toy::Unsized(7)) == each_epoch(2, {6}));
  CHECK(validations({.max_epochs = 2, .val_check_interval = 3}, toy::Unsized(7)) == each_epoch(2, {2, 5}));
}

TEST_CASE("C25 with D11: limits on an unsized loader of 7, also above its end") {
  CHECK(validations({.max_epochs = 2, .limit_train_batches = 5}, toy::Unsized(7)) == each_epoch(2, {4}));
  CHECK(validations({.max_epochs = 2, .limit_train_batches = 5, .val_check_interval = 2}, toy::Unsized(7)) == each_epoch(2, {1, 3}));
  CHECK(validations({.max_epochs = 2, .limit_train_batches = 20}, toy::Unsized(7)) == each_epoch(2, {6}));
}

TEST_CASE("C21: a clock of 2 s a query, V(2 s), 5 steps: 5 validations") {
  now = 0;
  tick = 2;
  CHECK(validations({.max_steps = 5, .val_check_interval = std::chrono::seconds(2), .now = &fake}, toy::batches(5)) ==
        Places{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}});
}

TEST_CASE("C22, C23: intervals of time, with and without check_val_every_n_epoch") {
  CHECK(by_clock(1, 4, 2, std::nullopt) == std::vector<long>{0, 1, 0, 1, 0});
  CHECK(by_clock(1, 6, 8, 1) == std::vector<long>{1, 1, 2, 1, 1});
  CHECK(by_clock(1, 6, 9, 2) == std::vector<long>{0, 2, 0, 2, 0});
  CHECK(by_clock(1, 3, 9, 2) == std::vector<long>{0, 3, 0, 3, 0});
  CHECK(by_clock(1, 20, 9, 2) == std::vector<long>{0, 0, 0, 1, 0});
}

TEST_CASE("C29: the sanity check runs before training on min(2, limit) batches; its metrics, rows and random numbers leave no trace") {
  auto fit = [](int sanity, int limit) {
    toy::world.rng = 7;
    Draws model;
    auto trainer = toy::train<Draws>({.max_epochs = 1, .limit_val_batches = limit, .num_sanity_val_steps = sanity, .log_every_n_steps = 1},
                                     Automatic{}, SeesMetrics{}, Rows{});
    trainer.fit(model, toy::batches(2), toy::batches(5));
    return std::tuple(model.drawn, model.validated, trainer.callback<SeesMetrics>().seen, trainer.callback<Rows>().rows,
                      trainer.callback<SeesMetrics>().batches);
  };
  auto const [drawn, validated, seen, rows, batches] = fit(2, 1);
  CHECK(validated == 2);  // one in the check, one after the epoch
  CHECK(seen == std::vector<std::string>{"absent", "there"});
  CHECK(drawn == std::get<0>(fit(0, 1)));
  CHECK(rows == std::get<3>(fit(0, 1)));
  CHECK(std::get<4>(fit(2, 5)) == std::vector<long>{2, 5});
  CHECK(std::get<4>(fit(-1, 3)) == std::vector<long>{3, 3});
  CHECK(std::get<4>(fit(0, 3)) == std::vector<long>{3});
}

TEST_CASE("validation: gradients off, eval mode, both restored; in fit no_grad, alone inference mode unless it is switched off") {
  struct Modes : toy::P {
    bool training = true;
    std::vector<std::string> seen = {};
    void validation_step(double) {
      seen.push_back(std::string(toy::grad_enabled ? "grad " : "") + (toy::world.inference ? "inference " : "") + (training ? "training" : ""));
    }
  } model;
  auto trainer = toy::train<Modes>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model, toy::batches(1), toy::batches(1));
  trainer.validate(model, toy::batches(1));
  toy::train<Modes>({.max_epochs = 1, .inference_mode = false}, Automatic{}).validate(model, toy::batches(1));
  CHECK(model.seen == std::vector<std::string>{"", "inference ", ""});  // C138
  CHECK(model.training);
  CHECK(toy::grad_enabled);
  CHECK_FALSE(toy::world.inference);
}
