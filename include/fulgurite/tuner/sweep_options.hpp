#pragma once
// What a sweep can be told, and what is refused of it before anything is made.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/mode.hpp>

namespace fulgurite::tune {

/// Which way the metric gets better. A sweep that is wrong about it keeps the worst members, so it has to be said.
struct Direction {
  Mode mode;

  constexpr Direction(Mode towards) : mode(towards) {}
  template <bool is_said = false>
  constexpr Direction() : mode(Mode::min) {
    static_assert(is_said, "[fulgurite.tune.direction] a sweep cannot know whether a low value is a good one: say "
                           ".mode = Mode::min or .mode = Mode::max");
  }
};

/// An aggregate: `{.mode = Mode::max, .rungs = {1, 3}, .keep = 1.0 / 3}`.
struct SweepOptions {
  Direction mode;               ///< of the metric
  std::vector<int> rungs = {};  ///< after so many epochs, all wait for one another, and the best `keep` of them go on
  double keep = 1.0 / 3;        ///< above 0 and below 1; the number that goes on is rounded down, and at least 1
  int threads = 0;              ///< members that train at a time, each on one core; 0: as many as there are cores
  std::uint64_t seed = 0;       ///< of each member's random numbers: of all the same
  bool verbose = false;         ///< a line on stderr when a member ends
};

/// Error [fulgurite.tune.rungs], [fulgurite.tune.keep] or [fulgurite.tune.threads] for options that mean nothing.
inline void check(SweepOptions const& options) {
  int before = 0;
  for (int const rung : options.rungs) {
    if (rung <= before)
      throw Error("fulgurite.tune.rungs",
                  "rungs are numbers of epochs, the first above 0 and each above the one before "
                  "it, and " +
                      std::to_string(rung) + " stands after " + std::to_string(before));
    before = rung;
  }
  if (!(options.keep > 0 && options.keep < 1))
    throw Error("fulgurite.tune.keep", ".keep = " + std::to_string(options.keep) +
                                           ": the part of the members that goes on is above 0 and below 1");
  if (options.threads < 0)
    throw Error("fulgurite.tune.threads",
                ".threads = " + std::to_string(options.threads) + ": 1 or more, or 0 for all cores");
}

/// How many members train at a time.
inline std::size_t threads_of(SweepOptions const& options, std::size_t members) {
  auto const cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(members, static_cast<std::size_t>(options.threads == 0 ? cores : options.threads));
}

}  // namespace fulgurite::tune
