#pragma once
// The bodies of callback/throughput_monitor.hpp.

#include <sys/stat.h>

#include <fulgurite/callback/throughput_monitor.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY void DeviceStatsMonitor::on_train_batch_start(Context& ctx) {
  if (!in_window_ && watch::logs_rows_of(ctx, ctx.logged_steps())) log("on_train_batch_start", ctx);
}

FULGURITE_BULK_BODY void DeviceStatsMonitor::on_train_batch_end(Context& ctx) {
  in_window_ = ctx.accumulating();
  if (!in_window_ && watch::logs_rows_of(ctx, ctx.logged_steps())) log("on_train_batch_end", ctx);
}

FULGURITE_BODY void DeviceStatsMonitor::on_train_epoch_end(Context& ctx) { flushed(ctx, ctx.logged_steps() - 1); }

FULGURITE_BODY void DeviceStatsMonitor::on_validation_start(Context& ctx) {
  if (ctx.stage() == Stage::fit) flushed(ctx, ctx.logged_steps());
}

FULGURITE_BODY void DeviceStatsMonitor::flushed(Context& ctx, long step) {
  if (!ctx.accumulating() && std::exchange(in_window_, false) && watch::logs_rows_of(ctx, step))
    log("on_train_batch_end", ctx);
}

FULGURITE_BODY void DeviceStatsMonitor::evaluated(char const* place, Context& ctx) {
  if (!ctx.sanity_checking() && watch::logs_rows_of(ctx, ctx.batch_idx())) log(place, ctx);
}

FULGURITE_BODY void DeviceStatsMonitor::log(std::string const& place, Context& ctx) {
  std::vector<std::pair<std::string, double>> stats;
  ctx.device_stats([&](std::string const& name, double value) { stats.emplace_back(name, value); });
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

}  // namespace fulgurite
