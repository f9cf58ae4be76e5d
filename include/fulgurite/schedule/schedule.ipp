#pragma once
// The bodies of schedule/schedule.hpp.

#include <cmath>
#include <numbers>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/schedule/schedule.hpp>

namespace fulgurite::schedule {

FULGURITE_BULK_BODY double Step::operator()(long moves) const {
  check();
  long const falls = moves / size;
  return std::pow(gamma, static_cast<double>(falls));
}

FULGURITE_BULK_BODY void Step::check() const {
  if (size < 1) refuse("Step", "size", size, "it must be at least 1");
  if (!is_factor(gamma)) refuse("Step", "gamma", gamma, "it must be finite and not negative");
}

FULGURITE_BULK_BODY double MultiStep::operator()(long moves) const {
  check();
  auto const passed = std::upper_bound(milestones.begin(), milestones.end(), moves) - milestones.begin();
  return std::pow(gamma, static_cast<double>(passed));
}

FULGURITE_BODY void MultiStep::check() const {
  long before = 0;
  for (long const milestone : milestones) {
    if (milestone < before)
      refuse("MultiStep", "milestones", milestone, "milestones count moves from 0 and must ascend");
    before = milestone;
  }
  if (!is_factor(gamma)) refuse("MultiStep", "gamma", gamma, "it must be finite and not negative");
}

FULGURITE_BULK_BODY double Exponential::operator()(long moves) const {
  check();
  return std::pow(gamma, static_cast<double>(moves));
}

FULGURITE_BULK_BODY void Exponential::check() const {
  if (!is_factor(gamma)) refuse("Exponential", "gamma", gamma, "it must be finite and not negative");
}

FULGURITE_BULK_BODY double Polynomial::operator()(long moves) const {
  check();
  return std::pow(1.0 - done(moves, total), power);
}

FULGURITE_BULK_BODY void Polynomial::check() const {
  if (total < 1) refuse("Polynomial", "total", total, "it must be at least 1");
  if (!is_factor(power)) refuse("Polynomial", "power", power, "it must be finite and not negative");
}

FULGURITE_BULK_BODY double Cosine::operator()(long moves) const {
  check();
  long const round = periodic ? moves % (2 * total) : moves;
  double const part = periodic && round > total ? done(2 * total - round, total) : done(round, total);
  return least + (1.0 - least) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
}

FULGURITE_BULK_BODY void Cosine::check() const {
  if (total < 1) refuse("Cosine", "total", total, "it must be at least 1");
  if (!is_factor(least)) refuse("Cosine", "least", least, "it must be finite and not negative");
}

FULGURITE_BULK_BODY double WarmupCosine::operator()(long moves) const {
  check();
  if (moves < warmup) return static_cast<double>(moves + 1) / static_cast<double>(warmup);
  return cosine()(moves - warmup);
}

FULGURITE_BULK_BODY void WarmupCosine::check() const {
  if (warmup < 0) refuse("WarmupCosine", "warmup", warmup, "it must be at least 0");
  if (total < 1) refuse("WarmupCosine", "total", total, "it must be at least 1");
  cosine().check();
}

FULGURITE_BULK_BODY Cosine WarmupCosine::cosine() const {
  return {.total = std::max(1L, total - warmup), .least = least};
}

FULGURITE_BULK_BODY double OneCycle::operator()(long moves) const {
  double const start = 1.0 / div_factor, least = start / final_div_factor;
  return along(moves, start, 1.0, three_phase ? start : least, least);
}

FULGURITE_BULK_BODY std::optional<double> OneCycle::momentum(long moves) const {
  if (!cycle_momentum) return std::nullopt;
  return along(moves, max_momentum, base_momentum, max_momentum, max_momentum);
}

FULGURITE_BODY void OneCycle::check() const {
  if (total < 1) refuse("OneCycle", "total", total, "it must be at least 1");
  if (!(pct_start >= 0 && pct_start <= (three_phase ? 0.5 : 1.0)))
    refuse("OneCycle", "pct_start", pct_start, "it must be a fraction from 0 to 1 (with three phases: to 0.5)");
  if (!(div_factor > 0)) refuse("OneCycle", "div_factor", div_factor, "it must be positive");
  if (!(final_div_factor > 0)) refuse("OneCycle", "final_div_factor", final_div_factor, "it must be positive");
  if (!cycle_momentum) return;
  if (!is_momentum(base_momentum)) refuse("OneCycle", "base_momentum", base_momentum, "it must be in [0, 1)");
  if (!is_momentum(max_momentum)) refuse("OneCycle", "max_momentum", max_momentum, "it must be in [0, 1)");
}

FULGURITE_BULK_BODY double OneCycle::along(long moves, double start, double top, double fallen, double last) const {
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

FULGURITE_BULK_BODY double OneCycle::between(double from, double to, double begin, double end, double t) const {
  double const part = end > begin ? (t - begin) / (end - begin) : 1.0;
  if (anneal == Anneal::linear) return from + (to - from) * part;
  return to + (from - to) * 0.5 * (std::cos(std::numbers::pi * part) + 1.0);
}

FULGURITE_BULK_BODY double Cyclic::operator()(long moves) const {
  check();
  return 1.0 + (peak - 1.0) * height(moves) * scale(moves);
}

FULGURITE_BULK_BODY std::optional<double> Cyclic::momentum(long moves) const {
  check();
  if (!cycle_momentum) return std::nullopt;
  return max_momentum - (max_momentum - base_momentum) * height(moves) * scale(moves);
}

FULGURITE_BODY void Cyclic::check() const {
  if (!is_factor(peak)) refuse("Cyclic", "peak", peak, "it must be finite and not negative");
  if (step_size_up < 1) refuse("Cyclic", "step_size_up", step_size_up, "it must be at least 1");
  if (step_size_down < 0)
    refuse("Cyclic", "step_size_down", step_size_down, "it must be at least 1, or 0 for the same as step_size_up");
  if (!is_factor(gamma)) refuse("Cyclic", "gamma", gamma, "it must be finite and not negative");
  if (!cycle_momentum) return;
  if (!is_momentum(base_momentum)) refuse("Cyclic", "base_momentum", base_momentum, "it must be in [0, 1)");
  if (!is_momentum(max_momentum)) refuse("Cyclic", "max_momentum", max_momentum, "it must be in [0, 1)");
}

FULGURITE_BULK_BODY double Cyclic::length() const {
  return static_cast<double>(step_size_up + (step_size_down == 0 ? step_size_up : step_size_down));
}

FULGURITE_BULK_BODY double Cyclic::height(long moves) const {
  double const done = static_cast<double>(moves) / length(), rise = static_cast<double>(step_size_up) / length();
  double const x = 1.0 + done - std::floor(1.0 + done);
  return x <= rise ? x / rise : (x - 1.0) / (rise - 1.0);
}

FULGURITE_BULK_BODY double Cyclic::scale(long moves) const {
  if (shape == Shape::triangular2) return std::pow(0.5, std::floor(1.0 + static_cast<double>(moves) / length()) - 1.0);
  return shape == Shape::exp_range ? std::pow(gamma, static_cast<double>(moves)) : 1.0;
}

FULGURITE_BULK_BODY double CosineRestarts::operator()(long moves) const {
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

FULGURITE_BODY void CosineRestarts::check() const {
  if (first < 1) refuse("CosineRestarts", "first", first, "it must be at least 1");
  if (growth < 1) refuse("CosineRestarts", "growth", growth, "it must be at least 1");
  if (!is_factor(least)) refuse("CosineRestarts", "least", least, "it must be finite and not negative");
}

void Constant::state(auto& archive) { archive.option("factor", factor); }
FULGURITE_STATE(Constant)

void Step::state(auto& archive) { archive.option("size", size).option("gamma", gamma); }
FULGURITE_STATE(Step)

void MultiStep::state(auto& archive) {
  archive.option("milestones", std::vector<long>(milestones)).option("gamma", gamma);
}
FULGURITE_STATE(MultiStep)

void Exponential::state(auto& archive) { archive.option("gamma", gamma); }
FULGURITE_STATE(Exponential)

void Polynomial::state(auto& archive) { archive.option("total", total).option("power", power); }
FULGURITE_STATE(Polynomial)

void Cosine::state(auto& archive) {
  archive.option("total", total).option("least", least).option("periodic", periodic);
}
FULGURITE_STATE(Cosine)

void Linear::state(auto& archive) {
  archive.option("start_factor", start_factor).option("end_factor", end_factor).option("total", total);
}
FULGURITE_STATE(Linear)

void LinearWarmup::state(auto& archive) { archive.option("steps", steps).option("from", from); }
FULGURITE_STATE(LinearWarmup)

void WarmupCosine::state(auto& archive) {
  archive.option("warmup", warmup).option("total", total).option("least", least);
}
FULGURITE_STATE(WarmupCosine)

void OneCycle::state(auto& archive) {
  archive.option("total", total).option("pct_start", pct_start);
  archive.option("anneal", std::string(anneal == Anneal::cos ? "cos" : "linear"));
  archive.option("cycle_momentum", cycle_momentum).option("base_momentum", base_momentum);
  archive.option("max_momentum", max_momentum).option("div_factor", div_factor);
  archive.option("final_div_factor", final_div_factor).option("three_phase", three_phase);
}
FULGURITE_STATE(OneCycle)

void Cyclic::state(auto& archive) {
  archive.option("peak", peak).option("step_size_up", step_size_up).option("step_size_down", step_size_down);
  archive.option("shape", std::string(shape == Shape::triangular    ? "triangular"
                                      : shape == Shape::triangular2 ? "triangular2"
                                                                    : "exp_range"));
  archive.option("gamma", gamma).option("cycle_momentum", cycle_momentum);
  archive.option("base_momentum", base_momentum).option("max_momentum", max_momentum);
}
FULGURITE_STATE(Cyclic)

void CosineRestarts::state(auto& archive) {
  archive.option("first", first).option("growth", growth).option("least", least);
}
FULGURITE_STATE(CosineRestarts)

}  // namespace fulgurite::schedule
