#pragma once
// The ten digits as strokes of a pen, in the ways people write them.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <vector>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::data {

/// A point, x to the right and y down. A digit fills the square from (0, 0) to (1, 1).
struct Point {
  double x = 0, y = 0;
};
/// A line drawn without lifting the pen; a digit is one or several of them.
using Stroke = std::vector<Point>;
/// The lines of one digit, in the order in which a hand would draw them.
using Glyph = std::vector<Stroke>;

/// A part of an ellipse. Angles are degrees, 0 to the right, growing clockwise, so that 90 is down.
struct Arc {
  Point center;
  double rx, ry, from, to;
};

/// Draws one line without lifting the pen: `Pen{}.to({0.5, 0}).along({{0.5, 0.5}, 0.3, 0.5, 0, 90})`.
class Pen {
 public:
  Pen& to(Point point) {
    stroke_.push_back(point);
    return *this;
  }
  FULGURITE_BULK Pen& along(Arc const& arc) {
    constexpr double degree = std::numbers::pi / 180;
    int const steps = std::max(2, static_cast<int>(std::abs(arc.to - arc.from) / 15));
    for (int i = 0; i <= steps; ++i) {
      double const angle = degree * (arc.from + (arc.to - arc.from) * i / steps);
      stroke_.push_back({arc.center.x + arc.rx * std::cos(angle), arc.center.y + arc.ry * std::sin(angle)});
    }
    return *this;
  }
  operator Stroke() const { return stroke_; }

 private:
  Stroke stroke_;
};

/// All of them anew; `glyphs` keeps them.
FULGURITE_COLD std::vector<std::vector<Glyph>> make_glyphs() {
  auto const line = [](std::initializer_list<Point> points) { return Stroke(points); };
  Stroke const ring = Pen{}.along({{0.5, 0.5}, 0.34, 0.5, -80, 280});
  Pen six_back = Pen{}.along({{0.72, 0.68}, 0.5, 0.68, 265, 180});
  Stroke const nine_ring = Pen{}.along({{0.5, 0.3}, 0.28, 0.3, 0, -360});
  Stroke const two_top = Pen{}.along({{0.48, 0.29}, 0.32, 0.29, 195, 395}).to({0.18, 1});
  return std::vector<std::vector<Glyph>>{
      {{ring}},
      {{line({{0.5, 0}, {0.5, 1}})},
       {line({{0.3, 0.22}, {0.52, 0}, {0.52, 1}})},
       {line({{0.3, 0.22}, {0.5, 0}, {0.5, 1}}), line({{0.28, 1}, {0.74, 1}})}},
      {{two_top, line({{0.18, 1}, {0.84, 1}})},
       {two_top, Pen{}.to({0.18, 1}).along({{0.3, 0.9}, 0.12, 0.1, 180, 330}).to({0.86, 0.98})}},
      {{Pen{}.along({{0.46, 0.25}, 0.3, 0.25, 205, 440}).along({{0.46, 0.74}, 0.34, 0.26, 280, 520})},
       {line({{0.2, 0}, {0.76, 0}, {0.44, 0.42}}), Pen{}.to({0.44, 0.42}).along({{0.46, 0.71}, 0.34, 0.29, 270, 520})}},
      {{line({{0.28, 0}, {0.2, 0.55}, {0.86, 0.55}}), line({{0.7, 0.08}, {0.66, 1}})},
       {line({{0.64, 1}, {0.64, 0}, {0.14, 0.64}, {0.88, 0.64}})}},
      {{Pen{}.to({0.8, 0}).to({0.3, 0}).to({0.26, 0.45}).along({{0.46, 0.68}, 0.34, 0.32, 225, 505})}},
      {{six_back.along({{0.5, 0.7}, 0.28, 0.3, 180, -180})},
       {Pen{}.to({0.5, 0}).to({0.26, 0.55}).along({{0.52, 0.72}, 0.28, 0.28, 190, -190})}},
      {{line({{0.18, 0}, {0.82, 0}, {0.42, 1}})},
       {line({{0.18, 0}, {0.82, 0}, {0.42, 1}}), line({{0.36, 0.5}, {0.78, 0.5}})}},
      {{Pen{}.along({{0.5, 0.25}, 0.26, 0.25, 90, 450}), Pen{}.along({{0.5, 0.75}, 0.31, 0.25, 270, 630})}},
      {{nine_ring, line({{0.78, 0.3}, {0.72, 1}})}, {nine_ring, Pen{}.along({{0.28, 0.32}, 0.5, 0.68, 0, 85})}}};
}

/// The ways to write each digit, several where people differ: `glyphs()[4][1]` is the second way to write a four.
inline std::vector<std::vector<Glyph>> const& glyphs() {
  static std::vector<std::vector<Glyph>> const all = make_glyphs();
  return all;
}

}  // namespace fulgurite::data
