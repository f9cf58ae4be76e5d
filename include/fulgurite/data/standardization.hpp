#pragma once
// Mean and spread of columns of numbers, learned from some of their rows.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace fulgurite::data {

/// What takes a column of numbers to mean 0 and standard deviation 1, as it was on the rows that it was learned from. A
/// column that is the same everywhere, but for the rounding of its numbers, has deviation 1.
struct Standardization {
  double mean = 0, deviation = 1;

  double operator()(double value) const {
    double const apart = value - mean;
    return std::isinf(apart) ? value / deviation - mean / deviation : apart / deviation;
  }
  double back(double standardized) const { return standardized * deviation + mean; }

  bool operator==(Standardization const&) const = default;
  void state(auto& archive) { archive("mean", mean)("deviation", deviation); }
};

/// Learned from `count` numbers, value(0) to value(count - 1); those that are NaN do not count. Numbers whose squares
/// no double holds are scaled by a power of two, which rounds nothing.
Standardization standardization_of(std::size_t count, auto const& value) {
  using Limits = std::numeric_limits<double>;
  double least = Limits::infinity(), most = -least;
  std::size_t known = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) ++known, least = std::min(least, v), most = std::max(most, v);
  if (known == 0) return {};
  if (least == most) return {least, 1};  // whose sum may round, and leave a deviation that is nothing but noise
  double const largest = std::max(std::abs(least), std::abs(most));
  double const scale = largest > 1e100 ? 0x1p-600 : largest < 1e-100 ? 0x1p+600 : 1;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) sum += v * scale;
  double const mean = sum / static_cast<double>(known);
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) squares += (v * scale - mean) * (v * scale - mean);
  double const deviation = std::sqrt(squares / static_cast<double>(known));
  bool const varies = deviation > 8 * Limits::epsilon() * std::abs(mean);
  return {mean / scale, varies ? deviation / scale : 1};
}

}  // namespace fulgurite::data
