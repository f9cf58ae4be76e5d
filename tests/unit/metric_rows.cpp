// What loggers receive: which names, at which x (9.3), in fit and in evaluations, of one loader and of several.
#include <catch2/catch_test_macros.hpp>

#include <utility>
#include <vector>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Row;
using toy::Rows;
using toy::Tensor;

namespace {

/// C75's model: a = batch index per step and epoch, te at the epoch's end, v in validation.
struct Logs {
  static constexpr Metric<"a"> a{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"te"> te{};
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"quiet"> quiet{.logger = false};
  using Metrics = MetricList<a, te, v, quiet>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double batch, auto& ctx) {
    ctx.log(a, batch);
    ctx.log(quiet, batch);
    return -p;
  }
  void on_train_epoch_end(auto& ctx) { ctx.log(te, ctx.current_epoch()); }
  void validation_step(double, auto& ctx) { ctx.log(v, 7.0); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

std::vector<Row> fit(TrainerOptions options, int n, Automatic how = {}, auto... callbacks) {
  Logs model;
  options.num_sanity_val_steps = 0;
  auto trainer = toy::train<Logs>(options, how, Rows{}, callbacks...);
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return trainer.template callback<Rows>().rows;
}

std::vector<Row> of_steps(std::vector<Row> rows) {
  std::erase_if(rows, [](Row const& row) { return row.cells.front().first != "a_step"; });
  return rows;
}

/// Reported per step alone, and per epoch alone.
struct Once {
  static constexpr Metric<"step"> step{};
  static constexpr Metric<"epoch only"> epoch{.on_step = Report::no, .on_epoch = Report::yes};
  using Metrics = MetricList<step, epoch>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double batch, auto& ctx) {
    if (batch < 3) ctx.log_dict(step, Tensor(batch), epoch, batch);
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

/// C79: v = batch, b per step and epoch, end = 7; reads the running value over both loaders.
struct Loaders {
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"b"> b{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"end"> end{};
  using Metrics = MetricList<v, b, end>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<std::optional<double>> at_epoch_end = {}, at_end = {};
  std::vector<std::size_t> loaders = {};
  Tensor training_step(double) { return -p; }
  void validation_step(double batch, auto& ctx) {
    ctx.log(v, Tensor(batch));
    ctx.log(b, Tensor(batch));
    loaders.push_back(ctx.loader());
  }
  void on_validation_epoch_end(auto& ctx) {
    ctx.log(end, 7);
    at_epoch_end.push_back(ctx.value(v));
  }
  void on_validation_end(auto& ctx) { at_end.push_back(ctx.value(v)); }
  void test_step(double batch, auto& ctx) { ctx.log(v, batch); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

using Cells = std::vector<std::pair<std::string, double>>;
Cells cells(std::vector<MetricValue> const& values) {
  Cells all;
  for (auto const& value : values) all.emplace_back(value.name, value.value);
  return all;
}

}  // namespace

TEST_CASE("with accumulation x counts windows, and a row has the last batch of its window") {
  auto const rows = of_steps(fit({.max_epochs = 1, .log_every_n_steps = 1}, 5, {.accumulate_grad_batches = 2}));
  CHECK(rows == std::vector<Row>{{0, {{"a_step", 1}, {"epoch", 0}}},
                                 {1, {{"a_step", 3}, {"epoch", 0}}},
                                 {2, {{"a_step", 4}, {"epoch", 0}}}});
}

TEST_CASE("a stop writes the last step's row whatever the cadence, also of the window that it ends early; validation "
          "has the same x") {
  CHECK(fit({.max_epochs = 5}, 4, {}, toy::stop_at(0, 1)) ==
        std::vector<Row>{{1, {{"a_step", 1}, {"epoch", 0}}},
                         {1, {{"v", 7}, {"epoch", 0}}},
                         {1, {{"a_epoch", 0.5}, {"te", 0}, {"epoch", 0}}}});
  CHECK(fit({.max_epochs = 5}, 9, {.accumulate_grad_batches = 4}, toy::stop_at(0, 5)) ==
        std::vector<Row>{{1, {{"a_step", 5}, {"epoch", 0}}},
                         {1, {{"v", 7}, {"epoch", 0}}},
                         {1, {{"a_epoch", 2.5}, {"te", 0}, {"epoch", 0}}}});
}

TEST_CASE("a metric reported one way has its plain name; without a new value it is not reported again") {
  Once model;
  auto trainer = toy::train<Once>({.max_epochs = 1, .log_every_n_steps = 1}, Automatic{}, Rows{});
  trainer.fit(model, toy::batches(5));
  CHECK(trainer.callback<Rows>().rows == std::vector<Row>{{0, {{"step", 0}, {"epoch", 0}}},
                                                          {1, {{"step", 1}, {"epoch", 0}}},
                                                          {2, {{"step", 2}, {"epoch", 0}}},
                                                          {4, {{"epoch only", 1}, {"epoch", 0}}}});
}

TEST_CASE("watching a metric of several loaders means its weighted mean over them, at the epoch's end, afterwards, and "
          "outside") {
  Loaders model;
  auto trainer = toy::train<Loaders>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{});
  trainer.fit(model, toy::batches(1), std::tuple(toy::batches(3), toy::batches(2)));
  std::vector<std::optional<double>> const merged{(0.0 + 1 + 2 + 0 + 1) / 5};
  CHECK(model.at_epoch_end == merged);
  CHECK(model.at_end == merged);
  CHECK(trainer.value(Loaders::v) == merged.front());
}

TEST_CASE("one loader: plain names; test's values come back, too") {
  Loaders model;
  auto trainer = toy::train<Loaders>({.max_epochs = 1}, Automatic{}, Rows{});
  CHECK(cells(trainer.test(model, toy::batches(3)).front()) == Cells{{"v", 1}});
  CHECK(trainer.callback<Rows>().rows == std::vector<Row>{{0, {{"v", 1}, {"epoch", 0}}}});
}

namespace {
/// Logs in each hook behind the last batch of a run.
struct LogsAtTheEnd : toy::P {
  double predict_step(double batch) { return batch; }
  void test_step(double) {}
  void setup(auto& ctx) { ctx.log_dynamic("setup", 1); }
  void on_predict_batch_end(auto& ctx) { ctx.log_dynamic("batch", ctx.batch_idx()); }
  void on_predict_epoch_end(auto& ctx) { ctx.log_dynamic("epoch over", 2); }
  void on_predict_end(auto& ctx) { ctx.log_dynamic("predicted", 3); }
  void on_fit_end(auto& ctx) { ctx.log_dynamic("fitted", 4); }
  void teardown(auto& ctx) { ctx.log_dynamic("teardown", 5); }
};
}  // namespace

TEST_CASE("what hooks log behind the last batch of a run is in the rows of that run, not in those of the next") {
  LogsAtTheEnd model;
  auto trainer = toy::train<LogsAtTheEnd>({.max_epochs = 1, .limit_test_batches = 0}, Automatic{}, Rows{});
  auto const rows_of = [&](auto&& run) {
    auto& rows = trainer.callback<Rows>().rows;
    rows.clear();
    run();
    for (auto& row : rows) row.cells.pop_back();  // the epoch
    return std::exchange(rows, {});
  };
  CHECK(rows_of([&] { trainer.predict(model, toy::batches(2)); }) ==
        std::vector<Row>{{0, {{"setup", 1}, {"batch", 0}}},
                         {1, {{"batch", 1}}},
                         {0, {{"epoch over", 2}, {"predicted", 3}}},
                         {0, {{"teardown", 5}}}});
  CHECK(rows_of([&] { trainer.fit(model, toy::batches(3)); }) ==
        std::vector<Row>{{0, {{"setup", 1}}}, {2, {{"fitted", 4}}}, {2, {{"teardown", 5}}}});
  CHECK(rows_of([&] { trainer.test(model, toy::batches(1)); }) ==
        std::vector<Row>{{3, {{"setup", 1}, {"teardown", 5}}}});
}
