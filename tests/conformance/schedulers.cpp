// Section 11.3: when schedules move, what the batches see of it, the estimate of steps, the learning-rate monitor.
#include <cmath>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "observed.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

double half(long moves) { return std::pow(0.5, static_cast<double>(moves)); }

/// The rate that each batch saw, and the moves of the schedule known at each batch's end.
struct Halving : toy::Validated {
  ScheduleOptions how = {};
  double rate = 1.0;
  Numbers rates = {};
  Counts moves = {};
  auto configure_optimizers() { return scheduled(toy::Sgd{.params = {p}, .rate = rate}, half, how); }
  void on_train_batch_start(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  void on_train_batch_end(auto& ctx) {
    ctx.each_scheduler([&](auto& s) { moves.push_back(s.moves()); });
  }
  void on_train_end(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
};
Halving fitted(TrainerOptions options, int n, ScheduleOptions how, int k = 1, double rate = 0.1) {
  Halving model;
  model.how = std::move(how);
  model.rate = rate;
  toy::train<Halving>(std::move(options), Automatic{.accumulate_grad_batches = k})
      .fit(model, toy::batches(n), NoValidation{});
  return model;
}

/// The validation metric does not improve, so each look at it lowers the rate.
struct Follows : toy::P {
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<loss, v>;
  int frequency = 1;
  Numbers rates = {};
  auto configure_optimizers() {
    return scheduled(toy::Sgd{.params = {p}, .rate = 1.0},
                     schedule::ReduceOnPlateau{v, {.factor = 0.5, .patience = 0, .threshold = 1e-4}},
                     {.frequency = frequency});
  }
  void validation_step(double, auto& ctx) { ctx.log(v, 1.0); }
  void on_train_epoch_start(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
  void on_train_end(auto& ctx) { rates.push_back(ctx.optimizer().lr(0)); }
};

struct OverTheEstimate : toy::P {
  Counts moves = {};
  long estimate = 0;
  auto configure_optimizers(auto& ctx) {
    estimate = *ctx.estimated_steps();
    return scheduled(toy::Sgd{{p}}, schedule::rate_only(schedule::OneCycle{.total = estimate}));
  }
  void on_train_batch_end(auto& ctx) {
    ctx.each_scheduler([&](auto& s) { moves.push_back(s.moves()); });
  }
};

struct Estimates : toy::P {
  std::optional<long> seen = {};
  toy::Sgd configure_optimizers(auto& ctx) {
    seen = ctx.estimated_steps();
    return toy::Sgd{{p}};
  }
};
std::string estimate(TrainerOptions options, int n = 64, int k = 1) {
  Estimates model;
  toy::train<Estimates>(std::move(options), Automatic{.accumulate_grad_batches = k}, toy::stop_at(0, 0))
      .fit(model, toy::batches(n));
  return model.seen ? canonical(*model.seen) : "inf";
}

struct Rated : Halving {
  auto configure_optimizers() { return scheduled(toy::Sgd{.params = {p}, .rate = 0.1}, half, how); }
};
std::vector<std::pair<long, double>> monitored(Interval moves, LearningRateMonitorOptions options, int every) {
  Rated model;
  model.how = {.interval = moves};
  auto trainer = toy::train<Rated>({.max_epochs = 2, .log_every_n_steps = every}, Automatic{},
                                   LearningRateMonitor{options}, toy::Rows{});
  trainer.fit(model, toy::batches(3), NoValidation{});
  std::vector<std::pair<long, double>> points;
  for (auto const& row : trainer.template callback<toy::Rows>().rows)
    for (auto const& [name, value] : row.cells)
      if (name == "lr-SGD") points.emplace_back(row.x, value);
  return points;
}
using Points = std::vector<std::pair<long, double>>;

}  // namespace

TEST_CASE("C30 a schedule per step moves after every batch: .1 * .5^8 after 8 steps") {
  auto const model = fitted({.max_epochs = 2}, 4, {.interval = Interval::step});
  CHECK(observed("C30", "moves", model.moves) == Counts{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(observed("C30", "lr", model.rates.back()) == 0.1 * half(8));
}

// Lightning: after b 1, 3 of each epoch; its frequency counts batches of the epoch.
TEST_CASE("C31 frequency 2, n5 E2: with D3 every second optimizer step of the run") {
  auto const model = fitted({.max_epochs = 2}, 5, {.interval = Interval::step, .frequency = 2});
  CHECK(observed("C31", "moves", model.moves) == Counts{0, 1, 1, 2, 2, 3, 3, 4, 4, 5});
}

// Lightning: b 1, 3, 4 / b 1, 3, 5 / b 5, 11.
TEST_CASE("C32 frequency and accumulation: a schedule per step moves with the steps; with D3 frequency counts them") {
  auto moves = [](int frequency, int n) {
    return fitted({.max_epochs = 1}, n, {.interval = Interval::step, .frequency = frequency}, 2).moves;
  };
  CHECK(observed("C32", "f1 K2 n5", moves(1, 5)) == Counts{0, 1, 1, 2, 3});
  CHECK(observed("C32", "f2 K2 n6", moves(2, 6)) == Counts{0, 0, 0, 1, 1, 1});
  CHECK(observed("C32", "f3 K2 n12", moves(3, 12)) == Counts{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2});
}

TEST_CASE("C34 a schedule per epoch: rates seen per batch .1 .1 .05 .05 .025 .025; it moves in the last batch, before "
          "its end hooks") {
  auto model = fitted({.max_epochs = 3}, 2, {});
  model.rates.pop_back();
  CHECK(observed("C34", "rates", model.rates) == Numbers{0.1, 0.1, 0.05, 0.05, 0.025, 0.025});
  CHECK(observed("C34", "moves", model.moves) == Counts{0, 1, 1, 2, 2, 3});
}

TEST_CASE("C35 P with the rate halved each step: p = 1.875, with K2 1.5") {
  CHECK(observed("C35", "K1", fitted({.max_epochs = 1}, 4, {.interval = Interval::step}, 1, 1.0).p.value()) == 1.875);
  CHECK(observed("C35", "K2", fitted({.max_epochs = 1}, 4, {.interval = Interval::step}, 2, 1.0).p.value()) == 1.5);
}

TEST_CASE("C36 a schedule per epoch does not move where max_steps cuts the epoch") {
  CHECK(observed("C36", "moves", fitted({.max_steps = 5}, 4, {}).moves.back()) == 1);
}

TEST_CASE("C38 a plateau follows a metric of every second epoch: with frequency 1 there is none in epoch 0, with 2 it "
          "moves in epochs 1, 3") {
  auto rates = [](int frequency) {
    Follows model;
    model.frequency = frequency;
    toy::train<Follows>({.max_epochs = 5, .check_val_every_n_epoch = 2, .num_sanity_val_steps = 0}, Automatic{})
        .fit(model, toy::batches(1), toy::batches(1));
    return model.rates;
  };
  std::string which;
  CHECK(observed("C38", "frequency 1", outcome([&] { rates(1); }, &which)) == "error");
  CHECK(which == "fulgurite.schedule.metric");
  CHECK(observed("C38", "frequency 2: lr", rates(2)) == Numbers{1, 1, 1, 1, 0.5, 0.5});
}

TEST_CASE("C39 OneCycle over the estimate: 8, without being told to move per step; 8 moves, no error") {
  OverTheEstimate model;
  toy::train<OverTheEstimate>({.max_epochs = 2}, Automatic{}).fit(model, toy::batches(4));
  CHECK(observed("C39", "estimate", model.estimate) == 8);
  CHECK(observed("C39", "moves", model.moves.back()) == 8);
}

// Lightning: with nothing set it warns and runs 1000 epochs (64000 steps).
TEST_CASE("C40 the estimate of steps; a run that nothing ends is refused (W38)") {
  CHECK(observed("C40", "n64 E2", estimate({.max_epochs = 2})) == "128");
  CHECK(observed("C40", "n64 K3 E1", estimate({.max_epochs = 1}, 64, 3)) == "22");
  CHECK(observed("C40", "n25 K10 E3", estimate({.max_epochs = 3}, 25, 10)) == "9");
  CHECK(observed("C40", "max_steps 10", estimate({.max_steps = 10})) == "10");
  CHECK(observed("C40", "max_steps 1000 E2", estimate({.max_epochs = 2, .max_steps = 1000})) == "128");
  CHECK(observed("C40", "E -1", estimate({.max_epochs = -1})) == "inf");
  CHECK(observed("C40", "E -1 max_steps 7", estimate({.max_epochs = -1, .max_steps = 7})) == "7");
  CHECK(observed("C40", "E0", estimate({.max_epochs = 0})) == "64");
  std::string which;
  CHECK(observed("C40", "nothing set", outcome([] { estimate({}); }, &which)) == "error");
  CHECK(which == "fulgurite.options.no_end");
}

TEST_CASE("C41 the monitor of a schedule per step: one point a step") {
  CHECK(observed("C41", "log every 1", monitored(Interval::step, {}, 1)) ==
        Points{{0, 0.1}, {1, 0.05}, {2, 0.025}, {3, 0.0125}, {4, 0.00625}, {5, 0.003125}});
}

TEST_CASE("C42 the monitor of a schedule per epoch: one point an epoch; at logged steps where that is asked") {
  CHECK(observed("C42", "none", monitored(Interval::epoch, {}, 1)) == Points{{0, 0.1}, {3, 0.05}});
  CHECK(observed("C42", "epoch", monitored(Interval::epoch, {.logging_interval = Interval::epoch}, 1)) ==
        Points{{0, 0.1}, {3, 0.05}});
  CHECK(observed("C42", "step, log every 2", monitored(Interval::epoch, {.logging_interval = Interval::step}, 2)) ==
        Points{{1, 0.1}, {3, 0.05}, {5, 0.05}});
}
