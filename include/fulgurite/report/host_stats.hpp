#pragma once
// How busy the machine is and how much memory it and this process use, as Linux tells in /proc.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

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

}  // namespace fulgurite::report
