#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/options.hpp>

#include <tuple>

#include "checkpoint_folder.hpp"

using namespace fulgurite;

namespace {
struct Sgd {
  std::vector<double> rates{0.1};
  static constexpr std::string_view name() { return "SGD"; }
  std::size_t groups() const { return rates.size(); }
  double lr(std::size_t g) const { return rates[g]; }
};
struct Moves {
  Sgd* of;
  Interval when;
  std::string called{};
  Sgd& optimizer() const { return *of; }
  Interval interval() const { return when; }
  std::string const& name() const { return called; }
};
struct Row {
  long step;
  std::string cells;
  friend bool operator==(Row const&, Row const&) = default;
};
std::ostream& operator<<(std::ostream& out, Row const& row) { return out << row.step << ": " << row.cells; }

struct Ctx {
  TrainerOptions given{.log_every_n_steps = 1};
  std::vector<Sgd> all{Sgd{}};
  std::vector<Moves> schedules{};
  long step = 0, batch = 0;
  std::vector<Row> rows{};
  TrainerOptions const& options() const { return given; }
  long logged_steps() const { return step; }
  long batch_idx() const { return batch; }
  void each_optimizer(auto&& f) {
    for (std::size_t i = 0; i != all.size(); ++i) f(i, all[i]);
  }
  void each_scheduler(auto&& f) {
    for (auto& s : schedules) f(s);
  }
  void log_scalars(std::span<Scalar const> row) {
    std::string cells;
    for (auto const& s : row)
      cells += (cells.empty() ? "" : " ") + std::string(s.name) + "=" + std::to_string(s.value).substr(0, 6);
    rows.push_back({step, cells});
  }
};
/// `epochs` epochs of 3 steps, the rate halved after each step or each epoch.
std::vector<Row> rows(Ctx ctx, LearningRateMonitorOptions how, int epochs, Interval halved) {
  LearningRateMonitor monitor(how);
  for (int e = 0; e != epochs; ++e) {
    monitor.on_train_epoch_start(ctx);
    for (int b = 0; b != 3; ++b) {
      monitor.on_train_batch_start(ctx);
      ++ctx.step;
      if (halved == Interval::step || b == 2)
        for (auto& o : ctx.all)
          for (auto& r : o.rates) r *= 0.5;
    }
  }
  return ctx.rows;
}
std::vector<Row> scheduled_rows(Interval moves, LearningRateMonitorOptions how, int every = 1) {
  Ctx ctx;
  ctx.given.log_every_n_steps = every;
  ctx.all.reserve(1);
  LearningRateMonitor monitor(how);
  ctx.schedules = {{&ctx.all[0], moves}};
  for (int e = 0; e != 2; ++e) {
    monitor.on_train_epoch_start(ctx);
    for (int b = 0; b != 3; ++b) {
      monitor.on_train_batch_start(ctx);
      ++ctx.step;
      if (moves == Interval::step || b == 2) ctx.all[0].rates[0] *= 0.5;
    }
  }
  return ctx.rows;
}
}  // namespace

static_assert(LearningRateMonitor::needs_logger);

TEST_CASE("lr monitor: a schedule per step, asked for per epoch") {
  CHECK(scheduled_rows(Interval::step, {.logging_interval = Interval::epoch}) ==
        std::vector<Row>{{0, "lr-SGD=0.1000"}, {3, "lr-SGD=0.0125"}});
}

TEST_CASE("lr monitor: an optimizer without schedule is reported at both") {
  CHECK(rows({}, {}, 1, Interval::epoch) ==
        std::vector<Row>{{0, "lr-SGD=0.1000"}, {0, "lr-SGD=0.1000"}, {1, "lr-SGD=0.1000"}, {2, "lr-SGD=0.1000"}});
}

TEST_CASE("lr monitor: keys") {
  Ctx ctx;
  ctx.all = {Sgd{}, Sgd{{1, 2}}, Sgd{}};
  ctx.all.shrink_to_fit();
  ctx.schedules = {{&ctx.all[2], Interval::epoch, "warm"}};
  LearningRateMonitor monitor({.key_prefix = "p/"});
  monitor.on_train_epoch_start(ctx);
  CHECK(ctx.rows == std::vector<Row>{{0, "p/lr-SGD=0.1000 p/lr-SGD-1/pg1=1.0000 p/lr-SGD-1/pg2=2.0000 p/warm=0.1000"}});
}

