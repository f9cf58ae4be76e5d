#include <fulgurite/callback/throughput_monitor.hpp>

#include <models.hpp>
#include <rows.hpp>

#include "callback_run.hpp"

using namespace fulgurite;
using Cells = std::vector<std::pair<std::string, double>>;

namespace {
auto const three = [](double) { return 3; };
auto const five = [](double) { return 5; };

/// The rows of one kind ("train/") of a fit of `batches` batches of 2 s and one validation batch of 2 s an epoch.
template <class Monitor>
std::vector<toy::Row> rows(Monitor monitor, std::string const& kind, int batches, TrainerOptions options = quick(1),
                           int accumulate = 1) {
  Scripted model{.seconds_per_batch = 2};
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{},
                                        Automatic{.accumulate_grad_batches = accumulate}, monitor, toy::Rows{});
  trainer.fit(model, toy::batches(batches), toy::batches(1));
  std::vector<toy::Row> all;
  for (auto const& row : trainer.template callback<toy::Rows>().rows) {
    toy::Row kept{row.x, {}};
    for (auto const& cell : row.cells)
      if (cell.first.starts_with(kind)) kept.cells.push_back(cell);
    if (!kept.cells.empty()) all.push_back(kept);
  }
  return all;
}
}  // namespace

static_assert(std::is_same_v<decltype(ThroughputMonitor{}), ThroughputMonitor<>>);
static_assert(std::is_same_v<decltype(ThroughputMonitor{{.window_size = 2}}), ThroughputMonitor<>>);
static_assert(decltype(ThroughputMonitor{three})::needs_logger);

TEST_CASE("throughput: totals at once, rates once the window is full") {
  auto const told = rows(ThroughputMonitor{three, five, {.window_size = 3}}, "train/", 4);
  REQUIRE(told.size() == 4);
  CHECK(told[0] == toy::Row{0, {{"train/time", 2}, {"train/batches", 1}, {"train/samples", 3}, {"train/lengths", 5}}});
  CHECK(told[1].cells.size() == 4);
  CHECK(told[2] == toy::Row{2,
                            {{"train/time", 6},
                             {"train/batches", 3},
                             {"train/samples", 9},
                             {"train/lengths", 15},
                             {"train/device/batches_per_sec", 0.5},
                             {"train/device/samples_per_sec", 1.5},
                             {"train/device/items_per_sec", 7.5}}});
  CHECK(told[3].cells[4] == std::pair<std::string, double>{"train/device/batches_per_sec", 0.5});
}

TEST_CASE("throughput: without functions, the batch size that was found, no lengths") {
  auto const told = rows(ThroughputMonitor{{.window_size = 2, .separator = "|"}}, "train|", 2);
  REQUIRE(told.size() == 2);
  CHECK(told[1].cells == Cells{{"train|time", 4},
                               {"train|batches", 2},
                               {"train|samples", 2},
                               {"train|device|batches_per_sec", 0.5},
                               {"train|device|samples_per_sec", 0.5}});
}

TEST_CASE("throughput: the time of a validation is no training time") {
  auto options = quick(2);
  auto const told = rows(ThroughputMonitor{three, {.window_size = 2}}, "train/", 2, options);
  REQUIRE(told.size() == 4);
  CHECK(told[3].cells[0] == std::pair<std::string, double>{"train/time", 8});
  CHECK(told[2].cells[3] == std::pair<std::string, double>{"train/device/batches_per_sec", 0.5});
}

TEST_CASE("throughput: not in the middle of a window of accumulated batches, and only where rows are due") {
  CHECK(rows(ThroughputMonitor{three}, "train/", 4, quick(1), 2).size() == 2);
  auto options = quick(1);
  options.log_every_n_steps = 3;
  auto const told = rows(ThroughputMonitor{three}, "train/", 7, options);
  REQUIRE(told.size() == 2);
  CHECK(told[1].x == 5);
}

namespace {
/// The x of each row of training, of a fit whose second window a stop in its first batch ends.
std::vector<long> rows_of_stopped(ValidationInterval validates) {
  Scripted model{.seconds_per_batch = 2};
  auto options = quick(5);
  options.val_check_interval = validates;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                                        ThroughputMonitor{three}, toy::stop_at(0, 2), toy::Rows{});
  trainer.fit(model, toy::batches(8), toy::batches(1));
  std::vector<long> all;
  for (auto const& row : trainer.template callback<toy::Rows>().rows)
    for (auto const& [key, value] : row.cells)
      if (key == "train/batches") all.push_back(row.x), all.push_back(static_cast<long>(value));
  return all;
}
}  // namespace

TEST_CASE("throughput: the step that a stop flushes has its row, validated or not") {
  CHECK(rows_of_stopped({}) == std::vector<long>{0, 2, 1, 3});
  CHECK(rows_of_stopped(3) == std::vector<long>{0, 2, 1, 3});
}

TEST_CASE("throughput: waits for the device only where a row is due") {
  auto options = quick(1);
  options.log_every_n_steps = 3;
  toy::Restored<long> const counting(toy::world.waits, 0);
  rows(ThroughputMonitor{three}, "train/", 7, options);
  CHECK(toy::world.waits == 2);
}

TEST_CASE("throughput: validation has its own clock") {
  auto const told = rows(ThroughputMonitor{three}, "validate/", 4);
  REQUIRE(told.size() == 1);
  CHECK(told[0].cells == Cells{{"validate/time", 2}, {"validate/batches", 1}, {"validate/samples", 3}});
}

namespace {
struct Counted : Scripted {
  double flops_per_batch = 100;
};
}  // namespace

TEST_CASE("throughput: floating point operations, where the model knows them") {
  Counted model;
  model.seconds_per_batch = 2;
  auto trainer =
      make_trainer<Counted>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                            ThroughputMonitor{three, {.window_size = 2, .available_flops = 200}}, toy::Rows{});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  Cells last;
  for (auto const& row : trainer.template callback<toy::Rows>().rows)
    for (auto const& cell : row.cells)
      if (cell.first.starts_with("train/device/")) last.push_back(cell);
  CHECK(last == Cells{{"train/device/batches_per_sec", 0.5},
                      {"train/device/samples_per_sec", 1.5},
                      {"train/device/flops_per_sec", 50},
                      {"train/device/mfu", 0.25}});
}

TEST_CASE("throughput: a window of one batch has no rate") {
  CHECK(error_of([] {
          ThroughputMonitor{three, {.window_size = 1}};
        }).starts_with("[fulgurite.callback.throughput_window]"));
}
