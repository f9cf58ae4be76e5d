#pragma once
// Which operators took the time: from events with a beginning and an end to a table of sums.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite::report {

/// Something that ran once. Times are in nanoseconds, of one clock.
struct OperatorEvent {
  std::string name{};
  std::uint64_t thread = 0;
  std::int64_t began = 0, ended = 0;
  std::int64_t bytes = 0;      ///< allocated, or freed where it is negative; of an event that is no operator by itself
  bool is_allocation = false;  ///< it lies inside of the operator that asked for it
  bool on_device = false;      ///< a kernel of a GPU
};

/// The sums of all events of one name.
struct OperatorTime {
  std::string name{};
  long calls = 0;
  std::int64_t own = 0, total = 0;  ///< without, and with, the operators inside of it
  std::int64_t bytes = 0;           ///< allocated less freed, by itself
  std::int64_t device = 0;          ///< of a GPU
};

/// Those with the most time of their own first.
FULGURITE_BULK void order_by_time(std::vector<OperatorTime>& rows) {
  std::ranges::sort(rows, [](OperatorTime const& a, OperatorTime const& b) {
    return std::tuple(b.own + b.device, a.name) < std::tuple(a.own + a.device, b.name);
  });
}

/// Sums events by name, those with the most time of their own first. On one thread events lie inside of each other.
FULGURITE_BULK std::vector<OperatorTime> operator_times(std::vector<OperatorEvent> events) {
  std::ranges::sort(events, [](OperatorEvent const& a, OperatorEvent const& b) {
    return std::tie(a.thread, a.began, b.ended, a.name) < std::tie(b.thread, b.began, a.ended, b.name);
  });
  std::map<std::string, OperatorTime> sums;
  struct Open {
    std::int64_t ended;
    std::uint64_t thread;
    OperatorTime* sum;
  };
  std::vector<Open> around;
  for (auto const& event : events) {
    std::int64_t const took = event.ended - event.began;
    if (event.on_device) {
      auto& sum = sums[event.name];
      ++sum.calls;
      sum.device += took;
      continue;
    }
    // What is allocated at an operator's last moment is its own; an operator that begins there is not inside of it.
    std::int64_t const over_by = event.began + (event.is_allocation ? 0 : 1);
    while (!around.empty() && (around.back().thread != event.thread || around.back().ended < over_by))
      around.pop_back();
    if (event.is_allocation) {
      if (!around.empty()) around.back().sum->bytes += event.bytes;
      continue;
    }
    auto& sum = sums[event.name];
    ++sum.calls;
    sum.total += took;
    sum.own += took;
    if (!around.empty()) around.back().sum->own -= took;
    around.push_back({event.ended, event.thread, &sum});
  }
  std::vector<OperatorTime> rows;
  for (auto& [name, sum] : sums) {
    rows.push_back(std::move(sum));
    rows.back().name = name;
  }
  order_by_time(rows);
  return rows;
}

/// Adds the sums of another recording.
FULGURITE_BULK void add_operator_times(std::vector<OperatorTime>& rows, std::vector<OperatorTime> more) {
  for (auto& one : more) {
    auto const same = std::ranges::find(rows, one.name, &OperatorTime::name);
    if (same == rows.end()) {
      rows.push_back(std::move(one));
      continue;
    }
    same->calls += one.calls;
    same->own += one.own;
    same->total += one.total;
    same->bytes += one.bytes;
    same->device += one.device;
  }
  order_by_time(rows);
}

/// The first rows as a table. Shares are of the time that all operators took by themselves.
FULGURITE_BULK std::string operator_table(std::vector<OperatorTime> const& rows, std::size_t most = 20,
                                          std::size_t columns = 0) {
  std::int64_t all = 0, device = 0, bytes = 0;
  for (auto const& row : rows) {
    all += row.own;
    device += row.device;
    bytes |= row.bytes;
  }
  std::vector<TextTable::Column> titles{
      {.title = "Name", .clip = Clip::keeps_end}, {.title = "Self CPU %", .goes = 3}, {.title = "Self CPU"},
      {.title = "CPU total", .goes = 4},          {.title = "Calls", .goes = 2},      {.title = "CPU mean", .goes = 1}};
  if (bytes != 0) titles.push_back({.title = "Self memory", .goes = 5});
  if (device != 0) titles.push_back({.title = "GPU total"});
  TextTable table(std::move(titles));
  auto const text = [](std::int64_t ns) { return duration_text(static_cast<double>(ns)); };
  for (std::size_t i = 0; i != std::min(most, rows.size()); ++i) {
    auto const& row = rows[i];
    std::vector<std::string> cells{
        row.name,
        formatted("%.2f", all > 0 ? 100 * static_cast<double>(row.own) / static_cast<double>(all) : 0),
        text(row.own),
        text(row.total),
        std::to_string(row.calls),
        duration_text(static_cast<double>(row.total) / static_cast<double>(std::max(1L, row.calls)))};
    if (bytes != 0) cells.push_back((row.bytes < 0 ? "-" : "") + bytes_text(row.bytes < 0 ? -row.bytes : row.bytes));
    if (device != 0) cells.push_back(text(row.device));
    table.add(std::move(cells));
  }
  std::string made = table.text(columns);
  made += "Self CPU time total: " + text(all) + "\n";
  if (device != 0) made += "GPU time total: " + text(device) + "\n";
  return made;
}

}  // namespace fulgurite::report
