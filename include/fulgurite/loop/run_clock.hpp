#pragma once
// Part of a run's state: the times that options are compared with.

#include <optional>

#include <fulgurite/loop/options.hpp>

namespace fulgurite::loop {

struct RunClock {
  double earlier = 0;  ///< seconds of training before the file that the fit goes on from
  /// When training began, or went on; nullopt before: what is looked for and tried out until then is no training.
  std::optional<TrainerOptions::Clock::time_point> training_began = std::nullopt;
  std::optional<TrainerOptions::Clock::time_point> last_validation = std::nullopt;
};

}  // namespace fulgurite::loop
