#pragma once
// A line plot, as an SVG file and as text for a terminal.

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/plot_layout.hpp>
#include <fulgurite/report/plot_svg.hpp>
#include <fulgurite/report/plot_text.hpp>

namespace fulgurite::report {

/// What a terminal can show.
enum class Glyphs { ascii, utf8 };

/// Reads LC_ALL, LC_CTYPE and LANG as a terminal does: the first of them that is set decides.
inline Glyphs glyphs_of_environment() {
  for (char const* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    char const* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string lower(value);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    bool const utf8 = lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
    return utf8 ? Glyphs::utf8 : Glyphs::ascii;
  }
  return Glyphs::ascii;
}

/// Curves over one another, with names at the axes, a legend and marked points. Points that are not finite are gaps.
///   report::Plot plot{.title = "Learning rate",
///                     .x = {.name = "learning rate", .scale = report::Scale::log}, .y = {.name = "loss"},
///                     .curves = {{.label = "loss", .x = rates, .y = losses}},
///                     .marks = {{.x = 0.01, .y = 0.4, .label = "suggestion: 0.01"}}};
///   plot.save("rates.svg");
///   std::cout << plot.text(80, 20);
/// A curve with other numbers of x than of y is an Error, [fulgurite.report.plot_sizes].
struct Plot {
  std::string title{};
  Axis x{}, y{};
  std::vector<Curve> curves{};
  std::vector<Mark> marks{};

  /// The text of an SVG file. It needs no other file, and has colours for light and for dark screens.
  std::string svg() const {
    auto const layout = plot::layout(x, y, curves, marks);
    return plot::Svg(title, x, y, layout).take();
  }

  /// Lines of at most `width` columns, and `height` lines with one more for each label of a curve or a mark; an axis
  /// keeps 10 columns and 4 lines, however small that is. The first curve is drawn in Braille patterns.
  std::string text(int width = 72, int height = 18, Glyphs glyphs = glyphs_of_environment()) const {
    auto const size = [](int n) { return static_cast<std::size_t>(n < 0 ? 0 : n); };
    return plot::text(title, x, y, plot::layout(x, y, curves, marks), size(width), size(height),
                      glyphs == Glyphs::ascii);
  }

  /// Writes the plot, as `svg()` where the name ends in .svg, and as `text()` in UTF-8 where it ends in .txt. After an
  /// Error, [fulgurite.file.write], the file is as it was.
  void save(std::filesystem::path const& file) const {
    auto const kind = file.extension();
    if (kind != ".svg" && kind != ".txt")
      throw Error("fulgurite.report.plot_name",
                  "a plot is written as .svg or as .txt, which " + file.string() + " does not end in");
    write_durably(file, kind == ".svg" ? svg() : text(100, 30, Glyphs::utf8));
  }
};

}  // namespace fulgurite::report
