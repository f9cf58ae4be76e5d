#pragma once
// What a plot shows, and what its two drawings have in common: the ranges of the axes, and the lines without gaps.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/report/plot_axis.hpp>

namespace fulgurite::report {

/// A line through the points (x[i], y[i]), in their order. Where a point is not finite, or its axis cannot show it, the
/// line has a gap. A curve without a label is not in the legend.
struct Curve {
  std::string label{};
  std::vector<double> x{}, y{};
  bool faint = false;  ///< drawn behind the others, as the raw values behind their mean
};

/// A point that is to be seen, with a few words beside it.
struct Mark {
  double x = 0, y = 0;
  std::string label{};
};

namespace plot {

/// Where a point lies: 0 and 1 are the ends of an axis.
struct Place {
  double x = 0, y = 0;
};

/// A curve as lines between its gaps. A line of one point is a dot.
struct Lines {
  std::string label{};
  std::vector<std::vector<Place>> lines{};
  std::size_t points = 0;
  bool faint = false;
};

/// A plot whose values have become places.
struct Layout {
  Range x, y;
  std::vector<Lines> curves{};  ///< in the order given
  std::vector<std::pair<Place, std::string>> marks{};
};

inline Layout layout(Axis const& x, Axis const& y, std::vector<Curve> const& curves, std::vector<Mark> const& marks) {
  Layout all{Range(x.scale), Range(y.scale)};
  auto const visible = [&](double px, double py) { return all.x.shows(px) && all.y.shows(py); };
  auto const include = [&](double px, double py) {
    if (!visible(px, py)) return;
    all.x.include(px);
    all.y.include(py);
  };
  for (auto const& curve : curves) {
    if (curve.x.size() != curve.y.size()) {
      std::string sentence = "the curve '";
      sentence += curve.label + "' has " + std::to_string(curve.x.size()) + " values of x and " +
                  std::to_string(curve.y.size()) + " of y: give it as many of each";
      throw Error("fulgurite.report.plot_sizes", sentence);
    }
    for (std::size_t i = 0; i != curve.x.size(); ++i) include(curve.x[i], curve.y[i]);
  }
  for (auto const& mark : marks) include(mark.x, mark.y);
  all.x.close(0.02);
  all.y.close(0.05);
  for (auto const& curve : curves) {
    Lines made{.label = curve.label, .faint = curve.faint};
    bool gap = true;
    for (std::size_t i = 0; i != curve.x.size(); ++i) {
      bool const shown = visible(curve.x[i], curve.y[i]);
      if (shown && gap) made.lines.emplace_back();
      if (shown) made.lines.back().push_back({all.x.part(curve.x[i]), all.y.part(curve.y[i])});
      made.points += shown;
      gap = !shown;
    }
    all.curves.push_back(std::move(made));
  }
  for (auto const& mark : marks)
    if (visible(mark.x, mark.y)) all.marks.emplace_back(Place{all.x.part(mark.x), all.y.part(mark.y)}, mark.label);
  return all;
}

}  // namespace plot
}  // namespace fulgurite::report
