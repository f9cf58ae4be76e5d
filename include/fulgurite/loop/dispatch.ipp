#pragma once
// The bodies of loop/dispatch.hpp.

#include <iterator>

#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void* participant(RunCore const& run, ModelAndStrategy const& others, std::size_t who) {
  if (who < run.callbacks.size()) return run.callbacks[who].object;
  return who == run.callbacks.size() ? others.model : others.strategy;
}

/// The names of all listeners, by which a file says who was notified.
FULGURITE_BODY std::vector<std::string> names_of_participants(RunCore const& run) {
  auto names = names_of_callbacks(run.callbacks);
  names.emplace_back("the model");
  names.emplace_back("the strategy");
  return names;
}

FULGURITE_BODY Flow notify_all(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments) {
  DispatchState state;
  try {
    for (auto const& listener : event.listeners) {
      if (!listener.listens) continue;
      auto const watched = listener.action == nullptr ? OwnAction() : run.own_actions.begin(listener.action());
      state.most_severe =
          more_severe(state.most_severe, listener.call(participant(run, others, listener.who), arguments));
      ++state.participants;
    }
  } catch (...) {
    if (event.is_notified_once) note_notified(run, event, state);
    throw;
  }
  return state.most_severe;
}

FULGURITE_BODY void note_notified(RunCore& run, Event const& event, DispatchState const& state) {
  if (run.facts.stage != Stage::fit || run.facts.sanity_checking) return;
  if (state.most_severe == Flow::stop) request_stop(run);
  run.due.notified = {};
  run.due.notified.event = event.name;
  auto const names = names_of_participants(run);
  int left = state.participants;
  for (auto const& listener : event.listeners)
    if (listener.listens && left-- > 0) run.due.notified.by.push_back(names[listener.who]);
}

FULGURITE_BODY Flow notify_rest(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments) {
  auto& notified = run.due.notified;
  auto const names = names_of_participants(run);
  Flow most_severe = Flow::proceed;
  try {
    for (auto const& listener : event.listeners) {
      auto const& name = names[listener.who];
      if (notified.contains(name)) continue;
      if (!listener.listens) {
        if (!run.facts.left_out)
          run.warn_each("fulgurite.resume.untold",
                        name + " takes arguments of " + notified.event +
                            " that were lost when the run was stopped, and is not called: take it as (ctx), or as "
                            "(batch, ctx) if the loader can give the batch again");
        continue;
      }
      notified.by.push_back(name);  // before the call, so that a file that the listener writes counts it as notified
      try {
        most_severe = more_severe(most_severe, listener.call(participant(run, others, listener.who), arguments));
      } catch (...) {
        notified.by.pop_back();
        throw;
      }
    }
  } catch (...) {
    if (most_severe == Flow::stop) request_stop(run);
    throw;
  }
  notified = {};
  return most_severe;
}

FULGURITE_BODY void log_hyperparameters(RunCore const& run, std::span<Hyperparameter const> all) {
  if (all.empty() || run.rank() != 0 || run.asked.options.fast_dev_run != 0 || run.asked.options.barebones) return;
  for (auto const& [callback, table, given] : run.callbacks)
    if (table->log_hyperparams != nullptr) table->log_hyperparams(callback, all);
}

FULGURITE_BULK_BODY MetricRow::MetricRow() = default;
FULGURITE_MOVES_BODY(MetricRow);

