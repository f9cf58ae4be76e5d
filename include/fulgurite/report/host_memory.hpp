#pragma once
// The most memory that this process had resident at one time, as Linux counts it.

#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace fulgurite::report {

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

}  // namespace fulgurite::report
