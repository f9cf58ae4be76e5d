#pragma once
// The bodies of report/profile.hpp.

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <unistd.h>

#include <fulgurite/core/types.hpp>
#include <fulgurite/report/profile.hpp>

namespace fulgurite::report {

FULGURITE_BODY std::optional<double> host_peak() {
  std::ifstream in("/proc/self/status");
  for (std::string name; in >> name; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (double kilobytes = 0; name == "VmHWM:" && in >> kilobytes) return 1024 * kilobytes;
  return std::nullopt;
}

FULGURITE_BODY void HostStats::processor(Stats& stats) {
  std::ifstream in("/proc/stat");
  std::string word;
  // The columns are user, nice, system, idle, iowait, irq, softirq and steal. Later columns are included in these.
  std::uint64_t all = 0, idle = 0, ticks = 0;
  if (!(in >> word) || word != "cpu") return;
  for (int field = 0; field != 8 && in >> ticks; ++field) {
    all += ticks;
    if (field == 3 || field == 4) idle += ticks;
  }
  auto const passed = all - all_, rested = idle - idle_;
  auto const busy = static_cast<double>(passed - std::min(rested, passed));
  if (all_ != 0 && passed != 0) stats.emplace_back("cpu_percent", 100 * busy / static_cast<double>(passed));
  all_ = all;
  idle_ = idle;
}

FULGURITE_BODY void memory_stats(HostStats::Stats& stats) {
  std::ifstream in("/proc/meminfo");
  double total = 0, available = 0, swap = 0, swap_free = 0, kilobytes = 0;
  std::string name;
  while (in >> name >> kilobytes) {
    if (name == "MemTotal:") total = kilobytes;
    else if (name == "MemAvailable:") available = kilobytes;
    else if (name == "SwapTotal:") swap = kilobytes;
    else if (name == "SwapFree:") swap_free = kilobytes;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (total <= 0) return;
  stats.emplace_back("cpu_vm_percent", 100 * (total - available) / total);
  stats.emplace_back("cpu_swap_percent", swap > 0 ? 100 * (swap - swap_free) / swap : 0.0);
}

FULGURITE_BODY void process_stats(HostStats::Stats& stats) {
  std::ifstream in("/proc/self/statm");
  double size = 0, resident = 0;
  if (in >> size >> resident)
    stats.emplace_back("cpu_process_bytes", resident * static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

FULGURITE_BODY HostStats::Stats HostStats::read() {
  Stats stats;
  processor(stats);
  memory_stats(stats);
  process_stats(stats);
  return stats;
}

FULGURITE_BODY std::string duration_text(double nanoseconds) {
  constexpr std::array<std::pair<double, char const*>, 3> units{{{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}}};
  for (auto const& [size, unit] : units)
    if (nanoseconds >= 0.9995 * size) return formatted("%.3g", nanoseconds / size) + unit;
  return formatted("%.0f", nanoseconds) + " ns";
}

FULGURITE_BODY std::array<double, parts_of_a_run> Profile::shares() const {
  std::array<double, parts_of_a_run> of{};
  double rest = static_cast<double>(total);
  for (auto const& one : spent) {
    of[static_cast<std::size_t>(one.part)] += static_cast<double>(one.own);
    rest -= static_cast<double>(one.own);
  }
  of[static_cast<std::size_t>(RunPart::loop)] += std::max(0.0, rest);
  for (double& share : of) share = total > 0 ? 100 * share / static_cast<double>(total) : 0;
  return of;
}

FULGURITE_BODY std::string Profile::sentence() const {
  auto const of = shares();
  std::array<std::size_t, parts_of_a_run> order{};
  for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
  sort_seldom(order, [&](std::size_t a, std::size_t b) { return std::tie(of[b], a) < std::tie(of[a], b); });
  auto const& first = profile::words[order[0]];
  std::string text = formatted("%.0f", of[order[0]]) + " % of the time ";
  text += first.first;
  for (std::size_t i = 1; i != order.size() && of[order[i]] >= 0.5; ++i) {
    text += ", " + formatted("%.0f", of[order[i]]) + " % ";
    text += profile::words[order[i]].later;
  }
  text += '.';
  // If nothing was trained, the user asked only for a validation or a test, so advice about it would not help.
  bool const trains = of[static_cast<std::size_t>(RunPart::step)] > 0;
  bool const cured = !first.cure.empty() && (trains || order[0] != static_cast<std::size_t>(RunPart::evaluation));
  if (cured) (text += ' ') += first.cure;
  return text;
}

FULGURITE_BODY std::string Profile::table(std::size_t most, std::size_t columns) const {
  auto rows = spent;
  sort_seldom(rows,
              [](Spent const& a, Spent const& b) { return std::tie(b.total, a.action) < std::tie(a.total, b.action); });
  std::size_t const left_out = most != 0 && rows.size() > most ? rows.size() - most : 0;
  rows.resize(rows.size() - left_out);
  std::string shown = table_of(rows).text(columns);
  if (left_out != 0) shown += "and " + std::to_string(left_out) + " that took less\n";
  return shown;
}

FULGURITE_BODY TextTable Profile::table_of(std::vector<Spent> const& rows) const {
  TextTable made({{.title = "Action", .clip = Clip::keeps_end},
                  {.title = "Mean", .goes = 3},
                  {.title = "Calls", .goes = 2},
                  {.title = "Total"},
                  {.title = "%"},
                  {.title = "Own", .goes = 1},
                  {.title = "Longest", .goes = 1}});
  auto const text = [](std::int64_t ns) { return duration_text(static_cast<double>(ns)); };
  auto const percent = [&](std::int64_t of) {
    return total > 0 ? formatted("%.2f", 100 * static_cast<double>(of) / static_cast<double>(total)) : std::string();
  };
  made.add({"Total", "-", "1", text(total), "100"});
  for (auto const& row : rows)
    made.add({row.action, duration_text(static_cast<double>(row.total) / static_cast<double>(std::max(1L, row.calls))),
              std::to_string(row.calls), text(row.total), percent(row.total), text(row.own), text(row.longest)});
  return made;
}

FULGURITE_BODY std::string profile_csv(Profile const& profile) {
  auto const seconds = [](std::int64_t ns) { return exact_number(static_cast<double>(ns) * 1e-9); };
  std::string text = "part,action,calls,total_s,own_s,longest_s\n";
  text += "run,Total,1," + seconds(profile.total) + ",0," + seconds(profile.total) + "\n";
  for (auto const& row : profile.spent) {
    std::string name;
    for (char const c : row.action) (name += c) += c == '"' ? "\"" : "";
    text += part_names[static_cast<std::size_t>(row.part)];
    text += ",\"" + name + "\"," + std::to_string(row.calls) + "," + seconds(row.total) + "," + seconds(row.own) + "," +
            seconds(row.longest) + "\n";
  }
  return text;
}

/// Sorts by own time, of host and GPU together, the longest first.
FULGURITE_BULK_BODY void order_by_time(std::vector<OperatorTime>& rows) {
  std::ranges::sort(rows, [](OperatorTime const& a, OperatorTime const& b) {
    return std::tuple(b.own + b.device, a.name) < std::tuple(a.own + a.device, b.name);
  });
}

FULGURITE_BULK_BODY std::vector<OperatorTime> operator_times(std::vector<OperatorEvent> events) {
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
    // Memory that is allocated in an operator's last moment belongs to it; an operator that begins then is not nested
    // in it.
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

FULGURITE_BULK_BODY void add_operator_times(std::vector<OperatorTime>& rows, std::vector<OperatorTime> more) {
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

FULGURITE_BULK_BODY std::string operator_table(std::vector<OperatorTime> const& rows, std::size_t most,
                                               std::size_t columns) {
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
