#pragma once
// Schedules that go up and down: one cycle, triangles, cosine with warm restarts. Formulae are those of
// torch.optim.lr_scheduler.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

/// OneCycleLR. The optimizer is made with the highest rate. The rate begins at 1/div_factor of it, reaches it after the
/// part `pct_start` of `total` moves, and ends at 1/(div_factor * final_div_factor). With `three_phase` it first falls
/// back to where it began, as fast as it rose, and then to the end. `total` is usually `*ctx.estimated_steps()`; after
/// it the last factor stays. Unless `cycle_momentum` is off, the momentum (for Adam: the first beta) moves the other
/// way, from `max_momentum` down to `base_momentum` and back.
struct OneCycle {
  enum class Anneal : std::uint8_t { cos, linear };
  static constexpr bool per_step = true;
  long total;
  double pct_start = 0.3;
  Anneal anneal = Anneal::cos;
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;

  double operator()(long moves) const {
    double const start = 1.0 / div_factor, least = start / final_div_factor;
    return along(moves, start, 1.0, three_phase ? start : least, least);
  }
  std::optional<double> momentum(long moves) const {
    if (!cycle_momentum) return std::nullopt;
    return along(moves, max_momentum, base_momentum, max_momentum, max_momentum);
  }
  bool moves_momentum() const { return cycle_momentum; }
  void state(auto& archive) {
    archive.option("total", total).option("pct_start", pct_start);
    archive.option("anneal", std::string(anneal == Anneal::cos ? "cos" : "linear"));
    archive.option("cycle_momentum", cycle_momentum).option("base_momentum", base_momentum);
    archive.option("max_momentum", max_momentum).option("div_factor", div_factor);
    archive.option("final_div_factor", final_div_factor).option("three_phase", three_phase);
  }
  FULGURITE_COLD void check() const {
    if (total < 1) refuse("OneCycle", "total", total, "it takes 1 or more moves");
    if (!(pct_start >= 0 && pct_start <= (three_phase ? 0.5 : 1.0)))
      refuse("OneCycle", "pct_start", pct_start, "the rise is a part of the cycle, 0 to 1 (three phases: 0 to 0.5)");
    if (!(div_factor > 0)) refuse("OneCycle", "div_factor", div_factor, "the top is divided by a positive number");
    if (!(final_div_factor > 0))
      refuse("OneCycle", "final_div_factor", final_div_factor, "the start is divided by a positive number");
    if (!cycle_momentum) return;
    if (!is_momentum(base_momentum)) refuse("OneCycle", "base_momentum", base_momentum, "a momentum is in [0, 1)");
    if (!is_momentum(max_momentum)) refuse("OneCycle", "max_momentum", max_momentum, "a momentum is in [0, 1)");
  }

 private:
  /// The value after `moves` moves on the way from `start` up to `top`, down to `fallen`, and, with three phases, on to
  /// `last`.
  double along(long moves, double start, double top, double fallen, double last) const {
    check();
    double const end = static_cast<double>(total - 1);
    double const t = std::min(static_cast<double>(moves), end);
    double const risen = pct_start * static_cast<double>(total) - 1.0;
    if (t <= risen) return between(start, top, 0.0, risen, t);
    if (!three_phase) return between(top, fallen, risen, end, t);
    double const half = 2.0 * pct_start * static_cast<double>(total) - 2.0;
    if (t <= half) return between(top, fallen, risen, half, t);
    return between(fallen, last, half, end, t);
  }
  // A phase may have no length, in a cycle of one or two moves: it is over at once.
  double between(double from, double to, double begin, double end, double t) const {
    double const part = end > begin ? (t - begin) / (end - begin) : 1.0;
    if (anneal == Anneal::linear) return from + (to - from) * part;
    return to + (from - to) * 0.5 * (std::cos(std::numbers::pi * part) + 1.0);
  }
};

