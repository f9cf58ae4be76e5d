#pragma once
// How often a replay is checked against the step as it is written: ever more rarely, and never at regular distances.

#include <algorithm>
#include <cstdint>

namespace fulgurite::libtorch::capture {

class Pace {
 public:
  /// Asked before each replay.
  bool check_is_due() { return until_check_-- <= 0; }
  /// What happens every so many steps must not hide between. `noise` is one for all kinds of steps.
  void next_check(std::uint64_t& noise) {
    noise = noise * 6364136223846793005U + 1442695040888963407U;
    until_check_ = gap_ / 2 + static_cast<long>((noise >> 33U) % static_cast<std::uint64_t>(gap_));
  }
  void rarer_checks() { gap_ = std::min(2 * gap_, longest_gap); }

 private:
  static constexpr long longest_gap = 512;  // in replays
  long gap_ = 16, until_check_ = 0;
};

}  // namespace fulgurite::libtorch::capture
