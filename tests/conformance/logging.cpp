// Section 11.7: what loggers receive, how values of an epoch become one, what is reported by which hook.
#include <algorithm>

#include "observed.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Row;
using toy::Rows;
using toy::Tensor;

namespace {

/// "x:name=value,name=value", names in their order.
Words lines(std::vector<Row> rows) {
  Words all;
  for (auto& row : rows) {
    std::sort(row.cells.begin(), row.cells.end());
    std::string line;
    for (auto const& [name, value] : row.cells) line += (line.empty() ? "" : ",") + name + "=" + canonical(value);
    all.push_back(std::to_string(row.x) + ":" + line);
  }
  return all;
}

/// a = batch index per step and epoch, te at the epoch's end, v in validation.
struct Logs {
  static constexpr Metric<"a"> a{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"te"> te{};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<a, te, v>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double batch, auto& ctx) {
    ctx.log(a, batch);
    return -p;
  }
  void on_train_epoch_end(auto& ctx) { ctx.log(te, ctx.current_epoch()); }
  void validation_step(double, auto& ctx) { ctx.log(v, 7.0); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
std::vector<Row> fit(TrainerOptions options, int n) {
  Logs model;
  options.num_sanity_val_steps = 0;
  auto trainer = toy::train<Logs>(options, Automatic{}, Rows{});
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return trainer.template callback<Rows>().rows;
}

/// Its batch index under each reduction; batches have rows.
struct Reduces {
  static constexpr Metric<"mean"> mean{};
  static constexpr Metric<"weighted once"> once{};
  static constexpr Metric<"sum"> sum{.reduce = Reduce::sum};
  static constexpr Metric<"max"> max{.reduce = Reduce::max};
  using Metrics = MetricList<mean, once, sum, max>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(auto const&, auto& ctx) {
    Tensor const b(static_cast<double>(ctx.batch_idx()));
    ctx.log_dict(mean, b, sum, b, max, b);
    ctx.log(once, b, {.batch_size = 1});
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

/// v = batch, b per step and epoch, end = 7.
struct Loaders {
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"b"> b{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"end"> end{};
  using Metrics = MetricList<v, b, end>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<std::size_t> loaders = {};
  Tensor training_step(double) { return -p; }
  void validation_step(double batch, auto& ctx) {
    ctx.log_dict(v, Tensor(batch), b, Tensor(batch));
    loaders.push_back(ctx.loader());
  }
  void on_validation_epoch_end(auto& ctx) { ctx.log(end, 7); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
Words results_of(std::vector<MetricValue> const& values) {
  Row row{0, {}};
  for (auto const& value : values) row.cells.emplace_back(value.name, value.value);
  return lines({row});
}

/// A metric of the defaults in each of these places.
struct LogsAnywhere {
  static constexpr Metric<"batch_start"> batch_start{};
  static constexpr Metric<"in_step"> in_step{};
  static constexpr Metric<"before_backward"> before_backward{};
  static constexpr Metric<"train_start"> train_start{};
  static constexpr Metric<"epoch_start"> epoch_start{};
  static constexpr Metric<"validation_start"> validation_start{};
  static constexpr Metric<"validation_batch_end"> validation_batch_end{};
  using Metrics = MetricList<batch_start, in_step, before_backward, train_start, epoch_start, validation_start,
                             validation_batch_end>;
  Tensor p = Tensor::parameter(0.0);
  void on_train_start(auto& ctx) { ctx.log(train_start, 1.0); }
  void on_train_epoch_start(auto& ctx) { ctx.log(epoch_start, 1.0); }
  void on_train_batch_start(auto& ctx) { ctx.log(batch_start, 1.0); }
  Tensor training_step(double, auto& ctx) {
    ctx.log(in_step, 1.0);
    return -p;
  }
  void on_before_backward(auto& ctx) { ctx.log(before_backward, 1.0); }
  void validation_step(double) {}
  void on_validation_start(auto& ctx) { ctx.log(validation_start, 1.0); }
  void on_validation_batch_end(auto& ctx) { ctx.log(validation_batch_end, 1.0); }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

struct Twice {
  static constexpr Metric<"v"> v{};
  static constexpr Metric<"w"> w{.reduce = Reduce::max};
  using Metrics = MetricList<v, w>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double, auto& ctx) {
    for (double value : {1.0, 3.0}) ctx.log_dict(v, Tensor(value), w, value);
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};

}  // namespace

TEST_CASE(
    "C75 n4 E2, a row every 2 steps; validation's and the epoch's at the last step; names, values and x of each") {
  auto const rows = fit({.max_epochs = 2, .log_every_n_steps = 2}, 4);
  CHECK(observed("C75", "rows", lines(rows)) ==
        Words{"1:a_step=1,epoch=0", "3:a_step=3,epoch=0", "3:epoch=0,v=7", "3:a_epoch=1.5,epoch=0,te=0",
              "5:a_step=1,epoch=1", "7:a_step=3,epoch=1", "7:epoch=1,v=7", "7:a_epoch=1.5,epoch=1,te=1"});
}

TEST_CASE("C77 a row every 50 steps, n5: only the validation's and the epoch's, at 4; 0 means never") {
  Words const expected{"4:epoch=0,v=7", "4:a_epoch=2,epoch=0,te=0"};
  CHECK(observed("C77", "every 50", lines(fit({.max_epochs = 1}, 5))) == expected);
  CHECK(observed("C77", "every 0", lines(fit({.max_epochs = 1, .log_every_n_steps = 0}, 5))) == expected);
}

TEST_CASE("C78 values 0, 1, 2 with batch sizes 4, 4, 2: mean .8, with batch_size = 1 1.0, sum 3, max 2") {
  Reduces model;
  auto trainer = toy::train<Reduces>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, std::vector{Numbers(4), Numbers(4), Numbers(2)});
  CHECK(observed("C78", "mean", trainer.value(Reduces::mean)) == 0.8);
  CHECK(observed("C78", "mean, batch_size 1", trainer.value(Reduces::once)) == 1.0);
  CHECK(observed("C78", "sum", trainer.value(Reduces::sum)) == 3.0);
  CHECK(observed("C78", "max", trainer.value(Reduces::max)) == 2.0);
}

TEST_CASE("C79 validate on loaders of 3 and 2: step rows at the batch index without epoch, epoch rows at 0, results "
          "for each loader") {
  for (bool waits : {false, true}) {
    toy::world.device_waits = waits;
    Loaders model;
    auto trainer = toy::train<Loaders>({.max_epochs = 1}, Automatic{}, Rows{});
    auto const results = trainer.validate(model, std::tuple(toy::batches(3), toy::batches(2)));
    toy::world.device_waits = false;
    auto const rows = lines(trainer.callback<Rows>().rows);
    REQUIRE(rows.size() == 6);
    REQUIRE(results.size() == 2);
    CHECK(model.loaders == std::vector<std::size_t>{0, 0, 0, 1, 1});
    std::string const suffix[] = {"/dataloader_idx_0=", "/dataloader_idx_1="};
    Words const steps{"0:b_step" + suffix[0] + "0", "1:b_step" + suffix[0] + "1", "2:b_step" + suffix[0] + "2",
                      "0:b_step" + suffix[1] + "0", "1:b_step" + suffix[1] + "1"};
    Words const first{"0:b_epoch" + suffix[0] + "1,end=7,v" + suffix[0] + "1"},
        second{"0:b_epoch" + suffix[1] + "0.5,end=7,v" + suffix[1] + "0.5"};
    std::string const epoch = "0:b_epoch" + suffix[0] + "1,b_epoch" + suffix[1] + "0.5,end=7,epoch=0,v" + suffix[0] +
                              "1,v" + suffix[1] + "0.5";
    Words const step_rows(rows.begin(), rows.end() - 1);
    if (waits) {
      CHECK(step_rows == steps);
      continue;
    }
    CHECK(observed("C79", "step rows", step_rows) == steps);
    CHECK(observed("C79", "epoch row", rows.back()) == epoch);
    CHECK(observed("C79", "results 0", results_of(results[0])) == first);
    CHECK(observed("C79", "results 1", results_of(results[1])) == second);
  }
}

TEST_CASE("C80 where a metric is logged decides: per step in a step's hooks, per epoch in the others") {
  LogsAnywhere model;
  auto trainer = toy::train<LogsAnywhere>({.max_epochs = 1, .num_sanity_val_steps = 0, .log_every_n_steps = 1},
                                          Automatic{}, Rows{});
  trainer.fit(model, toy::batches(3), toy::batches(2));
  auto rows_with = [&](std::string_view metric) {
    return std::ranges::count_if(trainer.callback<Rows>().rows, [&](Row const& row) {
      return std::ranges::any_of(row.cells, [&](auto const& cell) { return cell.first == metric; });
    });
  };
  for (char const* per_step : {"batch_start", "in_step", "before_backward"})
    CHECK(observed("C80", per_step, rows_with(per_step)) == 3);
  for (char const* per_epoch : {"train_start", "epoch_start", "validation_start", "validation_batch_end"})
    CHECK(observed("C80", per_epoch, rows_with(per_epoch)) == 1);
}

TEST_CASE("C82 twice in one step, 1 and 3: both count; the mean is 2, the maximum 3") {
  Twice model;
  auto trainer = toy::train<Twice>({.max_epochs = 1}, Automatic{});
  trainer.fit(model, toy::batches(2));
  CHECK(observed("C82", "mean", trainer.value(Twice::v)) == 2.0);
  CHECK(observed("C82", "max", trainer.value(Twice::w)) == 3.0);
}
