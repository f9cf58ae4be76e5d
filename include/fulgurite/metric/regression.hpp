#pragma once
// Errors of numbers that are predicted: what they are called, and their formulas over sums.

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/keeps.hpp>

namespace fulgurite::metric {

/// The mean of (prediction - target) squared: `Meter{MeanSquaredError{}}`; with .root its square root. Predictions and
/// targets have the same shape.
struct MeanSquaredError {
  bool root = false;

  static constexpr std::string_view name() { return "MeanSquaredError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of squares, and how many they are.
  double compute(std::span<double const> sums) const { return root ? std::sqrt(sums[0] / sums[1]) : sums[0] / sums[1]; }
  bool operator==(MeanSquaredError const&) const = default;
};

/// The mean of |prediction - target|: `Meter{MeanAbsoluteError{}}`. Predictions and targets have the same shape.
struct MeanAbsoluteError {
  static constexpr std::string_view name() { return "MeanAbsoluteError"; }
  static constexpr std::size_t sums() { return 2; }
  /// The sum of distances, and how many they are.
  static double compute(std::span<double const> sums) { return sums[0] / sums[1]; }
  bool operator==(MeanAbsoluteError const&) const = default;
};

/// The part of the targets' variance that the predictions explain: 1 is perfect, 0 is as good as always predicting
/// their mean. Both have the same shape, [batch] or [batch, outputs]; of several outputs it is the mean.
/// `Meter{R2{.outputs = 3}}`.
struct R2 {
  long outputs = 1;

  static constexpr std::string_view name() { return "R2"; }
  constexpr std::size_t sums() const { return parts * static_cast<std::size_t>(outputs); }
  constexpr char const* fault() const { return outputs < 1 ? ".outputs is at least 1" : nullptr; }
  /// Of each output the samples, the mean of the targets, their squared distances to it, and the squared errors.
  static constexpr std::size_t parts = 4;
  /// The same of two batches together, without a difference of large sums: Chan, Golub and LeVeque.
  template <class Number>
  static std::array<Number, parts> joined(std::array<Number, parts> const& a, std::array<Number, parts> const& b) {
    Number const all = a[0] + b[0], part = b[0] / all, apart = b[1] - a[1];
    return {all, a[1] + apart * part, a[2] + b[2] + apart * apart * (a[0] * part), a[3] + b[3]};
  }
  double compute(std::span<double const> sums) const {
    double all = 0;
    auto const n = static_cast<std::size_t>(outputs);
    for (std::size_t i = 0; i != n; ++i) all += of_output(sums[i], sums[n + i], sums[2 * n + i], sums[3 * n + i]);
    return all / static_cast<double>(outputs);
  }
  bool operator==(R2 const&) const = default;

 private:
  static double of_output(double samples, double mean, double squares, double errors) {
    double const rounding = 8 * std::numeric_limits<double>::epsilon() * mean;
    if (squares <= samples * rounding * rounding)
      throw Error("fulgurite.metric.constant_target",
                  "R2 compares predictions with the targets' mean, and the targets do not differ by more than their "
                  "rounding: update it with more samples, or subtract a constant from both");
    return 1 - errors / squares;
  }
};

}  // namespace fulgurite::metric