FULGURITE_BULK_BODY MetricRow epoch_row(RunCore& run, BoardNumber board) {
  MetricRow row;
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

/// True if this rank has logged a value in a step that is in no row yet.
FULGURITE_BODY bool is_new(DeclaredMetric const& metric, Cell const& cell) {
  return cell.in_step_row && cell.epoch.count != 0 && per_step(metric, cell.origin);
}
FULGURITE_BODY bool waits_for_row(DeclaredMetric const& metric, Cell const& cell) {
  return metric.logger && (is_new(metric, cell) || (cell.of_others && per_step(metric, cell.origin)));
}

FULGURITE_BULK_BODY void warn_of_few_rows(RunCore& run) {
  auto const& options = run.asked.options;
  if (!run.facts.is_last_batch || options.fast_dev_run != 0) return;
  long const steps = (run.progress.batch + run.asked.window_length - 1) / run.asked.window_length;
  if (options.log_every_n_steps <= steps) return;
  auto const cells = run.program->cells(run, std::nullopt);
  for (std::size_t i = 0; i != cells.size(); ++i)
    if (waits_for_row(run.program->metrics[i], cells[i]))
      return run.warn("fulgurite.options.few_rows",
                      "the steps of an epoch (" + std::to_string(steps) + ") are fewer than log_every_n_steps = " +
                          std::to_string(options.log_every_n_steps) + ": lower it to see the values of steps");
}

FULGURITE_BULK_BODY MetricRow step_row(RunCore& run, BoardNumber board) {
  MetricRow row;
  auto const cells = run.program->cells(run, board);
  for (std::size_t i = 0; i != cells.size(); ++i) {
    auto const& metric = run.program->metrics[i];
    auto& cell = cells[i];
    if (waits_for_row(metric, cell)) row.push_back({reported_name(metric, cell.origin, false), cell.epoch.last});
    cell.in_step_row = cell.of_others = false;
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
  auto rows = std::exchange(run.due.held_rows, {});
  auto next = rows.begin();
  try {
    while (next != rows.end()) {
      auto const& held = *next++;
      std::vector<Scalar> row;
      for (auto const& [name, value] : held.cells) row.push_back({name, value});
      for (auto const& [callback, table, given] : run.callbacks)
        if (table->log_metrics != nullptr) table->log_metrics(callback, row, held.step);
      ++run.due.rows;
    }
  } catch (...) {  // the rows after this one are still to be delivered
    run.due.held_rows.assign(std::make_move_iterator(next), std::make_move_iterator(rows.end()));
    throw;
  }
}

FULGURITE_BODY void log_row(RunCore& run, std::vector<MetricValue> const& values, long step, bool with_epoch) {
  if (values.empty() || run.rank() != 0 || run.asked.options.fast_dev_run != 0) return;
  std::vector<Scalar> row;
  for (auto const& v : values) row.push_back({v.name, v.value});
  if (with_epoch) row.push_back({"epoch", static_cast<double>(run.progress.epoch)});
  bool const waits = run.program->unchecked_steps(run) != 0;
  if (waits || !run.due.held_rows.empty()) {
    auto& held = run.due.held_rows.emplace_back(HeldRow{{}, step});
    for (auto const& cell : row) held.cells.push_back({std::string(cell.name), cell.value});
    if (!waits) deliver_held(run);
    return;
  }
  for (auto const& [callback, table, given] : run.callbacks) {
    if (table->log_metrics == nullptr) continue;
    auto const watched =
        table->log_metrics_action == nullptr ? OwnAction() : run.own_actions.begin(table->log_metrics_action());
    table->log_metrics(callback, row, step);
  }
  ++run.due.rows;
}

FULGURITE_BODY long last_step(RunCore const& run) { return std::max(0L, run.progress.logged_steps - 1); }

FULGURITE_BODY void log_posted(RunCore& run, long step) { log_row(run, std::exchange(run.due.posted, {}), step); }

FULGURITE_BULK_BODY void share_epoch(RunCore& run, Origin origin) {
  if (run.program->metrics.empty() || !run.program->is_distributed) return;
  run.program->collect(run, std::nullopt);
  auto const cells = run.program->cells(run, std::nullopt);
  AllFigures all(cells.size());
  std::vector<Figures*> figures;
  for (std::size_t i = 0; i != all.size(); ++i) {
    if (!cells[i].shared && cells[i].origin == origin) all[i] = cells[i].epoch;
    figures.push_back(&all[i]);
  }
  share(run, figures);
  for (std::size_t i = 0; i != all.size(); ++i)
    if (all[i].count != 0) {
      cells[i].epoch = all[i];
      cells[i].shared = true;
    }
}

FULGURITE_BULK_BODY void share_evaluation(RunCore& run) {
  if (run.program->metrics.empty() || !run.program->is_distributed) return;
  std::vector<Figures*> figures;
  auto const boards = run.program->evaluation_boards(run);
  for (std::size_t b = 0; b != boards; ++b) {
    run.program->collect(run, b);
    for (auto& cell : run.program->cells(run, b))
      if (!cell.shared) figures.push_back(&cell.epoch);
  }
  share(run, figures);
  if (!run.program->splits_model) return;
  for (std::size_t b = 0; b != boards; ++b)  // where it was not logged, its origin is not set yet
    for (auto& cell : run.program->cells(run, b))
      if (cell.epoch.count != 0) cell.origin = Origin::evaluation;
}

FULGURITE_BULK_BODY void share_step_values(RunCore& run) {
  auto const cells = run.program->cells(run, std::nullopt);
  auto const metrics = run.program->metrics;
  std::vector<double> values;
  std::vector<Reduce> how;
  for (std::size_t i = 0; i != cells.size(); ++i) {
    if (!metrics[i].sync_on_step) continue;
    bool const mean = metrics[i].reduce == Reduce::mean;
    bool const mine = is_new(metrics[i], cells[i]);  // otherwise the value is of an earlier row
    double const weight = mine ? cells[i].weight : 0;
    how.push_back(mean ? Reduce::sum : metrics[i].reduce);
    values.push_back(!mine ? metric::neutral(how.back()) : mean ? cells[i].epoch.last * weight : cells[i].epoch.last);
    values.push_back(weight);
    how.push_back(Reduce::sum);
  }
  if (!run.program->reduce(run, values, how)) return;
  for (std::size_t i = 0, at = 0; i != cells.size(); ++i) {
    if (!metrics[i].sync_on_step) continue;
    bool const mean = metrics[i].reduce == Reduce::mean;
    if (values[at + 1] != 0) {
      auto& cell = cells[i];
      cell.epoch.last = mean ? values[at] / values[at + 1] : values[at];
      cell.of_others = !is_new(metrics[i], cell);
      if (cell.epoch.count == 0) cell.origin = Origin::train_step;
    }
    at += 2;
  }
}

FULGURITE_BULK_BODY void share_last_rank(RunCore& run) {
  constexpr std::size_t each = 9;
  auto const cells = run.program->cells(run, std::nullopt);
  std::vector<double> values;
  for (auto const& cell : cells) {
    auto const& f = cell.epoch;
    values.insert(values.end(), {cell.in_step_row ? 1.0 : 0.0, static_cast<double>(cell.origin), f.last, f.sum,
                                 f.weighted, f.weight, f.least, f.greatest, static_cast<double>(f.count)});
  }
  std::vector<Reduce> const how(values.size(), Reduce::sum);  // with a split model: of the last rank only
  if (!run.program->reduce(run, values, how)) return;
  for (std::size_t i = 0; i != cells.size(); ++i) {
    double const* const at = &values[i * each];
    if (at[8] == 0) continue;
    cells[i].in_step_row = at[0] != 0;
    cells[i].origin = static_cast<Origin>(static_cast<int>(at[1]));
    cells[i].epoch = {.last = at[2],
                      .sum = at[3],
                      .weighted = at[4],
                      .weight = at[5],
                      .least = at[6],
                      .greatest = at[7],
                      .count = static_cast<long>(at[8])};
  }
}

FULGURITE_BULK_BODY bool is_too_few(Error const& error) {
  return error.identifier() == "fulgurite.metric.one_class" ||
         error.identifier() == "fulgurite.metric.constant_target" || error.identifier() == "fulgurite.metric.empty";
}

}  // namespace fulgurite::loop