TEST_CASE("lr monitor: schedules of two optimizers with one name are refused, since their rates would share a column") {
  Ctx ctx;
  ctx.all = {Sgd{}, Sgd{{0.5}}};
  ctx.schedules = {{&ctx.all[0], Interval::epoch, "warm"}, {&ctx.all[1], Interval::epoch, "warm"}};
  LearningRateMonitor monitor;
  CHECK_THROWS_AS(monitor.on_train_epoch_start(ctx), Error);
}

TEST_CASE("lr monitor: of several schedules one that moves per step and one per epoch have it reported at both, under "
          "the first name that was given") {
  Ctx ctx;
  ctx.schedules = {
      {&ctx.all[0], Interval::step}, {&ctx.all[0], Interval::epoch, "first"}, {&ctx.all[0], Interval::step, "second"}};
  LearningRateMonitor monitor;
  monitor.on_train_epoch_start(ctx);
  monitor.on_train_batch_start(ctx);
  CHECK(ctx.rows == std::vector<Row>{{0, "first=0.1000"}, {0, "first=0.1000"}});
}

TEST_CASE("lr monitor: once in an accumulation window, never without a cadence") {
  Ctx ctx;
  LearningRateMonitor monitor;
  monitor.on_train_batch_start(ctx);
  ctx.batch = 1;
  monitor.on_train_batch_start(ctx);
  CHECK(ctx.rows.size() == 1);
  ctx.given.log_every_n_steps = 0;
  ctx.step = 1;
  monitor.on_train_batch_start(ctx);
  CHECK(ctx.rows.size() == 1);
}

TEST_CASE("lr monitor: a fit that goes back logs the rates of the same steps again, once in the series") {
  Ctx ctx;
  LearningRateMonitor monitor;
  auto const step = [&](long at) {
    ctx.step = at;
    ctx.all[0].rates[0] = static_cast<double>(at);
    monitor.on_train_batch_start(ctx);
  };
  step(1);
  auto const then = state_text(monitor);
  step(2);
  load_state_text(monitor, then);
  step(2);
  step(3);
  CHECK(monitor.lrs().at("lr-SGD") == std::vector<double>{1, 2, 3});
  CHECK(ctx.rows.size() == 4);  // the loop holds back the first one of step 2
}

TEST_CASE("lr monitor: a fit that goes on in another program leaves the state of the unbroken one") {
  auto const log = [](LearningRateMonitor& monitor, Ctx& ctx, long at) {
    ctx.step = at;
    ctx.all[0].rates[0] = static_cast<double>(at);
    monitor.on_train_batch_start(ctx);
  };
  Ctx ctx, other;
  LearningRateMonitor whole, again;
  log(whole, ctx, 1);
  log(whole, ctx, 2);
  auto const then = state_text(whole);
  log(whole, ctx, 3);
  auto const at_three = state_text(whole);
  log(whole, ctx, 4);
  for (int times = 0; times != 2; ++times) load_state_text(again, then);
  log(again, other, 3);
  log(again, other, 4);
  CHECK(state_text(again) == state_text(whole));
  CHECK(again.lrs().at("lr-SGD") == std::vector<double>{3, 4});
  load_state_text(again, at_three);  // back, in the same program
  CHECK(again.lrs().at("lr-SGD") == std::vector<double>{3});
  log(again, other, 4);
  CHECK(state_text(again) == state_text(whole));
}

namespace {

struct Named {
  double rate = 0.1;
  std::string_view name() { return "Own"; }
  std::size_t groups() { return 1; }
  double lr(std::size_t) { return rate; }
  std::string group_name(std::size_t) { return "head"; }
  double weight_decay(std::size_t) { return 0.5; }
};
struct OwnCtx : Ctx {
  Named own{};
  int warnings = 0;
  void each_optimizer(auto&& f) { f(0, own); }
  void warn_each(auto&&...) { ++warnings; }
};

}  // namespace

TEST_CASE("lr monitor: an optimizer's functions need not be const") {
  OwnCtx ctx;
  LearningRateMonitor monitor(LearningRateMonitorOptions{.log_weight_decay = true});
  monitor.on_train_start(ctx);
  monitor.on_train_batch_start(ctx);
  CHECK(ctx.warnings == 0);
  CHECK(ctx.rows == std::vector<Row>{{0, "lr-Own/head=0.1000 lr-Own/head-weight_decay=0.5000"}});
}
