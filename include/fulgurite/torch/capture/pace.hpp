#pragma once
// When a replay is checked against the step as it is written: ever more rarely, and never at regular distances.

#include <algorithm>
#include <cstdint>

namespace fulgurite::libtorch::capture {

class Pace {
 public:
  /// Asked before each replay.
  bool check_is_due() { return until_check_-- <= 0; }
  /// Draws the number of replays until the next check, from half of `gap` to one and a half. The distances are
  /// irregular so that something which happens in every n-th step cannot always fall between two checks. `noise`: the
  /// state of the random numbers, one for all kinds of steps.
  void next_check(std::uint64_t& noise) {
    noise = noise * 6364136223846793005U + 1442695040888963407U;
    until_check_ = gap_ / 2 + static_cast<long>((noise >> 33U) % static_cast<std::uint64_t>(gap_));
  }
  void rarer_checks() { gap_ = std::min(2 * gap_, longest_gap); }

 private:
  static constexpr long longest_gap = 512;  ///< replays
  long gap_ = 16, until_check_ = 0;
};

}  // namespace fulgurite::libtorch::capture
