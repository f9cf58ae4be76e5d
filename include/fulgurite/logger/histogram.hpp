#pragma once
// How values are spread: counts in buckets of one width, as TensorBoard draws them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger {

/// Counts of values, of those that are numbers; the others are counted apart.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  std::size_t finite = 0, not_finite = 0;
  std::vector<double> limits{};  ///< the upper end of each bucket; the first one begins at min
  std::vector<double> counts{};  ///< one for each
};

/// The histogram of these values; the last bucket holds its upper end, too. Where all are alike there is one bucket.
FULGURITE_BULK Histogram histogram(std::span<double const> values, std::size_t buckets = 30) {
  Histogram all;
  for (double const value : values) {
    if (!std::isfinite(value)) {
      ++all.not_finite;
      continue;
    }
    all.min = all.finite == 0 ? value : std::min(all.min, value);
    all.max = all.finite == 0 ? value : std::max(all.max, value);
    all.sum += value;
    all.sum_of_squares += value * value;
    ++all.finite;
  }
  if (all.finite == 0) return all;
  // Halves, since the whole distance between two doubles may be too large for one.
  double const half = all.max / 2 - all.min / 2;
  if (!(half > 0)) buckets = 1;
  for (std::size_t i = 1; i < buckets; ++i) {
    double const part = half * (static_cast<double>(i) / static_cast<double>(buckets));
    all.limits.push_back(all.min + part + part);
  }
  all.limits.push_back(all.max);
  all.counts.resize(buckets);
  for (double const value : values)
    if (std::isfinite(value)) {
      auto const at = std::upper_bound(all.limits.begin(), all.limits.end() - 1, value) - all.limits.begin();
      ++all.counts[static_cast<std::size_t>(at)];
    }
  return all;
}

}  // namespace fulgurite::logger
