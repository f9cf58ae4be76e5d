#pragma once
// Schedules that go up and down: one cycle, triangles, cosine with warm restarts. Formulae are those of torch.optim.lr_scheduler.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

/// OneCycleLR: the optimizer is given the highest rate; the cycle starts at 1/div_factor of it, is at the top after `pct_start` of
/// `total` moves, and ends at 1/(div_factor * final_div_factor). With three phases it falls to where it started as fast as it rose,
/// then on to the end. `total` is what ctx.estimated_steps() says; after it the last factor stays. Momentum is left alone.
struct OneCycle {
  enum class Anneal : std::uint8_t { cos, linear };
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long total;
  double pct_start = 0.3;
  Anneal anneal = Anneal::cos;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;

  double operator()(long moves) const {
    check();
    double const start = 1.0 / div_factor, least = start / final_div_factor;
    double const end = static_cast<double>(total - 1);
    double const t = std::min(static_cast<double>(moves), end);
    double const top = pct_start * static_cast<double>(total) - 1.0;
    if (t <= top) return between(start, 1.0, 0.0, top, t);
    if (!three_phase) return between(1.0, least, top, end, t);
    double const fallen = 2.0 * pct_start * static_cast<double>(total) - 2.0;
    if (t <= fallen) return between(1.0, start, top, fallen, t);
    return between(start, least, fallen, end, t);
  }
  void check() const {
    if (total < 1) refuse("OneCycle", "total", total, "it takes 1 or more moves");
    if (!(pct_start >= 0 && pct_start <= (three_phase ? 0.5 : 1.0)))
      refuse("OneCycle", "pct_start", pct_start, "the rise is a part of the cycle, 0 to 1 (three phases: 0 to 0.5)");
    if (!(div_factor > 0)) refuse("OneCycle", "div_factor", div_factor, "the top is divided by a positive number");
    if (!(final_div_factor > 0)) refuse("OneCycle", "final_div_factor", final_div_factor, "the start is divided by a positive number");
  }

 private:
  // A phase without length (a cycle of one or two moves) is over at once.
  double between(double from, double to, double begin, double end, double t) const {
    double const part = end > begin ? (t - begin) / (end - begin) : 1.0;
    if (anneal == Anneal::linear) return from + (to - from) * part;
    return to + (from - to) * 0.5 * (std::cos(std::numbers::pi * part) + 1.0);
  }
};

/// CyclicLR: triangles from the optimizer's rate up to `peak` times it and back. Momentum is left alone.
struct Cyclic {
  enum class Shape : std::uint8_t { triangular, triangular2, exp_range };  ///< all alike; each half as high; shrinking by gamma a move
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  double peak;
  long step_size_up = 2000;
  long step_size_down = 0;  ///< 0: as many moves as up
  Shape shape = Shape::triangular;
  double gamma = 1.0;

  double operator()(long moves) const {
    check();
    long const down = step_size_down == 0 ? step_size_up : step_size_down, length = step_size_up + down;
    long const cycle = moves / length, at = moves % length;
    double const height = at <= step_size_up ? static_cast<double>(at) / static_cast<double>(step_size_up)
                                             : static_cast<double>(length - at) / static_cast<double>(down);
    return 1.0 + (peak - 1.0) * height * scale(cycle, moves);
  }
  void check() const {
    if (!is_factor(peak)) refuse("Cyclic", "peak", peak, "a factor is finite and not negative");
    if (step_size_up < 1) refuse("Cyclic", "step_size_up", step_size_up, "the way up takes 1 or more moves");
    if (step_size_down < 0) refuse("Cyclic", "step_size_down", step_size_down, "the way down takes 1 or more moves, or 0: as many as up");
    if (!is_factor(gamma)) refuse("Cyclic", "gamma", gamma, "a factor is finite and not negative");
  }

 private:
  double scale(long cycle, long moves) const {
    if (shape == Shape::triangular2) return std::pow(0.5, static_cast<double>(cycle));
    return shape == Shape::exp_range ? std::pow(gamma, static_cast<double>(moves)) : 1.0;
  }
};

/// CosineAnnealingWarmRestarts: a cosine down over `first` moves, then back to the start, each cycle `growth` times as long as the one
/// before.
struct CosineRestarts {
  using Stateless = ByChoice;
  static constexpr bool per_step = true;
  long first;
  long growth = 1;
  double least = 0.0;  ///< as a part of the initial rate

  double operator()(long moves) const {
    check();
    long length = first;
    if (growth == 1) moves %= length;
    while (moves >= length) {
      moves -= length;
      length *= growth;
    }
    double const part = static_cast<double>(moves) / static_cast<double>(length);
    return least + (1.0 - least) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
  }
  void check() const {
    if (first < 1) refuse("CosineRestarts", "first", first, "the first cycle takes 1 or more moves");
    if (growth < 1) refuse("CosineRestarts", "growth", growth, "a cycle is 1 or more times as long as the one before");
    if (!is_factor(least)) refuse("CosineRestarts", "least", least, "a factor is finite and not negative");
  }
};

}  // namespace fulgurite::schedule