/// CyclicLR. The rate rises from the optimizer's own to `peak` times that, and falls back, in triangles. Unless
/// `cycle_momentum` is off, the momentum (for Adam: the first beta) moves the other way, from `max_momentum` down to
/// `base_momentum` and back.
struct Cyclic {
  enum class Shape : std::uint8_t {
    triangular,
    triangular2,
    exp_range
  };  ///< all alike; each half as high; shrinking by gamma a move
  static constexpr bool per_step = true;
  double peak;
  long step_size_up = 2000;
  long step_size_down = 0;  ///< 0: as many moves as up
  Shape shape = Shape::triangular;
  double gamma = 1.0;
  bool cycle_momentum = true;
  double base_momentum = 0.8;
  double max_momentum = 0.9;

  double operator()(long moves) const {
    check();
    return 1.0 + (peak - 1.0) * height(moves) * scale(moves);
  }
  std::optional<double> momentum(long moves) const {
    check();
    if (!cycle_momentum) return std::nullopt;
    return max_momentum - (max_momentum - base_momentum) * height(moves) * scale(moves);
  }
  bool moves_momentum() const { return cycle_momentum; }
  void state(auto& archive) {
    archive.option("peak", peak).option("step_size_up", step_size_up).option("step_size_down", step_size_down);
    archive.option("shape", std::string(shape == Shape::triangular    ? "triangular"
                                        : shape == Shape::triangular2 ? "triangular2"
                                                                      : "exp_range"));
    archive.option("gamma", gamma).option("cycle_momentum", cycle_momentum);
    archive.option("base_momentum", base_momentum).option("max_momentum", max_momentum);
  }
  FULGURITE_COLD void check() const {
    if (!is_factor(peak)) refuse("Cyclic", "peak", peak, "a factor is finite and not negative");
    if (step_size_up < 1) refuse("Cyclic", "step_size_up", step_size_up, "the way up takes 1 or more moves");
    if (step_size_down < 0)
      refuse("Cyclic", "step_size_down", step_size_down, "the way down takes 1 or more moves, or 0: as many as up");
    if (!is_factor(gamma)) refuse("Cyclic", "gamma", gamma, "a factor is finite and not negative");
    if (!cycle_momentum) return;
    if (!is_momentum(base_momentum)) refuse("Cyclic", "base_momentum", base_momentum, "a momentum is in [0, 1)");
    if (!is_momentum(max_momentum)) refuse("Cyclic", "max_momentum", max_momentum, "a momentum is in [0, 1)");
  }

 private:
  double length() const {
    return static_cast<double>(step_size_up + (step_size_down == 0 ? step_size_up : step_size_down));
  }
  /// The height of the triangle after `moves` moves, from 0 to 1, rounded as PyTorch rounds it.
  double height(long moves) const {
    double const done = static_cast<double>(moves) / length(), rise = static_cast<double>(step_size_up) / length();
    double const x = 1.0 + done - std::floor(1.0 + done);
    return x <= rise ? x / rise : (x - 1.0) / (rise - 1.0);
  }
  double scale(long moves) const {
    if (shape == Shape::triangular2)
      return std::pow(0.5, std::floor(1.0 + static_cast<double>(moves) / length()) - 1.0);
    return shape == Shape::exp_range ? std::pow(gamma, static_cast<double>(moves)) : 1.0;
  }
};

/// CosineAnnealingWarmRestarts: a cosine down over `first` moves, then back to the start, each cycle `growth` times as
/// long as the one before.
struct CosineRestarts {
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
  void state(auto& archive) { archive.option("first", first).option("growth", growth).option("least", least); }
  FULGURITE_COLD void check() const {
    if (first < 1) refuse("CosineRestarts", "first", first, "the first cycle takes 1 or more moves");
    if (growth < 1) refuse("CosineRestarts", "growth", growth, "a cycle is 1 or more times as long as the one before");
    if (!is_factor(least)) refuse("CosineRestarts", "least", least, "a factor is finite and not negative");
  }
};

}  // namespace fulgurite::schedule
