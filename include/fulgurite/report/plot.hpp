#pragma once
// A line plot, as an SVG file and as text for a terminal.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
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

namespace plot {

/// A number at an axis; `at` is 0 at the axis' low end and 1 at its high end.
struct Tick {
  double at = 0;
  std::string text{};
};

/// A number with this many digits after its point, in any locale.
std::string fixed(double value, int digits, std::chars_format form = std::chars_format::fixed);

/// m times 10 to the k, as precisely as a double can be.
double decimal(int m, int k);

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
  static std::string powered(double value, int last_digit);

  Scale scale_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;  ///< values
  double from_ = 0, to_ = 1;                                             ///< along the scale
};

}  // namespace plot

// The contents of a plot, and what both drawings share: the ranges of the axes, and the lines between gaps.

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

}  // namespace plot
}  // namespace fulgurite::report

namespace fulgurite::report::plot {

// A plot as an SVG file that needs no other file and can be read on light and dark screens.

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

/// Appends texts, and numbers in tenths, which is precise enough for pixels.
inline void append_one(std::string& to, std::string_view text) { to += text; }
void append_one(std::string& to, double number);
template <class... Parts>
void append(std::string& to, Parts const&... parts) {
  (append_one(to, parts), ...);
}

/// Draws once: `Svg(title, x, y, layout).take()`.
class Svg {
 public:
  Svg(std::string_view title, Axis const& x, Axis const& y, Layout const& layout);
  std::string take() { return std::move(made_); }

 private:
  static constexpr double width = 720, height = 420, right = width - 28;
  static constexpr double letter = 7;                ///< approximate width of a letter
  static constexpr std::size_t colours = 6;          ///< the number of colours in `style`
  static constexpr std::size_t most_with_dots = 32;  ///< a curve with more points is drawn without dots

  double across(double part) const;
  double down(double part) const;

  void open(std::string_view title);

  /// Writes the labels next to each other below the title, in as many lines as needed; the plot begins below them.
  void legend(double at);
  /// The CSS classes of a curve, or of its dots.
  std::string kind(std::size_t i, std::string_view first = "curve") const;

  void curve(std::size_t i);
  std::string drawn(std::vector<Place> const& line) const;
  void mark(Place place, std::string_view label);

  void line(std::string_view name, double x1, double y1, double x2, double y2);
  void text(double x, double y, std::string_view anchor, std::string_view name, std::string_view words);

  Layout const& layout_;
  double left_ = 0, top_ = 0, bottom_ = 0;
  std::string made_;
};

// A plot as lines of text for a terminal.

/// The grid of characters in which curves are drawn.
class Field {
 public:
  Field(std::size_t columns, std::size_t rows);

  /// Draws a curve with one kind of character.
  void draw(Lines const& curve, std::string_view symbol);
  /// Draws a curve in Braille patterns; a character has two columns of four dots.
  void draw_fine(Lines const& curve);
  void put(Place place, std::string_view symbol);
  std::string row(std::size_t i) const;

 private:
  /// Calls `visit(x, y)` for each dot of a grid of this size through which the curve goes; y counts from the top.
  template <class Visit>
  static void walk(Lines const& curve, std::size_t columns, std::size_t rows, Visit visit) {
    auto const on = [](double part, std::size_t n) {
      return static_cast<long>(std::lround(part * static_cast<double>(n - 1)));
    };
    for (auto const& line : curve.lines)
      for (std::size_t i = 0; i != line.size(); ++i) {
        auto const& from = line[i == 0 ? 0 : i - 1];
        long const x0 = on(from.x, columns), y0 = on(from.y, rows);
        long const dx = on(line[i].x, columns) - x0, dy = on(line[i].y, rows) - y0;
        long const steps = std::max({std::abs(dx), std::abs(dy), 1L});
        for (long k = 0; k <= steps; ++k) {
          double const part = static_cast<double>(k) / static_cast<double>(steps);
          long const x = x0 + std::lround(part * static_cast<double>(dx));
          long const y = y0 + std::lround(part * static_cast<double>(dy));
          visit(static_cast<std::size_t>(x), rows - 1 - static_cast<std::size_t>(y));
        }
      }
  }

  std::size_t columns_, rows_;
  std::vector<std::string> cells_;
};

/// The characters of a plot: for the frame, for curves after the first one, and for marks.
struct Symbols {
  std::string_view wall, wall_tick, corner, floor, floor_tick, first, mark;
  std::array<std::string_view, 5> others;
};
inline constexpr Symbols fine_symbols{"│", "┤", "└", "─", "┬", "⠒", "●", {"·", "∘", "×", "+", "▪"}};
inline constexpr Symbols ascii_symbols{"|", "+", "+", "-", "+", "*", "@", {".", "o", "x", "#", "~"}};

std::string text(std::string_view title, Axis const& x, Axis const& y, Layout const& layout, std::size_t width,
                 std::size_t height, bool ascii);

}  // namespace fulgurite::report::plot

namespace fulgurite::report {

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

  /// The text of an SVG file. It needs no other file, and has colours for light and for dark screens.
  std::string svg() const;

  /// At most `width` columns and `height` lines, plus one line for each label of a curve or a mark. An axis has at
  /// least 10 columns and 4 lines, even if that exceeds the size. The first curve is drawn in Braille patterns.
  std::string text(int width = 72, int height = 18, Glyphs glyphs = glyphs_of_environment()) const;

  /// Writes the plot, as `svg()` if the name ends in .svg, and as `text()` in UTF-8 if it ends in .txt. If it throws
  /// [fulgurite.file.write], the file is unchanged.
  void save(std::filesystem::path const& file) const;
};

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/plot.ipp>
#endif
