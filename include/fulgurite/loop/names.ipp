#pragma once
// The bodies of loop/names.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/names.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY std::string reported_name(DeclaredMetric const& metric, Origin origin, bool epoch) {
  std::string name(metric.name);
  if (per_step(metric, origin) && per_epoch(metric, origin)) name += epoch ? "_epoch" : "_step";
  return name;
}

FULGURITE_BULK_BODY std::vector<MetricValue> epoch_row(RunCore& run, BoardNumber board) {
  std::vector<MetricValue> row;
  auto const cells = run.program->cells(run, board);
  for (std::size_t i = 0; i != cells.size(); ++i) {
    auto const& metric = run.program->metrics[i];
    auto const& cell = cells[i];
    if (!metric.logger || !per_epoch(metric, cell.origin)) continue;
    if (auto const value = cell.epoch.reduced(metric.reduce))
      row.push_back({reported_name(metric, cell.origin, true), *value});
  }
  return row;
}

FULGURITE_BULK_BODY std::vector<MetricValue> step_row(RunCore& run, BoardNumber board) {
  std::vector<MetricValue> row;
  auto const cells = run.program->cells(run, board);
  for (std::size_t i = 0; i != cells.size(); ++i) {
    auto const& metric = run.program->metrics[i];
    auto& cell = cells[i];
    if (metric.logger && cell.in_step_row && cell.epoch.count != 0 && per_step(metric, cell.origin))
      row.push_back({reported_name(metric, cell.origin, false), cell.epoch.last});
    cell.in_step_row = false;
  }
  return row;
}

FULGURITE_BULK_BODY void apply_dev_run(TrainerOptions& o) {
  if (!o.overfit_batches) o.limit_train_batches = o.limit_val_batches = o.fast_dev_run;
  o.limit_test_batches = o.limit_predict_batches = o.fast_dev_run;
  if (o.max_steps && *o.max_steps >= 0 && *o.max_steps < o.fast_dev_run) o.max_steps = o.fast_dev_run;
  o.max_epochs = 1;
  o.min_epochs.reset();
  o.min_steps.reset();
  o.num_sanity_val_steps = 0;
  o.val_check_interval = {};
  o.check_val_every_n_epoch = 1;
}

FULGURITE_BULK_BODY TrainerOptions effective(TrainerOptions given) {
  if (given.overfit_batches) given.limit_train_batches = given.limit_val_batches = *given.overfit_batches;
  if (given.barebones) given.log_every_n_steps = given.num_sanity_val_steps = 0;
  if (given.fast_dev_run != 0) apply_dev_run(given);
  return given;
}

FULGURITE_BODY void check_special(RunCore& run) {
  auto const& options = run.asked.options;
  if (options.barebones) refuse_output(run.callbacks, run.asked.added);
  if (options.fast_dev_run != 0)
    run.warn("fulgurite.options.dev_run", "fast_dev_run: " + std::to_string(options.fast_dev_run) +
                                              (options.fast_dev_run == 1 ? " batch" : " batches") +
                                              " of each loop, one epoch, no sanity check" +
                                              idle_in_dev_run(run.callbacks));
}

FULGURITE_BODY void deliver_held(RunCore& run) {
  for (auto const& held : std::exchange(run.due.held_rows, {})) {
    std::vector<Scalar> row;
    for (auto const& [name, value] : held.cells) row.push_back({name, value});
    for (auto const& [callback, table, given] : run.callbacks)
      if (table->log_metrics != nullptr) table->log_metrics(callback, row, held.step);
    ++run.due.rows;
  }
}

FULGURITE_BODY void log_row(RunCore& run, std::vector<MetricValue> const& values, long step, bool with_epoch) {
  if (values.empty() || run.rank() != 0 || run.asked.options.fast_dev_run != 0) return;
  std::vector<Scalar> row;
  for (auto const& v : values) row.push_back({v.name, v.value});
  if (with_epoch) row.push_back({"epoch", static_cast<double>(run.progress.epoch)});
  if (run.program->unchecked_steps(run) != 0) {
    auto& held = run.due.held_rows.emplace_back(HeldRow{{}, step});
    for (auto const& cell : row) held.cells.emplace_back(cell.name, cell.value);
    return;
  }
  deliver_held(run);
  for (auto const& [callback, table, given] : run.callbacks) {
    if (table->log_metrics == nullptr) continue;
    auto const watched =
        table->log_metrics_action == nullptr ? OwnAction() : run.own_actions.begin(table->log_metrics_action());
    table->log_metrics(callback, row, step);
  }
  ++run.due.rows;
}

FULGURITE_BODY long last_step(RunCore const& run) { return std::max(0L, run.progress.logged_steps - 1); }

FULGURITE_BODY void log_posted(RunCore& run, long step) {
  std::vector<MetricValue> row;
  for (auto& [name, value] : std::exchange(run.due.posted, {})) row.push_back({std::move(name), value});
  log_row(run, row, step);
}

}  // namespace fulgurite::loop
