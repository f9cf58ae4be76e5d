#pragma once
// Where the time of a run went: a table of its actions, and one sentence.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

// The most memory that this process had resident at one time, as Linux counts it.

/// Bytes since `restart_host_peak()`, or since the process began where the system does not let it restart. Nothing
/// where the system does not tell.
inline std::optional<double> host_peak() {
  std::ifstream in("/proc/self/status");
  for (std::string name; in >> name; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (double kilobytes = 0; name == "VmHWM:" && in >> kilobytes) return 1024 * kilobytes;
  return std::nullopt;
}
/// From now on host_peak() counts anew, where the system lets it (Linux).
inline void restart_host_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Reads the numbers from /proc at each call. A number that the system does not offer is left out, so on other systems
/// than Linux the list is empty.
class HostStats {
 public:
  using Stats = std::vector<std::pair<std::string, double>>;

  /// Names and values: cpu_percent (busy time of all cores since the last call), cpu_vm_percent and cpu_swap_percent
  /// (of the machine's memory), cpu_process_bytes (resident memory of this process).
  Stats read() {
    Stats stats;
    processor(stats);
    memory(stats);
    process(stats);
    return stats;
  }

 private:
  FULGURITE_COLD void processor(Stats& stats) {
    std::ifstream in("/proc/stat");
    std::string word;
    // The columns are user, nice, system, idle, iowait, irq, softirq and steal. The columns behind them are contained
    // in these.
    std::uint64_t all = 0, idle = 0, ticks = 0;
    if (!(in >> word) || word != "cpu") return;
    for (int field = 0; field != 8 && in >> ticks; ++field) {
      all += ticks;
      if (field == 3 || field == 4) idle += ticks;
    }
    auto const passed = all - all_, rested = idle - idle_;
    auto const busy = static_cast<double>(passed - std::min(rested, passed));
    if (all_ != 0 && passed != 0) stats.emplace_back("cpu_percent", percent(busy, static_cast<double>(passed)));
    all_ = all;
    idle_ = idle;
  }

  FULGURITE_COLD static void memory(Stats& stats) {
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
    stats.emplace_back("cpu_vm_percent", percent(total - available, total));
    stats.emplace_back("cpu_swap_percent", swap > 0 ? percent(swap - swap_free, swap) : 0.0);
  }

  static void process(Stats& stats) {
    std::ifstream in("/proc/self/statm");
    double size = 0, resident = 0;
    if (in >> size >> resident)
      stats.emplace_back("cpu_process_bytes", resident * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  }

  static double percent(double part, double whole) { return 100 * part / whole; }

  std::uint64_t all_ = 0, idle_ = 0;
};

/// Parts by the words of a file.
inline constexpr std::array<std::string_view, parts_of_a_run> part_names{
    "data",       "transfer", "step",    "backward", "update", "exchange",
    "evaluation", "hooks",    "logging", "saving",   "own",    "loop"};

/// What a run spent on one action, in nanoseconds.
struct Spent {
  std::string action{};
  RunPart part = RunPart::loop;
  long calls = 0;
  std::int64_t total = 0;    ///< with the actions inside of it
  std::int64_t own = 0;      ///< without them
  std::int64_t longest = 0;  ///< of one call
};

/// A length of time as a person reads it: "1.20 s", "35.1 ms", "812 us", "64 ns".
FULGURITE_COLD std::string duration_text(double nanoseconds) {
  constexpr std::array<std::pair<double, char const*>, 3> units{{{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}}};
  for (auto const& [size, unit] : units)
    if (nanoseconds >= 0.9995 * size) return formatted("%.3g", nanoseconds / size) + unit;
  return formatted("%.0f", nanoseconds) + " ns";
}

namespace profile {

/// How the sentence calls a part after "... % of the time", and how it does after that.
struct Words {
  std::string_view first, later, cure;
};
inline constexpr std::array<Words, parts_of_a_run> words{{
    {"waits for data", "waiting for data",
     "Let more workers make the batches, ahead of the steps, or make a batch cheaper."},
    {"moves batches to their device", "moving batches",
     "Pinned memory, larger batches, or data that stay on the device."},
    {"is training_step", "training_step", ""},
    {"is backward", "backward", ""},
    {"is the optimizer's", "the optimizer",
     "Optimizers of fulgurite::optim update all parameters in one pass; accumulate_grad_batches makes fewer updates."},
    {"is the exchange of gradients", "the exchange of gradients",
     "Ranks wait for the slowest one: see whether all have as much to do; accumulate_grad_batches exchanges less "
     "often."},
    {"is the steps of validation, test or predict", "steps of evaluations",
     "limit_val_batches and check_val_every_n_epoch make validation rarer."},
    {"is in hooks", "hooks", "The table names the one that takes it."},
    {"writes rows of loggers", "loggers", "A larger log_every_n_steps writes fewer."},
    {"writes checkpoints", "checkpoints", "save_in_background = true writes them beside the training."},
    {"is in the program's own actions", "the program's own actions", ""},
    {"is the trainer's, or is not told apart", "everything else", ""},
}};

}  // namespace profile

/// The actions of a run, and how long all of it took.
struct Profile {
  std::vector<Spent> spent{};
  std::int64_t total = 0;

  /// What each part took by itself, in percent of the run; what no action tells of belongs to the loop.
  FULGURITE_COLD std::array<double, parts_of_a_run> shares() const {
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

  /// "62 % of the time waits for data, 21 % is backward, 12 % training_step, 5 % the rest: ..." and, where the largest
  /// part is none of the model's, what to do about it.
  FULGURITE_COLD std::string sentence() const {
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
    // Where nothing trains, a validation or a test is all that was asked for.
    bool const trains = of[static_cast<std::size_t>(RunPart::step)] > 0;
    bool const cured = !first.cure.empty() && (trains || order[0] != static_cast<std::size_t>(RunPart::evaluation));
    if (cured) (text += ' ') += first.cure;
    return text;
  }

  /// The actions, those that took most first, as Lightning's SimpleProfiler shows them. Own: without the actions inside
  /// of it. `most`: so many of them, and how many are left out; `columns`: where the table would be wider, its last
  /// columns go, then names lose their beginnings, then the calls and the mean go. 0 means no limit.
  FULGURITE_COLD std::string table(std::size_t most = 0, std::size_t columns = 0) const {
    auto rows = spent;
    sort_seldom(
        rows, [](Spent const& a, Spent const& b) { return std::tie(b.total, a.action) < std::tie(a.total, b.action); });
    std::size_t const left_out = most != 0 && rows.size() > most ? rows.size() - most : 0;
    rows.resize(rows.size() - left_out);
    std::string shown = table_of(rows).text(columns);
    if (left_out != 0) shown += "and " + std::to_string(left_out) + " that took less\n";
    return shown;
  }

 private:
  FULGURITE_COLD TextTable table_of(std::vector<Spent> const& rows) const {
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
      made.add({row.action,
                duration_text(static_cast<double>(row.total) / static_cast<double>(std::max(1L, row.calls))),
                std::to_string(row.calls), text(row.total), percent(row.total), text(row.own), text(row.longest)});
    return made;
  }
};

/// The same as a table for programs: part,action,calls,total_s,own_s,longest_s; the first row is the whole run.
FULGURITE_COLD std::string profile_csv(Profile const& profile) {
  auto const seconds = [](std::int64_t ns) { return exact(static_cast<double>(ns) * 1e-9); };
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

// Which operators took the time: from events with a beginning and an end to a table of sums.

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
