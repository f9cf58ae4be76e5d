#pragma once
// The names under which metrics are reported: per step, per epoch, per loader.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

/// One finished value of an evaluation, under its reported name.
struct MetricValue {
  std::string name;
  double value;
};

namespace loop {

/// `loss`, or `loss_step` and `loss_epoch` where a metric is reported both ways.
template <class M>
std::string reported_name(M const& metric, Origin origin, bool epoch) {
  std::string name(M::name());
  if (per_step(metric, origin) && per_epoch(metric, origin)) name += epoch ? "_epoch" : "_step";
  return name;
}

/// Whether some metric is reported per step where it is logged there.
template <class Metrics>
constexpr bool any_per_step(Origin origin) {
  bool any = false;
  Metrics::each([&](std::size_t, auto const& metric) { any = any || per_step(metric, origin); });
  return any;
}

/// f(name, value) for each metric of the board that is reported per epoch.
template <class Metrics, class Board>
void each_epoch_value(Board& board, FunctionRef<void(std::string const&, double)> f) {
  Metrics::each([&](std::size_t i, auto const& metric) {
    auto const& cell = board[i];
    if (!metric.logger || !per_epoch(metric, cell.origin)) return;
    if (auto value = cell.epoch.reduced(metric.reduce)) f(reported_name(metric, cell.origin, true), *value);
  });
}

/// f(name, latest value) for each metric of the board that is reported per step and was logged since the last such row.
template <class Metrics, class Board>
void each_step_value(Board& board, FunctionRef<void(std::string const&, double)> f) {
  Metrics::each([&](std::size_t i, auto const& metric) {
    auto& cell = board[i];
    if (metric.logger && cell.in_step_row && cell.epoch.count != 0 && per_step(metric, cell.origin))
      f(reported_name(metric, cell.origin, false), cell.epoch.last);
    cell.in_step_row = false;
  });
}

/// Rows that waited for a check of their steps.
template <class R, class Pack>
void deliver_held(State<R>& run, Pack& pack) {
  for (auto const& held : std::exchange(run.due.held_rows, {})) {
    std::vector<Scalar> row;
    for (auto const& [name, value] : held.cells) row.push_back({name, value});
    std::span<Scalar const> const cells(row);
    pack.each([&](auto& callback) {
      if constexpr (requires { callback.log_metrics(cells, held.step); }) callback.log_metrics(cells, held.step);
    });
    ++run.due.rows;
  }
}

/// Hands rows to the loggers among the callbacks: those that have `log_metrics`.
template <class R, class Pack>
void log_row(State<R>& run, Pack& pack, std::vector<MetricValue> const& values, long step, bool with_epoch = true) {
  if (values.empty() || run.parts.strategy.rank() != 0 || run.asked.options.fast_dev_run != 0) return;
  std::vector<Scalar> row;
  for (auto const& v : values) row.push_back({v.name, v.value});
  if (with_epoch) row.push_back({"epoch", static_cast<double>(run.progress.epoch)});
  if constexpr (ChecksReplays<typename R::Strategy>) {
    if (run.parts.strategy.unchecked() != 0) {
      auto& held = run.due.held_rows.emplace_back(HeldRow{{}, step});
      for (auto const& cell : row) held.cells.emplace_back(cell.name, cell.value);
      return;
    }
    deliver_held(run, pack);
  }
  std::span<Scalar const> const cells(row);
  pack.each([&]<class C>(C& callback) {
    if constexpr (requires { callback.log_metrics(cells, step); })
      hook::timed<action::log_metrics<C>>(pack)([&] { callback.log_metrics(cells, step); });
  });
  ++run.due.rows;
}

/// Some callback is a logger, so rows are worth making.
template <class Pack>
inline constexpr bool has_logger = false;
template <class... Cs>
inline constexpr bool has_logger<Pack<Cs...>> = (hook::log_metrics::named<Cs> || ...);

/// The x axis of what belongs to a whole epoch, or to the end of training: the last step's.
template <class R>
long last_step(State<R> const& run) {
  return std::max(0L, run.progress.logged_steps - 1);
}

/// Rows that callbacks posted go to the loggers at `step`, once the event at hand has been heard by all.
template <class R, class Pack>
[[gnu::always_inline]] inline void deliver_posted(State<R>& run, Pack& pack, long step) {
  if constexpr (has_logger<Pack>) {
    if (run.due.posted.empty()) [[likely]]
      return;
    std::vector<MetricValue> row;
    for (auto& [name, value] : std::exchange(run.due.posted, {})) row.push_back({std::move(name), value});
    log_row(run, pack, row, step);
  }
}

}  // namespace loop
}  // namespace fulgurite
