#pragma once
// Dividing samples into those to train on and those to validate on: by a fraction or a count, repeatable by a seed.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// A part of something, as a fraction in [0, 1) or as a count: `0.2` is a fifth, `2000` is that many.
class Share {
 public:
  constexpr Share(std::floating_point auto fraction)
      : value_(fraction), fraction_(true) {}  // implicit: .validation = 0.2
  constexpr Share(std::integral auto count)
      : value_(static_cast<double>(count)), fraction_(false) {}  // implicit: .validation = 2000

  /// The number that this part of `total` is, rounded to the nearest. Error [fulgurite.data.share] where it is
  /// negative, or is all of `total`.
  FULGURITE_BULK std::size_t of(std::size_t total) const {
    bool const valid =
        value_ >= 0 && (fraction_ ? value_ < 1 : value_ < static_cast<double>(total) || (total == 0 && value_ == 0));
    if (!valid)
      throw Error(
          "fulgurite.data.share",
          (fraction_ ? "the fraction " : "the count ") + std::to_string(value_) + " of " + std::to_string(total) +
              " samples to put aside: give a fraction in [0, 1) (as 0.2) or a count below " + std::to_string(total));
    return static_cast<std::size_t>(std::lround(fraction_ ? value_ * static_cast<double>(total) : value_));
  }

 private:
  double value_;
  bool fraction_;
};

/// The positions of the samples of each part, ascending.
struct Split {
  std::vector<std::size_t> train, validation;
};

/// Divides `total` samples at random. The same seed gives the same parts. The seed of a shuffle may be the same number,
/// since the split draws from a stream of its own.
FULGURITE_BULK Split split(std::size_t total, Share validation, std::uint64_t seed) {
  constexpr long stream = -1;  // epochs count from 0: no epoch's order is related to the split
  std::size_t const aside = validation.of(total);
  std::vector<std::size_t> order = Shuffle{total, seed}.indices(stream);
  auto const middle = order.begin() + static_cast<std::ptrdiff_t>(aside);
  Split parts{{middle, order.end()}, {order.begin(), middle}};
  std::ranges::sort(parts.train);
  std::ranges::sort(parts.validation);
  return parts;
}

}  // namespace fulgurite::data
