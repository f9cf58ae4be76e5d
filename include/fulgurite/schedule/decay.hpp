#pragma once
// Schedules that only go down: steps, milestones, exponential, polynomial, cosine. Formulae are those of torch.optim.lr_scheduler.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

/// gamma^floor(t / size): StepLR.
struct Step {
  using Stateless = ByChoice;
  long size;
  double gamma = 0.1;
  double operator()(long moves) const {
    if (size < 1) throw Error("fulgurite.schedule.step", "schedule::Step{" + std::to_string(size) + "}: the rate falls every 1 or more moves");
    return std::pow(gamma, static_cast<double>(moves / size));
  }
};

/// gamma^(number of milestones passed): MultiStepLR. Milestones ascend.
struct MultiStep {
  using Stateless = ByChoice;
  std::vector<long> milestones;
  double gamma = 0.1;
  double operator()(long moves) const {
    auto const passed = std::upper_bound(milestones.begin(), milestones.end(), moves) - milestones.begin();
    return std::pow(gamma, static_cast<double>(passed));
  }
};

/// gamma^t: ExponentialLR.
struct Exponential {
  using Stateless = ByChoice;
  double gamma;
  double operator()(long moves) const { return std::pow(gamma, static_cast<double>(moves)); }
};

/// (1 - t/total)^power until total, then 0: PolynomialLR.
struct Polynomial {
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long total;
  double power = 1.0;
  double operator()(long moves) const {
    return std::pow(1.0 - done(moves, total), power);
  }
};

/// least + (1 - least) * (1 + cos(pi t/total)) / 2 until total, then `least`: CosineAnnealingLR without its way back up.
struct Cosine {
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long total;
  double least = 0.0;  ///< as a part of the initial rate
  double operator()(long moves) const {
    return least + (1.0 - least) * 0.5 * (1.0 + std::cos(std::numbers::pi * done(moves, total)));
  }
};

}  // namespace fulgurite::schedule
