#pragma once
// Schedules that begin low: a linear warm-up, alone or before a cosine.

#include <algorithm>

#include <fulgurite/schedule/decay.hpp>

namespace fulgurite::schedule {

/// From `from` (of the initial rate) to 1 in `steps` equal moves, then 1: LinearLR.
struct LinearWarmup {
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long steps;
  double from = 0.0;
  constexpr double operator()(long moves) const {
    return from + (1.0 - from) * done(moves, steps);
  }
};

/// A linear warm-up of `warmup` moves, then a cosine over what is left of `total`. The first step is taken at 1/warmup, not at 0.
struct WarmupCosine {
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long warmup;
  long total;
  double least = 0.0;
  double operator()(long moves) const {
    if (moves < warmup) return static_cast<double>(moves + 1) / static_cast<double>(warmup);
    return Cosine{std::max(1L, total - warmup), least}(moves - warmup);
  }
};

}  // namespace fulgurite::schedule
