#pragma once
// Part of a run's state: the times that options are compared with.

#include <optional>

#include <fulgurite/loop/options.hpp>

namespace fulgurite::loop {

struct RunClock {
  std::optional<TrainerOptions::Clock::time_point> fit_began = std::nullopt;
  std::optional<TrainerOptions::Clock::time_point> last_validation = std::nullopt;
};

}  // namespace fulgurite::loop
