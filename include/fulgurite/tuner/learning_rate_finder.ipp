#pragma once
// The bodies of tuner/learning_rate_finder.hpp.

#include <algorithm>

#include <fulgurite/tuner/learning_rate_finder.hpp>

namespace fulgurite::tune {

FULGURITE_BODY void RateCurve::add(double rate, std::optional<double> value) {
  constexpr double old = average_weight;
  if (value) average_ = old * average_ + (1.0 - old) * *value;
  averaged_ += value.has_value();
  auto const t = static_cast<double>(averaged_);
  lr.push_back(rate);
  raw.push_back(value.value_or(nan));
  loss.push_back(value ? average_ / (1.0 - std::pow(old, t + 1.0)) : nan);
}

FULGURITE_BODY void RateCurve::shorten(std::size_t n) {
  if (n >= lr.size()) return;
  auto const before = std::exchange(*this, RateCurve());
  for (std::size_t i = 0; i != n; ++i)
    add(before.lr[i],
        std::isnan(before.loss[i]) && std::isnan(before.raw[i]) ? std::optional<double>() : before.raw[i]);
}

FULGURITE_BODY std::optional<double> RateCurve::best() const {
  std::optional<double> least;
  for (double const one : loss)
    if (std::isfinite(one) && (!least || one < *least)) least = one;
  return least;
}

FULGURITE_BODY Suggestion RateCurve::suggestion(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> points;
  auto const average = corrected();
  for (std::size_t i = begin; i + end < average.size(); ++i)
    if (std::isfinite(average[i])) points.push_back(i);
  if (points.size() < 2) return {.why = why_none(begin, end, points.size())};
  std::size_t steepest = 0;
  double least = 0;
  for (std::size_t i = 0; i != points.size(); ++i)
    if (double const slope = slope_at(points, average, i); slope < least) {
      least = slope;
      steepest = points[i];
    }
  if (least == 0) return {.why = "the averaged loss falls at none of these rates"};
  return {.lr = lr[steepest], .point = steepest};
}

FULGURITE_BODY std::vector<double> RateCurve::corrected() const {
  auto all = loss;
  double weight = 1;  // 0.98^t after t averaged losses
  for (std::size_t i = 0; i != all.size(); ++i) {
    if (std::isnan(loss[i]) && std::isnan(raw[i])) continue;  // skips a step without a loss
    weight *= average_weight;
    all[i] *= (1 - weight * average_weight) / (1 - weight);
  }
  return all;
}

FULGURITE_BODY std::string RateCurve::csv() const {
  std::string all = "lr,loss,raw\n";
  for (std::size_t i = 0; i != lr.size(); ++i)
    all += exact_number(lr[i]) + ',' + exact_number(loss[i]) + ',' + exact_number(raw[i]) + '\n';
  return all;
}

FULGURITE_BODY double RateCurve::slope_at(std::vector<std::size_t> const& points, std::vector<double> const& average,
                                          std::size_t i) {
  auto const x = [&](std::size_t p) { return static_cast<double>(points[p]); };
  auto const y = [&](std::size_t p) { return average[points[p]]; };
  std::size_t const last = points.size() - 1;
  if (i == 0) return (y(1) - y(0)) / (x(1) - x(0));
  if (i == last) return (y(last) - y(last - 1)) / (x(last) - x(last - 1));
  double const left = x(i) - x(i - 1), right = x(i + 1) - x(i);
  return (left * left * y(i + 1) - right * right * y(i - 1) + (right * right - left * left) * y(i)) /
         (left * right * (left + right));
}

FULGURITE_BODY std::string RateCurve::why_none(std::size_t begin, std::size_t end, std::size_t left) const {
  return std::to_string(loss.size()) + " points, of which the first " + std::to_string(begin) + " and the last " +
         std::to_string(end) + " are left out, leave " + std::to_string(left) + " finite ones, and a slope takes 2" +
         (ended.empty() ? "" : " (" + ended + ")");
}

FULGURITE_BODY report::Plot FoundRate::plot() const {
  auto const average = corrected();
  auto behind = raw;
  double const most = highest_drawn(average);
  for (double& one : behind)
    if (one > most) one = std::numeric_limits<double>::infinity();
  report::Plot plot{.title = "Learning rate",
                    .x = {.name = "learning rate", .scale = by_factors ? report::Scale::log : report::Scale::linear},
                    .y = {.name = "loss"},
                    .curves = {{.label = "loss, averaged", .x = lr, .y = average},
                               {.label = "loss", .x = lr, .y = behind, .faint = true}}};
  if (suggested)
    plot.marks.push_back({.x = *suggested, .y = average[suggested.point], .label = "suggestion: " + rate()});
  return plot;
}

FULGURITE_BODY std::string FoundRate::text() const {
  std::string all = lr.empty() ? std::string() : plot().text();
  all += suggested ? "suggested learning rate: " + rate() : "no learning rate is suggested: " + suggested.why;
  return all += '\n';
}

FULGURITE_BODY double FoundRate::highest_drawn(std::vector<double> const& average) const {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  std::size_t bottom = 0;
  for (std::size_t i = 0; i != average.size(); ++i) {
    if (!std::isfinite(average[i])) continue;
    if (average[i] < lowest) lowest = average[i], bottom = i;
    highest = std::max(highest, average[i]);
  }
  double most = lowest + 2 * (highest - lowest);
  for (std::size_t i = 0; i < bottom; ++i) most = std::isfinite(raw[i]) ? std::max(most, raw[i]) : most;
  return most;
}

FULGURITE_BODY std::string FoundRate::rate() const { return report::formatted("%.4g", *suggested); }

FULGURITE_BODY std::vector<double> in_ratio(std::vector<double> initial, double lr) {
  if (initial.empty())
    throw Error("fulgurite.tuner.no_rate", "there is no optimizer whose rate could be searched for: NoOptimizer has "
                                           "none, so leave the search out");
  double const first = initial.front();
  if (!(first > 0))
    throw Error("fulgurite.tuner.zero_rate",
                "the rate of the first group is " + std::to_string(first) +
                    ", and the others keep their ratio to it: give the optimizer a positive rate to start with");
  for (double& rate : initial) rate = lr * (rate / first);
  return initial;
}

FULGURITE_BODY void check_milestones(std::string_view whose, std::vector<int> const& epochs) {
  for (int const epoch : epochs)
    if (epoch < 0)
      throw Error("fulgurite.tuner.milestone",
                  std::string(whose) + " has a milestone of " + std::to_string(epoch) + ": epochs count from 0");
}

FULGURITE_BODY bool is_milestone(int epoch, std::vector<int> const& epochs) {
  return std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
}

}  // namespace fulgurite::tune
