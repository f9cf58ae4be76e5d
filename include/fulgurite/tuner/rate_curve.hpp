#pragma once
// Losses over learning rates, and the rate that they suggest.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::tune {

/// A rate, or why there is none.
struct Suggestion {
  std::optional<double> lr = std::nullopt;
  std::size_t point = 0;  ///< of the curve, where it is
  std::string why = {};   ///< empty where there is a rate

  explicit operator bool() const { return lr.has_value(); }
  double operator*() const { return *lr; }
};

/// One point for each step: the rate, the loss averaged over the steps so far, and the loss itself. The average is
/// exponential with weight 0.98, its beginning corrected: a := 0.98 a + 0.02 loss, and a / (1 - 0.98^(t+1)) after step
/// t = 1, 2, ...
class RateCurve {
 public:
  std::vector<double> lr = {};
  std::vector<double> loss = {};
  std::vector<double> raw = {};
  std::string ended = {};  ///< why there are no more points

  static constexpr std::size_t skip_begin = 10, skip_end = 1;
  static constexpr double average_weight = 0.98;

  /// A step without a loss is a point that is not a number, and no part of the average.
  void add(double rate, std::optional<double> value) {
    constexpr double old = average_weight;
    if (value) average_ = old * average_ + (1.0 - old) * *value;
    averaged_ += value.has_value();
    auto const t = static_cast<double>(averaged_);
    lr.push_back(rate);
    raw.push_back(value.value_or(nan));
    loss.push_back(value ? average_ / (1.0 - std::pow(old, t + 1.0)) : nan);
  }
  /// The first n points alone.
  void shorten(std::size_t n) {
    if (n >= lr.size()) return;
    auto const before = std::exchange(*this, RateCurve());
    for (std::size_t i = 0; i != n; ++i)
      add(before.lr[i],
          std::isnan(before.loss[i]) && std::isnan(before.raw[i]) ? std::optional<double>() : before.raw[i]);
  }
  /// The lowest averaged loss; nothing before there is one.
  std::optional<double> best() const {
    std::optional<double> least;
    for (double const one : loss)
      if (std::isfinite(one) && (!least || one < *least)) least = one;
    return least;
  }

  /// The rate where the loss falls the fastest: the least derivative of the loss by the rate, among the points without
  /// the first and the last ones (which are noise, and where it diverges) and without those that are not finite. The
  /// derivative at a point is that of the parabola through it and its neighbours; at both ends that of the line.
  Suggestion suggestion(std::size_t begin = skip_begin, std::size_t end = skip_end) const {
    std::vector<std::size_t> points;
    for (std::size_t i = begin; i + end < loss.size(); ++i)
      if (std::isfinite(loss[i])) points.push_back(i);
    if (points.size() < 2) return {.why = why_none(begin, end, points.size())};
    std::size_t steepest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i != points.size(); ++i)
      if (double const slope = derivative(points, i); slope < least) {
        least = slope;
        steepest = points[i];
      }
    if (!std::isfinite(least)) return {.why = "the loss has no derivative: the rates of neighbouring points are equal"};
    return {.lr = lr[steepest], .point = steepest};
  }

  /// A row for each point: `lr,loss,raw`, each number with all of its bits.
  std::string csv() const {
    std::string all = "lr,loss,raw\n";
    for (std::size_t i = 0; i != lr.size(); ++i) {
      all += report::exact(lr[i]);
      all += ',';
      all += report::exact(loss[i]);
      all += ',';
      all += report::exact(raw[i]);
      all += '\n';
    }
    return all;
  }
  /// Writes `csv()`; after an Error, [fulgurite.file.write], the file is as it was.
  void save(std::filesystem::path const& file) const { write_durably(file, csv()); }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  double derivative(std::vector<std::size_t> const& points, std::size_t i) const {
    auto const x = [&](std::size_t p) { return lr[points[p]]; };
    auto const y = [&](std::size_t p) { return loss[points[p]]; };
    std::size_t const last = points.size() - 1;
    if (i == 0) return (y(1) - y(0)) / (x(1) - x(0));
    if (i == last) return (y(last) - y(last - 1)) / (x(last) - x(last - 1));
    double const left = x(i) - x(i - 1), right = x(i + 1) - x(i);
    return (left * left * y(i + 1) - right * right * y(i - 1) + (right * right - left * left) * y(i)) /
           (left * right * (left + right));
  }
  std::string why_none(std::size_t begin, std::size_t end, std::size_t left) const {
    std::string why = std::to_string(loss.size());
    why += " points, of which the first ";
    why += std::to_string(begin);
    why += " and the last ";
    why += std::to_string(end);
    why += " are left out, leave ";
    why += std::to_string(left);
    why += " finite ones, and a slope takes 2";
    if (!ended.empty()) why += " (" + ended + ")";
    return why;
  }

  double average_ = 0;
  long averaged_ = 0;
};

}  // namespace fulgurite::tune
