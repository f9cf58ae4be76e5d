#pragma once
// Schedules along a line: from one factor to another, a warm-up, alone or before a cosine.

#include <algorithm>

#include <fulgurite/schedule/decay.hpp>

namespace fulgurite::schedule {

/// From `start_factor` to `end_factor` in `total` equal moves, then `end_factor`: LinearLR.
struct Linear {
  static constexpr bool per_step = true;
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  long total = 5;
  constexpr double operator()(long moves) const {
    check();
    return start_factor + (end_factor - start_factor) * done(moves, total);
  }
  void state(auto& archive) {
    archive.option("start_factor", start_factor).option("end_factor", end_factor).option("total", total);
  }
  constexpr void check() const {
    if (total < 1) refuse("Linear", "total", total, "it takes 1 or more moves");
    if (!is_factor(start_factor)) refuse("Linear", "start_factor", start_factor, "a factor is finite and not negative");
    if (!is_factor(end_factor)) refuse("Linear", "end_factor", end_factor, "a factor is finite and not negative");
  }
};

/// From `from`, as a part of the initial rate, to 1 in `steps` equal moves, then 1. With 0 steps it is always 1.
struct LinearWarmup {
  static constexpr bool per_step = true;
  long steps;
  double from = 0.0;
  constexpr double operator()(long moves) const {
    check();
    return from + (1.0 - from) * done(moves, steps);
  }
  void state(auto& archive) { archive.option("steps", steps).option("from", from); }
  constexpr void check() const {
    if (steps < 0) refuse("LinearWarmup", "steps", steps, "a warm-up takes 0 or more moves");
    if (!is_factor(from)) refuse("LinearWarmup", "from", from, "a factor is finite and not negative");
  }
};

/// A linear warm-up of `warmup` moves, then a cosine over what is left of `total`. The first step already has 1/warmup
/// of the rate; with a rate of 0 it would do nothing.
struct WarmupCosine {
  static constexpr bool per_step = true;
  long warmup;
  long total;
  double least = 0.0;
  double operator()(long moves) const {
    check();
    if (moves < warmup) return static_cast<double>(moves + 1) / static_cast<double>(warmup);
    return cosine()(moves - warmup);
  }
  void state(auto& archive) { archive.option("warmup", warmup).option("total", total).option("least", least); }
  void check() const {
    if (warmup < 0) refuse("WarmupCosine", "warmup", warmup, "a warm-up takes 0 or more moves");
    if (total < 1) refuse("WarmupCosine", "total", total, "it takes 1 or more moves");
    cosine().check();
  }

 private:
  Cosine cosine() const { return {.total = std::max(1L, total - warmup), .least = least}; }
};

}  // namespace fulgurite::schedule
