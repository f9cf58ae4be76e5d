#pragma once
// Draws digits as with a pen, for programs that have no files of real ones: 28 x 28 pixels, anti-aliased, each of them
// different, and the same for the same seed.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/data/glyphs.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/random.hpp>

namespace fulgurite::data {

/// Pixels on a side of a drawn digit.
inline constexpr std::size_t digit_side = 28;
/// Grey values row by row, 0 (black) to 255, of a picture of 28 x 28.
using DigitImage = std::array<std::uint8_t, digit_side * digit_side>;

/// One handwriting, drawn at random: it turns and slants a digit, makes it wide or narrow, small or large, moves it,
/// lets lines waver, and presses more or less.
class Handwriting {
 public:
  explicit Handwriting(Random& random) {
    auto const turn = random.uniform(-0.22, 0.22), slant = random.uniform(-0.35, 0.25);
    auto const width = random.uniform(11, 21), height = random.uniform(16, 22);
    xx_ = std::cos(turn) * width;
    xy_ = (-std::sin(turn) - slant * std::cos(turn)) * height;
    yx_ = std::sin(turn) * width;
    yy_ = (std::cos(turn) - slant * std::sin(turn)) * height;
    middle_ = {random.uniform(12.2, 15.8), random.uniform(12.2, 15.8)};
    waver_ = random.uniform(0, 0.05);
    phase_ = {random.uniform(0, 2 * std::numbers::pi), random.uniform(0, 2 * std::numbers::pi)};
    radius_ = random.uniform(0.7, 1.7);
    ink_ = random.uniform(0.75, 1.0);
  }

  double radius() const { return radius_; }
  double ink() const { return ink_; }

  FULGURITE_BULK Point operator()(Point p) const {
    double const x = p.x - 0.5 + waver_ * std::sin(7 * p.y + phase_.x),
                 y = p.y - 0.5 + waver_ * std::sin(7 * p.x + phase_.y);
    return {middle_.x + xx_ * x + xy_ * y, middle_.y + yx_ * x + yy_ * y};
  }

 private:
  double xx_, xy_, yx_, yy_, waver_, radius_, ink_;
  Point middle_, phase_;
};

/// The distance from `p` to the segment from `a` to `b`.
inline double distance(Point p, Point a, Point b) {
  double const dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  double const along = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0.0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

/// Draws a digit from 0 to 9, white on black, in a handwriting that is drawn from `random`.
FULGURITE_BULK DigitImage draw_digit(std::size_t digit, Random& random) {
  auto const& ways = glyphs().at(digit);
  auto const& glyph = ways[random.below(ways.size())];
  Handwriting const hand{random};
  std::array<double, digit_side * digit_side> nearest{};
  nearest.fill(1e9);
  auto const pixel = [](double at) { return std::clamp(static_cast<int>(at), 0, 27); };
  for (Stroke const& stroke : glyph)
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      Point const a = hand(stroke[i - 1]), b = hand(stroke[i]);
      double const reach = hand.radius() + 1;  // farther pixels stay black
      for (int y = pixel(std::min(a.y, b.y) - reach); y <= pixel(std::max(a.y, b.y) + reach); ++y)
        for (int x = pixel(std::min(a.x, b.x) - reach); x <= pixel(std::max(a.x, b.x) + reach); ++x) {
          double& known = nearest[digit_side * static_cast<std::size_t>(y) + static_cast<std::size_t>(x)];
          known = std::min(known, distance({x + 0.5, y + 0.5}, a, b));
        }
    }
  DigitImage image{};
  for (std::size_t i = 0; i < image.size(); ++i) {
    double const cover =
        std::clamp(hand.radius() + 0.5 - nearest[i], 0.0, 1.0);  // the edge runs through a pixel: partly covered
    image[i] = static_cast<std::uint8_t>(std::lround(255 * hand.ink() * cover));
  }
  return image;
}

/// Draws `count` digits, equally many of each. Image i depends on `seed` and i alone.
FULGURITE_BULK LabelledImages draw_digits(std::size_t count, std::uint64_t seed) {
  LabelledImages set;
  set.pixels.reserve(count * 28 * 28);
  for (std::size_t i = 0; i < count; ++i) {
    Random random{seed, i};
    DigitImage const image = draw_digit(i % 10, random);
    set.pixels.insert(set.pixels.end(), image.begin(), image.end());
    set.labels.push_back(static_cast<std::uint8_t>(i % 10));
  }
  return set;
}

}  // namespace fulgurite::data
