#pragma once
// The rows of training: of its steps at their cadence, of its epochs at their end.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_figures.hpp>
#include <fulgurite/loop/training_counts.hpp>

namespace fulgurite::loop {

/// The row of a step, at the cadence of the log. Reads what waits on a device.
template <class R, class Pack>
void report_step(State<R>& run, Pack& pack) {
  int const every = run.asked.options.log_every_n_steps;
  if (every == 0 || ((run.progress.logged_steps + 1) % every != 0 && !run.due.stop.holds)) return;
  if constexpr (State<R>::metrics != 0 || has_logger<Pack>) collect_and_check(run);
  share_step(run);
  if constexpr (has_logger<Pack>) {
    std::vector<MetricValue> row;
    each_step_value<typename R::Metrics>(run.measured.train_board,
                                         [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, pack, row, run.progress.logged_steps);
  }
}

/// The epoch's values become results, then rows; x is the last step's.
template <class R, class Pack>
void report_epoch(State<R>& run, Pack& pack) {
  collect_and_check(run);
  auto& board = run.measured.train_board;
  for (std::size_t i = 0; i != State<R>::metrics; ++i) {
    if (board[i].epoch.count != 0) run.measured.results[i] = board[i].epoch;
    run.measured.logged[i] += board[i].epoch.count;
  }
  if constexpr (has_logger<Pack>) {
    std::vector<MetricValue> row;
    each_epoch_value<typename R::Metrics>(board,
                                          [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    each_of_several(run, [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, pack, row, last_step(run));
  }
}

}  // namespace fulgurite::loop
