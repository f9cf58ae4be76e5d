#pragma once
// A line plot, as an SVG file and as text for a terminal.

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::report {

// An axis of a plot: the values that it can show, their positions, and its tick labels.

/// How an axis is divided: in equal steps, in powers of ten, or in powers of two. The last two show only positive
/// values.
enum class Scale { linear, log, log2 };

/// The name of an axis, such as "learning rate", and its scale.
struct Axis {
  std::string name{};
  Scale scale = Scale::linear;
};

// The contents of a plot.

/// A line through the points (x[i], y[i]), in their order. At a point that is not finite, or that its axis cannot show,
/// the line has a gap. A curve without a label is not in the legend.
struct Curve {
  std::string label{};
  std::vector<double> x{}, y{};
  bool faint = false;  ///< drawn behind the others, as raw values behind their mean
};

/// A highlighted point with a label.
struct Mark {
  double x = 0, y = 0;
  std::string label{};
};

namespace plot {

/// A number at an axis; `at` is 0 at the axis' low end and 1 at its high end.
struct Tick {
  double at = 0;
  std::string text{};
};

/// The range of values that an axis shows, from the smallest to the largest included value.
class Range {
 public:
  explicit Range(Scale scale) : scale_(scale) {}

  /// True if the axis can show the value.
  bool shows(double value) const;
  /// Extends the range to a value that the axis can show.
  void include(double value);
  /// Ends the choice of values. Leaves `margin` of the length free at both ends; if there is only one value, or if
  /// values differ only in their last digits, the axis still gets a length.
  void close(double margin);
  /// The position, from 0 to 1, of a value that the axis can show.
  double part(double value) const { return place(along(value)); }

  /// About `most` ticks at round values, from low to high.
  std::vector<Tick> ticks(int most) const;

 private:
  double along(double value) const;
  double value_at(double along) const;
  double place(double along) const;

  std::vector<Tick> powers(int most) const;

  /// Multiples of 1, 2 or 5 times a power of ten.
  std::vector<Tick> linear(double low, double high, int most) const;

  Scale scale_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;  ///< values
  double from_ = 0, to_ = 1;                                             ///< along the scale
};

/// The position of a point: 0 and 1 are the ends of an axis.
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

/// A plot whose values are converted to positions.
struct Layout {
  Range x, y;
  std::vector<Lines> curves{};  ///< in the given order
  std::vector<std::pair<Place, std::string>> marks{};
};

Layout layout(Axis const& x, Axis const& y, std::vector<Curve> const& curves, std::vector<Mark> const& marks);

/// Colours by class, for light screens and for systems in dark mode. Six colours, then the same six dashed.
inline constexpr std::string_view style = R"(
text{font:12px system-ui,sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}
.ground{fill:#fff}
.grid{stroke:#d8dee4;stroke-width:1}
.frame{stroke:#8c959f;stroke-width:1;fill:none}
.curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.faint{opacity:.6;stroke-width:1.25}
.dashed{stroke-dasharray:7 5}
.c0{stroke:#0b5cad;color:#0b5cad}.c1{stroke:#c2410c;color:#c2410c}.c2{stroke:#15803d;color:#15803d}
.c3{stroke:#8b2fc9;color:#8b2fc9}.c4{stroke:#0e7490;color:#0e7490}.c5{stroke:#a16207;color:#a16207}
.dot{fill:currentColor;stroke:none}
.mark{fill:#cf222e;stroke:#fff;stroke-width:1.5}
.halo{stroke:#fff;stroke-width:4;stroke-linejoin:round;paint-order:stroke;font-weight:600}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.ground{fill:#0d1117}
.grid{stroke:#30363d}
.frame{stroke:#8b949e}
.c0{stroke:#58a6ff;color:#58a6ff}.c1{stroke:#ff9a5c;color:#ff9a5c}.c2{stroke:#56d364;color:#56d364}
.c3{stroke:#d2a8ff;color:#d2a8ff}.c4{stroke:#56d4dd;color:#56d4dd}.c5{stroke:#e3b341;color:#e3b341}
.mark{fill:#ff7b72;stroke:#0d1117}
.halo{stroke:#0d1117}
}
)";

}  // namespace plot

/// The characters that a terminal can show.
enum class Glyphs { ascii, utf8 };

/// Reads LC_ALL, LC_CTYPE and LANG as a terminal does: the first of them that is set decides.
Glyphs glyphs_of_environment();

/// Curves in one plot, with names at the axes, a legend and marked points. Points that are not finite are gaps.
///   report::Plot plot{.title = "Learning rate",
///                     .x = {.name = "learning rate", .scale = report::Scale::log}, .y = {.name = "loss"},
///                     .curves = {{.label = "loss", .x = rates, .y = losses}},
///                     .marks = {{.x = 0.01, .y = 0.4, .label = "suggestion: 0.01"}}};
///   plot.save("rates.svg");
///   std::cout << plot.text(80, 20);
/// A curve whose x and y have different sizes throws [fulgurite.report.plot_sizes].
struct Plot {
  std::string title{};
  Axis x{}, y{};
  std::vector<Curve> curves{};
  std::vector<Mark> marks{};

  /// The text of an SVG file. It needs no other file, and has colours for light and for dark screens. `styled`: false
  /// on a page that has plot::style already.
  std::string svg(bool styled = true) const;

  /// At most `width` columns and `height` lines, plus one line for each label of a curve or a mark. An axis has at
  /// least 10 columns and 4 lines, even if that exceeds the size. The first curve is drawn in Braille patterns.
  std::string text(int width = 72, int height = 18, Glyphs glyphs = glyphs_of_environment()) const;

  /// Writes the plot, as `svg()` if the name ends in .svg, and as `text()` in UTF-8 if it ends in .txt. If it throws
  /// [fulgurite.file.write], the file is unchanged.
  void save(std::filesystem::path const& file) const;
};

/// The plots as one SVG file, with `columns` plots in a row.
std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns = 2);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/plot.ipp>
#endif
