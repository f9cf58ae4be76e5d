#pragma once
// Figures of values as they come, such as losses: their mean, their range, the mean of the last ones.

#include <cstddef>
#include <span>
#include <string_view>

#include <fulgurite/metric/keeps.hpp>

namespace fulgurite::metric {

/// The mean of all values, or sum(value * weight) / sum(weight): `Meter{MeanMetric{}}`, `update(loss)`,
/// `update(loss, 32)`. A value is a number or a tensor, of which every element counts.
struct MeanMetric {
  static constexpr std::string_view name() { return "MeanMetric"; }
  static constexpr std::size_t sums() { return 2; }
  /// The weighted sum, and the sum of weights.
  static double compute(std::span<double const> sums) { return sums[0] / sums[1]; }
  bool operator==(MeanMetric const&) const = default;
};

/// The least and the greatest of values.
struct Range {
  double least = 0;
  double greatest = 0;
  bool operator==(Range const&) const = default;
};

/// The least and the greatest of all values: `Meter{MinMax{}}`, whose compute() is a Range. A value is a number or a
/// tensor, of which every element counts. A value that is not a number makes both so.
struct MinMax {
  static constexpr Reduce reduce = Reduce::max;
  static constexpr std::string_view name() { return "MinMax"; }
  static constexpr std::size_t sums() { return 2; }
  /// The greatest of -value, and the greatest of value.
  static Range compute(std::span<double const> sums) { return {-sums[0], sums[1]}; }
  /// Declared as "val/x" it has the rows "val/x.min" and "val/x.max".
  template <class F>
  static void each(Range const& range, F&& f) {
    f("min", range.least);
    f("max", range.greatest);
  }
  bool operator==(MinMax const&) const = default;
};

/// The mean of the last `window` values: `Meter{MeanOfLast{.window = 100}}` is a loss that a person can watch. A value
/// is a number or a tensor of one element.
struct MeanOfLast {
  using Keeps = Window;
  long window = 100;

  static constexpr std::string_view name() { return "MeanOfLast"; }
  constexpr char const* fault() const { return window < 1 ? ".window is at least 1" : nullptr; }
  /// The sum of the values, and how many they are.
  static double compute(std::span<double const> sums) { return sums[0] / sums[1]; }
  bool operator==(MeanOfLast const&) const = default;
};

}  // namespace fulgurite::metric
