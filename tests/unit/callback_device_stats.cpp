#include <fulgurite/callback/throughput_monitor.hpp>

#include <models.hpp>
#include <rows.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {
/// A fit of 4 batches with one of validation, whose device tells "held"; returns the rows that hold such keys as "x:
/// key=value ...".
struct Told {
  std::vector<std::string> rows;
  std::set<std::string> keys;
};
Told told(DeviceStatsMonitorOptions how, int every, int accumulate = 1) {
  toy::Restored<std::vector<std::pair<std::string, double>>> const device(toy::world.device_stats,
                                                                          {{"held", 7}, {"peak", 9}});
  Scripted model;
  auto options = quick(1);
  options.log_every_n_steps = every;
  auto trainer =
      make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = accumulate},
                             DeviceStatsMonitor{how}, toy::Rows{});
  trainer.fit(model, toy::batches(4), toy::batches(1));
  Told all;
  for (auto const& row : trainer.template callback<toy::Rows>().rows) {
    std::string line;
    for (auto const& [key, value] : row.cells) {
      if (!key.starts_with("DeviceStatsMonitor.")) continue;
      all.keys.insert(key);
      line += " " + key.substr(19) + "=" + std::to_string(value).substr(0, 3);
    }
    if (!line.empty()) all.rows.push_back(std::to_string(row.x) + ":" + line);
  }
  return all;
}
/// Ends an epoch inside its first window.
struct SkipSecond {
  using Stateless = ByChoice;
  int epoch = 0;
  Flow on_train_batch_start(auto& ctx) const {
    return ctx.current_epoch() == epoch && ctx.batch_idx() == 1 ? Flow::skip_epoch : Flow::proceed;
  }
};
}  // namespace

static_assert(DeviceStatsMonitor::needs_logger);

TEST_CASE("device stats: at the start and the end of the batches whose step is logged") {
  CHECK(told({.filter_keys = std::set<std::string>{"held"}}, 2).rows ==
        std::vector<std::string>{"1: on_train_batch_start/held=7.0", "1: on_train_batch_end/held=7.0",
                                 "3: on_train_batch_start/held=7.0", "3: on_train_batch_end/held=7.0"});
}

TEST_CASE("device stats: a window of batches is one step") {
  CHECK(told({.filter_keys = std::set<std::string>{"peak"}}, 2, 2).rows ==
        std::vector<std::string>{"1: on_train_batch_start/peak=9.0", "1: on_train_batch_end/peak=9.0"});
}

TEST_CASE("device stats: validation batches too") {
  auto const keys = told({.filter_keys = std::set<std::string>{"held"}}, 1).keys;
  CHECK(keys.contains("DeviceStatsMonitor.on_validation_batch_start/held"));
  CHECK(keys.contains("DeviceStatsMonitor.on_validation_batch_end/held"));
}

TEST_CASE("device stats: the machine's own where asked for, or where the device tells none") {
  auto const key = std::string("DeviceStatsMonitor.on_train_batch_end/cpu_vm_percent");
  CHECK_FALSE(told({}, 1).keys.contains(key));
  CHECK(told({.cpu_stats = true}, 1).keys.contains(key));
  CHECK(told({.cpu_stats = true}, 1).keys.contains("DeviceStatsMonitor.on_train_batch_end/held"));
  toy::Restored<std::vector<std::pair<std::string, double>>> const none(toy::world.device_stats, {});
  Scripted model;
  auto trainer = fitted(model, quick(1), 1, DeviceStatsMonitor{}, toy::Rows{});
  bool found = false;
  for (auto const& row : trainer.template callback<toy::Rows>().rows)
    for (auto const& [name, value] : row.cells)
      if (name == key) found = value > 0 && value <= 100;
  CHECK(found);
}

TEST_CASE("device stats: what /proc tells is in range") {
  report::HostStats host;
  host.read();
  std::set<std::string> names;
  for (auto const& [name, value] : host.read()) {
    INFO(name << " = " << value);
    names.insert(name);
    CHECK(value >= 0);
    if (name.ends_with("percent")) CHECK(value <= 100);
    else CHECK(value > 100'000);
  }
  CHECK(names.contains("cpu_process_bytes"));
  CHECK(names.contains("cpu_swap_percent"));
}

TEST_CASE("device stats: a window that ends early, with its epoch or because a batch is none, is followed by one whose "
          "start is told") {
  toy::Restored<std::vector<std::pair<std::string, double>>> const device(toy::world.device_stats, {{"held", 7}});
  auto const starts = [](auto&& fit) {
    auto options = quick(2);
    options.log_every_n_steps = 1;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 3},
                                          DeviceStatsMonitor{{.filter_keys = std::set<std::string>{"held"}}},
                                          SkipSecond{}, toy::Rows{});
    fit(trainer);
    std::vector<long> at;
    for (auto const& row : trainer.template callback<toy::Rows>().rows)
      for (auto const& cell : row.cells)
        if (cell.first.starts_with("DeviceStatsMonitor.on_train_batch_start")) at.push_back(row.x);
    return at;
  };
  Scripted skipping, lacking;
  CHECK(starts([&](auto& trainer) { trainer.fit(skipping, toy::batches(6), NoValidation{}); }) ==
        std::vector<long>{0, 1, 2});
  std::vector<std::optional<double>> const data{1.0, 1.0, std::nullopt, 1.0};
  CHECK(starts([&](auto& trainer) {
          trainer.template callback<SkipSecond>().epoch = -1;
          trainer.fit(lacking, data, NoValidation{});
        }) == std::vector<long>{0, 1, 2, 3});
}

TEST_CASE("device stats: the end of a window that a stop has stepped is told, validated or not") {
  toy::Restored<std::vector<std::pair<std::string, double>>> const device(toy::world.device_stats, {{"held", 7}});
  for (ValidationInterval const validates : {ValidationInterval{}, ValidationInterval{3}}) {
    auto options = quick(5);
    options.val_check_interval = validates;
    Scripted model;
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 2},
                                          DeviceStatsMonitor{}, toy::stop_at(0, 2), toy::Rows{});
    trainer.fit(model, toy::batches(8), toy::batches(1));
    std::vector<long> ends;
    for (auto const& row : trainer.template callback<toy::Rows>().rows)
      for (auto const& [key, value] : row.cells)
        if (key == "DeviceStatsMonitor.on_train_batch_end/held") ends.push_back(row.x);
    CHECK(ends == std::vector<long>{0, 1});
  }
}
