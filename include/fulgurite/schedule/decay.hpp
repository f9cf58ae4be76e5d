#pragma once
// Schedules that only go down: steps, milestones, exponential, polynomial, cosine. Formulae are those of
// torch.optim.lr_scheduler.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

/// gamma^floor(t / size): StepLR.
struct Step {
  long size;
  double gamma = 0.1;
  double operator()(long moves) const {
    check();
    long const falls = moves / size;
    return std::pow(gamma, static_cast<double>(falls));
  }
  void state(auto& archive) { archive.option("size", size).option("gamma", gamma); }
  void check() const {
    if (size < 1) refuse("Step", "size", size, "the rate falls every 1 or more moves");
    if (!is_factor(gamma)) refuse("Step", "gamma", gamma, "a factor is finite and not negative");
  }
};

/// gamma^(number of milestones passed): MultiStepLR. Milestones ascend; one given twice counts twice.
struct MultiStep {
  std::vector<long> milestones;
  double gamma = 0.1;
  double operator()(long moves) const {
    check();
    auto const passed = std::upper_bound(milestones.begin(), milestones.end(), moves) - milestones.begin();
    return std::pow(gamma, static_cast<double>(passed));
  }
  void state(auto& archive) { archive.option("milestones", milestones).option("gamma", gamma); }
  FULGURITE_COLD void check() const {
    long before = 0;
    for (long const milestone : milestones) {
      if (milestone < before) refuse("MultiStep", "milestones", milestone, "milestones count moves from 0 and ascend");
      before = milestone;
    }
    if (!is_factor(gamma)) refuse("MultiStep", "gamma", gamma, "a factor is finite and not negative");
  }
};

/// gamma^t: ExponentialLR.
struct Exponential {
  double gamma;
  double operator()(long moves) const {
    check();
    return std::pow(gamma, static_cast<double>(moves));
  }
  void state(auto& archive) { archive.option("gamma", gamma); }
  void check() const {
    if (!is_factor(gamma)) refuse("Exponential", "gamma", gamma, "a factor is finite and not negative");
  }
};

/// (1 - t/total)^power until total, then 0: PolynomialLR.
struct Polynomial {
  static constexpr bool per_step = true;
  long total;
  double power = 1.0;
  double operator()(long moves) const {
    check();
    return std::pow(1.0 - done(moves, total), power);
  }
  void state(auto& archive) { archive.option("total", total).option("power", power); }
  void check() const {
    if (total < 1) refuse("Polynomial", "total", total, "it takes 1 or more moves");
    if (!is_factor(power)) refuse("Polynomial", "power", power, "a power is finite and not negative");
  }
};

/// least + (1 - least) * (1 + cos(pi t/total)) / 2 until total, then `least`. CosineAnnealingLR goes back up the same
/// way after `total`, and down again: `.periodic = true`.
struct Cosine {
  static constexpr bool per_step = true;
  long total;
  double least = 0.0;  ///< as a part of the initial rate
  bool periodic = false;
  double operator()(long moves) const {
    check();
    long const round = periodic ? moves % (2 * total) : moves;
    double const part = periodic && round > total ? done(2 * total - round, total) : done(round, total);
    return least + (1.0 - least) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  }
  void state(auto& archive) { archive.option("total", total).option("least", least).option("periodic", periodic); }
  void check() const {
    if (total < 1) refuse("Cosine", "total", total, "it takes 1 or more moves");
    if (!is_factor(least)) refuse("Cosine", "least", least, "a factor is finite and not negative");
  }
};

}  // namespace fulgurite::schedule
