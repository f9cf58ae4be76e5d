#pragma once
// The bodies of loop/tell.hpp.

#include <string>

#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void* participant(RunCore const& run, ModelAndStrategy const& others, std::size_t who) {
  if (who < run.callbacks.size()) return run.callbacks[who].object;
  return who == run.callbacks.size() ? others.model : others.strategy;
}

FULGURITE_BODY std::vector<std::string> names_of_participants(RunCore const& run) {
  auto names = names_of_callbacks(run.callbacks);
  names.emplace_back("the model");
  names.emplace_back("the strategy");
  return names;
}

FULGURITE_BODY Flow notify_all(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments) {
  DispatchState told;
  try {
    for (auto const& listener : event.listeners) {
      if (!listener.listens) continue;
      auto const watched = listener.action == nullptr ? OwnAction() : run.own_actions.begin(listener.action());
      told.most_severe =
          more_severe(told.most_severe, listener.tell(participant(run, others, listener.who), arguments));
      ++told.participants;
    }
  } catch (...) {
    if (event.is_heard_once) note_heard(run, event, told);
    throw;
  }
  return told.most_severe;
}

FULGURITE_BODY void note_heard(RunCore& run, Event const& event, DispatchState const& told) {
  if (run.facts.stage != Stage::fit || run.facts.sanity_checking) return;
  if (told.most_severe == Flow::stop) wish_stop(run);
  run.due.heard = {.event = std::string(event.name)};
  auto const names = names_of_participants(run);
  int left = told.participants;
  for (auto const& listener : event.listeners)
    if (listener.listens && left-- > 0) run.due.heard.by.push_back(names[listener.who]);
}

FULGURITE_BODY Flow notify_rest(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments) {
  auto& heard = run.due.heard;
  auto const names = names_of_participants(run);
  Flow gravest = Flow::proceed;
  try {
    for (auto const& listener : event.listeners) {
      auto const& name = names[listener.who];
      if (heard.contains(name)) continue;
      if (!listener.listens) {
        run.warn_each("fulgurite.resume.untold", name + " takes arguments of " + heard.event +
                                                     " that were lost when the run was stopped, and is not called: "
                                                     "take it as (ctx), or as (batch, ctx)");
        continue;
      }
      heard.by.push_back(name);  // before the call, so that a file that the listener writes counts it as notified
      try {
        gravest = more_severe(gravest, listener.tell(participant(run, others, listener.who), arguments));
      } catch (...) {
        heard.by.pop_back();
        throw;
      }
    }
  } catch (...) {
    if (gravest == Flow::stop) wish_stop(run);
    throw;
  }
  heard = {};
  return gravest;
}

FULGURITE_BODY OtherCallbacks::~OtherCallbacks() { run_.callbacks = std::move(before_); }

FULGURITE_BODY void log_hyperparameters(RunCore const& run, std::span<Hyperparameter const> all) {
  if (all.empty() || run.rank() != 0 || run.asked.options.fast_dev_run != 0 || run.asked.options.barebones) return;
  for (auto const& [callback, table, given] : run.callbacks)
    if (table->log_hyperparams != nullptr) table->log_hyperparams(callback, all);
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

FULGURITE_BODY std::vector<MetricValue> named(std::vector<MetricValue> row, std::string const& suffix) {
  for (auto& entry : row) entry.name += suffix;
  return row;
}

FULGURITE_BODY void append(std::vector<MetricValue>& row, std::vector<MetricValue> const& more) {
  row.insert(row.end(), more.begin(), more.end());
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
