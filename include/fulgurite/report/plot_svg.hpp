#pragma once
// A plot as an SVG file that needs nothing beside it and can be read on light and dark screens.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/report/plot_layout.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/report/xml_text.hpp>

namespace fulgurite::report::plot {

/// Colours by class: on light ground, and where the reader's system is dark. Six colours, then the same six dashed.
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
inline void append_one(std::string& to, double number) {
  auto text = fixed(number, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  to += text == "-0" ? "0" : text;
}
template <class... Parts>
void append(std::string& to, Parts const&... parts) {
  (append_one(to, parts), ...);
}

/// Draws once: `Svg(title, x, y, layout).take()`.
class Svg {
 public:
  Svg(std::string_view title, Axis const& x, Axis const& y, Layout const& layout) : layout_(layout) {
    auto const x_ticks = layout.x.ticks(8), y_ticks = layout.y.ticks(6);
    std::size_t widest = 0;
    for (auto const& tick : y_ticks) widest = std::max(widest, tick.text.size());
    left_ = 20 + letter * static_cast<double>(widest) + (y.name.empty() ? 0 : 22);
    bottom_ = height - (x.name.empty() ? 32 : 54);
    open(title);
    legend(title.empty() ? 16 : 50);
    for (auto const& tick : x_ticks) {
      line("grid", across(tick.at), top_, across(tick.at), bottom_);
      text(across(tick.at), bottom_ + 18, "middle", "", tick.text);
    }
    for (auto const& tick : y_ticks) {
      line("grid", left_, down(tick.at), right, down(tick.at));
      text(left_ - 8, down(tick.at) + 4, "end", "", tick.text);
    }
    line("frame", left_, bottom_, right, bottom_);
    line("frame", left_, top_, left_, bottom_);
    text((left_ + right) / 2, height - 14, "middle", "", x.name);
    if (!y.name.empty())
      append(made_, "<text transform=\"translate(18 ", (top_ + bottom_) / 2, ") rotate(-90)\" text-anchor=\"middle\">",
             xml_text(y.name), "</text>\n");
    for (bool const faint : {true, false})
      for (std::size_t i = 0; i != layout.curves.size(); ++i)
        if (layout.curves[i].faint == faint) curve(i);
    for (auto const& [place, label] : layout.marks) mark(place, label);
    made_ += "</svg>\n";
  }
  std::string take() { return std::move(made_); }

 private:
  static constexpr double width = 720, height = 420, right = width - 28;
  static constexpr double letter = 7;                ///< about a letter's width
  static constexpr std::size_t colours = 6;          ///< as many as `style` has
  static constexpr std::size_t most_with_dots = 32;  ///< a curve of more points is a line alone

  double across(double part) const { return left_ + part * (right - left_); }
  double down(double part) const { return bottom_ - part * (bottom_ - top_); }

  void open(std::string_view title) {
    append(made_, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"", width,
           "\" height=\"", height, "\" role=\"img\">\n");
    if (!title.empty()) append(made_, "<title>", xml_text(title), "</title>\n");
    append(made_, "<style>", style, "</style>\n<rect class=\"ground\" width=\"", width, "\" height=\"", height,
           "\" rx=\"6\"/>\n");
    text(width / 2, 27, "middle", "title", title);
  }

  /// The labels side by side below the title, in as many lines as they take; the plot begins below them.
  void legend(double at) {
    double x = left_;
    bool any = false;
    for (std::size_t i = 0; i != layout_.curves.size(); ++i) {
      auto const& label = layout_.curves[i].label;
      if (label.empty()) continue;
      double const wide = 46 + letter * static_cast<double>(display_width(label));
      if (any && x + wide > right) {
        x = left_;
        at += 18;
      }
      append(made_, "<path class=\"", kind(i), "\" d=\"M", x, " ", at, "h22\"/>\n");
      text(x + 28, at + 4, "start", "legend", label);
      x += wide;
      any = true;
    }
    top_ = at + (any ? 16 : 0);
  }
  /// The classes of a curve, or of its dots.
  std::string kind(std::size_t i, std::string_view first = "curve") const {
    std::string all(first);
    all += " c";
    all += std::to_string(i % colours);
    if (i / colours % 2 == 1) all += " dashed";
    if (layout_.curves[i].faint) all += " faint";
    return all;
  }

  void curve(std::size_t i) {
    auto const& curve = layout_.curves[i];
    std::string path, dots;
    for (auto const& line : curve.lines) {
      if (line.size() > 1) path += drawn(line);
      if (line.size() > 1 && curve.points > most_with_dots) continue;
      for (auto const& place : line)
        append(dots, "<circle class=\"", kind(i, "dot"), "\" cx=\"", across(place.x), "\" cy=\"", down(place.y),
               "\" r=\"3\"/>\n");
    }
    if (!path.empty()) append(made_, "<path class=\"", kind(i), "\" d=\"", path, "\"/>\n");
    made_ += dots;
  }
  std::string drawn(std::vector<Place> const& line) const {
    std::string path, last;
    for (auto const& place : line) {
      std::string point;
      append(point, across(place.x), " ", down(place.y));
      if (point == last) continue;  // thousands of points lie on hundreds of pixels
      append(path, path.empty() ? "M" : "L", point);
      last = std::move(point);
    }
    return path;
  }
  void mark(Place place, std::string_view label) {
    double const x = across(place.x), y = down(place.y);
    append(made_, "<circle class=\"mark\" cx=\"", x, "\" cy=\"", y, "\" r=\"5.5\"/>\n");
    bool const before = place.x > 0.6;
    text(before ? x - 10 : x + 10, y - 9 < top_ ? y + 18 : y - 9, before ? "end" : "start", "halo", label);
  }

  void line(std::string_view name, double x1, double y1, double x2, double y2) {
    append(made_, "<path class=\"", name, "\" d=\"M", x1, " ", y1, "L", x2, " ", y2, "\"/>\n");
  }
  void text(double x, double y, std::string_view anchor, std::string_view name, std::string_view words) {
    if (words.empty()) return;
    append(made_, "<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\"");
    if (!name.empty()) append(made_, " class=\"", name, "\"");
    append(made_, ">", xml_text(words), "</text>\n");
  }

  Layout const& layout_;
  double left_ = 0, top_ = 0, bottom_ = 0;
  std::string made_;
};

}  // namespace fulgurite::report::plot
