#pragma once
// Sends memory and load of the device, and of the machine around it, to the loggers.

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/host_stats.hpp>

namespace fulgurite {

/// Whose statistics are sent, and which of them.
struct DeviceStatsMonitorOptions {
  /// Whether the machine's own figures are sent: cpu_percent, cpu_vm_percent, cpu_swap_percent, cpu_process_bytes. Not
  /// given: only where the device has no figures, as the CPU.
  std::optional<bool> cpu_stats = std::nullopt;
  std::optional<std::set<std::string>> filter_keys = std::nullopt;  ///< only these, such as {"cpu_vm_percent"}
};

/// Sends memory and load to the loggers: `DeviceStatsMonitor{}`. Names are such as
/// `DeviceStatsMonitor.on_train_batch_start/allocated_bytes.all.current`, and likewise for batch ends, validation and
/// test. There is a row at the first and at the last batch of each step for which metrics are logged
/// (log_every_n_steps).
class DeviceStatsMonitor {
 public:
  using Hooks = Implements<hook::on_train_epoch_start, hook::on_train_batch_start, hook::on_train_batch_end,
                           hook::on_train_epoch_end, hook::on_validation_start, hook::on_validation_batch_start,
                           hook::on_validation_batch_end, hook::on_test_batch_start, hook::on_test_batch_end>;
  using Stateless = ByChoice;
  static constexpr bool needs_logger = true;  ///< without a logger it would do nothing: the trainer refuses that
  static constexpr std::string_view reads = "device statistics";

  explicit DeviceStatsMonitor(DeviceStatsMonitorOptions options = {}) : options_(std::move(options)) {}

  // An error may have cut short the window of an earlier epoch.
  void on_train_epoch_start() { in_window_ = false; }
  void on_train_batch_start(auto& ctx) {
    if (!in_window_ && watch::logs_rows_of(ctx, ctx.logged_steps())) log("on_train_batch_start", ctx);
  }
  void on_train_batch_end(auto& ctx) {
    in_window_ = ctx.accumulating();
    if (!in_window_ && watch::logs_rows_of(ctx, ctx.logged_steps())) log("on_train_batch_end", ctx);
  }
  // A stop, or skip_epoch, makes the step of an open window only after its last batch has ended.
  void on_train_epoch_end(auto& ctx) { flushed(ctx, ctx.logged_steps() - 1); }
  void on_validation_start(auto& ctx) {
    if (ctx.stage() == decltype(ctx.stage())::fit) flushed(ctx, ctx.logged_steps());
  }
  void on_validation_batch_start(auto& ctx) { evaluated("on_validation_batch_start", ctx); }
  void on_validation_batch_end(auto& ctx) { evaluated("on_validation_batch_end", ctx); }
  void on_test_batch_start(auto& ctx) { evaluated("on_test_batch_start", ctx); }
  void on_test_batch_end(auto& ctx) { evaluated("on_test_batch_end", ctx); }

 private:
  void flushed(auto& ctx, long step) {
    if (!ctx.accumulating() && std::exchange(in_window_, false) && watch::logs_rows_of(ctx, step))
      log("on_train_batch_end", ctx);
  }
  void evaluated(char const* place, auto& ctx) {
    if (!ctx.sanity_checking() && watch::logs_rows_of(ctx, ctx.batch_idx())) log(place, ctx);
  }

  void log(std::string const& place, auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    auto stats = Backend::device_stats(ctx.device());
    if (options_.cpu_stats.value_or(stats.empty()))
      for (auto& stat : host_.read()) stats.push_back(std::move(stat));
    std::vector<Scalar> row;
    for (auto& [name, value] : stats) {
      if (options_.filter_keys && !options_.filter_keys->contains(name)) continue;
      name = "DeviceStatsMonitor." + place + "/" + name;
      row.push_back({name, value});
    }
    if (!row.empty()) ctx.log_scalars(std::span<Scalar const>(row));
  }

  DeviceStatsMonitorOptions options_;
  report::HostStats host_{};
  bool in_window_ = false;
};

}  // namespace fulgurite
