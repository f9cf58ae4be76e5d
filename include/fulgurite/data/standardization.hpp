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

  double operator()(double value) const { return (value - mean) / deviation; }
  double back(double standardized) const { return standardized * deviation + mean; }

  void state(auto& archive) { archive("mean", mean)("deviation", deviation); }
};

/// Learned from `count` numbers, value(0) to value(count - 1); those that are NaN do not count.
Standardization standardization_of(std::size_t count, auto const& value) {
  using Limits = std::numeric_limits<double>;
  double sum = 0, squares = 0, least = Limits::infinity(), most = -least;
  std::size_t known = 0;
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) {
      sum += v, ++known;
      least = std::min(least, v), most = std::max(most, v);
    }
  if (known == 0) return {};
  if (least == most) return {least, 1};  // whose sum may round, and leave a deviation that is nothing but noise
  double const mean = sum / static_cast<double>(known);
  for (std::size_t i = 0; i != count; ++i)
    if (double const v = value(i); !std::isnan(v)) squares += (v - mean) * (v - mean);
  double const deviation = std::sqrt(squares / static_cast<double>(known));
  return {mean, deviation > 8 * Limits::epsilon() * std::abs(mean) ? deviation : 1};
}

}  // namespace fulgurite::data
