#pragma once
// The bodies of report/plot.hpp.

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report::plot {

/// Shortens an exponent: "1e-05" becomes "1e-5", "1e+06" becomes "1e6".
FULGURITE_BODY std::string without_filling(std::string text) {
  auto const e = text.find('e');
  if (e == std::string::npos) return text;
  if (text[e + 1] == '+') text.erase(e + 1, 1);
  auto const digits = e + (text[e + 1] == '-' ? 2 : 1);
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

/// A number with this many digits after its point, in any locale.
FULGURITE_BODY std::string fixed(double value, int digits, std::chars_format form = std::chars_format::fixed) {
  std::string text(400, '\0');
  auto const end = std::to_chars(text.data(), text.data() + text.size(), value, form, digits).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

/// m times 10 to the k, as precisely as a double can be.
FULGURITE_BODY double decimal(int m, int k) {
  std::string text = std::to_string(m);
  text += 'e';
  text += std::to_string(k);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

FULGURITE_BODY bool Range::shows(double value) const {
  return std::isfinite(value) && (scale_ == Scale::linear || value > 0);
}

FULGURITE_BODY void Range::include(double value) {
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

FULGURITE_BODY void Range::close(double margin) {
  if (low_ > high_) low_ = high_ = 1;
  double low = along(low_), high = along(high_);
  double const largest = std::max(std::abs(low), std::abs(high));
  if (high / 2 - low / 2 <= std::max(1e-9 * largest, 1e-290)) {
    double const more = scale_ != Scale::linear ? 0.5 : largest < 1e-290 ? 1 : 0.1 * largest;
    low -= more;
    high += more;
  }
  double const free = margin * high - margin * low;
  from_ = std::max(low - free, -std::numeric_limits<double>::max());
  to_ = std::min(high + free, std::numeric_limits<double>::max());
}

FULGURITE_BODY std::vector<Tick> Range::ticks(int most) const {
  if (scale_ == Scale::linear) return linear(from_, to_, most);
  auto made = powers(most);
  return made.size() > 2 || to_ - from_ >= 2.5 ? made : linear(value_at(from_), value_at(to_), most);
}

FULGURITE_BODY double Range::along(double value) const {
  return scale_ == Scale::linear ? value : scale_ == Scale::log ? std::log10(value) : std::log2(value);
}

FULGURITE_BODY double Range::value_at(double along) const {
  return scale_ == Scale::log ? std::pow(10.0, along) : std::exp2(along);
}

FULGURITE_BODY double Range::place(double along) const {
  // Halves, since the difference of the ends may exceed the largest double.
  return std::clamp((along / 2 - from_ / 2) / (to_ / 2 - from_ / 2), 0.0, 1.0);
}

FULGURITE_BODY std::vector<Tick> Range::powers(int most) const {
  int const first = static_cast<int>(std::ceil(from_ - 1e-9)), last = static_cast<int>(std::floor(to_ + 1e-9));
  std::vector<Tick> made;
  if (scale_ == Scale::log && to_ - from_ < 2.5 && most > 3) {  // too few powers of ten for an axis
    for (int k = first - 1; k <= last; ++k)
      for (int const m : {1, 2, 5})
        if (double const v = decimal(m, k); along(v) >= from_ - 1e-9 && along(v) <= to_ + 1e-9)
          made.push_back({part(v), without_filling(exact_number(v))});
    return made;
  }
  int stride = 1;
  for (int const each : {2, 3, 5, 10, 20, 50, 100, 200, 500})
    if ((last - first) / stride > most) stride = each;
  for (int k = first; k <= last; ++k)
    if (k % stride == 0) {
      double const v = scale_ == Scale::log ? decimal(1, k) : std::exp2(k);
      made.push_back({part(v), without_filling(exact_number(v))});
    }
  return made;
}

/// A number such as 1.25e7, of which the last digit counts 10 to the `last_digit`.
FULGURITE_BODY std::string powered(double value, int last_digit) {
  int const first_digit = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  return without_filling(fixed(value, std::clamp(first_digit - last_digit, 0, 16), std::chars_format::scientific));
}

FULGURITE_BODY std::vector<Tick> Range::linear(double low, double high, int most) const {
  // At most 1e308: the next larger steps are beyond the largest double.
  double const raw = std::min(high / std::max(1, most) - low / std::max(1, most), 1e308);
  int exponent = static_cast<int>(std::floor(std::log10(raw)));
  double const digit = raw / decimal(1, exponent);
  int m = digit < 1.3 ? 1 : digit < 2.6 ? 2 : digit < 6.5 ? 5 : 10;
  if (m == 10) {
    m = 1;
    ++exponent;
  }
  double const step = decimal(m, exponent);
  double const first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  double const largest = std::max(std::abs(low), std::abs(high));
  std::vector<Tick> made;
  for (double i = first; i <= last; ++i) {
    // Divides if the step is a fraction, so that three steps of 0.1 are 0.3.
    double const v = exponent < 0 && exponent > -300 ? i * m / decimal(1, -exponent) : i * step;
    made.push_back({part(v), i == 0                                ? "0"
                             : exponent > -6 && largest < 999999.5 ? fixed(v, std::max(0, -exponent))
                                                                   : powered(v, exponent)});
  }
  return made;
}

FULGURITE_BODY Layout layout(Axis const& x, Axis const& y, std::vector<Curve> const& curves,
                             std::vector<Mark> const& marks) {
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

/// Appends texts, and numbers in tenths, which is precise enough for pixels.
inline void append_one(std::string& to, std::string_view text) { to += text; }
FULGURITE_BODY void append_one(std::string& to, double number) {
  auto text = fixed(number, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  to += text == "-0" ? "0" : text;
}
template <class... Parts>
void append(std::string& to, Parts const&... parts) {
  (append_one(to, parts), ...);
}

/// Draws once: `Svg(title, x, y, layout, styled).take()`. `styled`: includes its style.
class Svg {
 public:
  static constexpr double width = 720, height = 420;

  FULGURITE_BODY Svg(std::string_view title, Axis const& x, Axis const& y, Layout const& layout, bool styled)
      : layout_(layout) {
    auto const x_ticks = layout.x.ticks(8), y_ticks = layout.y.ticks(6);
    std::size_t widest = 0;
    for (auto const& tick : y_ticks) widest = std::max(widest, tick.text.size());
    left_ = 20 + letter * static_cast<double>(widest) + (y.name.empty() ? 0 : 22);
    bottom_ = height - (x.name.empty() ? 32 : 54);
    open(title, styled);
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
  static constexpr double right = width - 28;
  static constexpr double letter = 7;                ///< approximate width of a letter
  static constexpr std::size_t colours = 6;          ///< the number of colours in `style`
  static constexpr std::size_t most_with_dots = 32;  ///< a curve with more points is drawn without dots

  FULGURITE_BODY double across(double part) const { return left_ + part * (right - left_); }

  FULGURITE_BODY double down(double part) const { return bottom_ - part * (bottom_ - top_); }

  FULGURITE_BODY void open(std::string_view title, bool styled) {
    append(made_, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"", width,
           "\" height=\"", height, "\" role=\"img\">\n");
    if (!title.empty()) append(made_, "<title>", xml_text(title), "</title>\n");
    if (styled) append(made_, "<style>", style, "</style>");
    append(made_, "\n<rect class=\"ground\" width=\"", width, "\" height=\"", height, "\" rx=\"6\"/>\n");
    text(width / 2, 27, "middle", "title", title);
  }

  /// Writes the labels next to each other below the title, in as many lines as needed; the plot begins below them.
  FULGURITE_BODY void legend(double at) {
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

  /// The CSS classes of a curve, or of its dots.
  FULGURITE_BODY std::string kind(std::size_t i, std::string_view first = "curve") const {
    std::string all(first);
    all += " c";
    all += std::to_string(i % colours);
    if (i / colours % 2 == 1) all += " dashed";
    if (layout_.curves[i].faint) all += " faint";
    return all;
  }

  FULGURITE_BODY void curve(std::size_t i) {
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

  FULGURITE_BODY std::string drawn(std::vector<Place> const& line) const {
    std::string path, last;
    for (auto const& place : line) {
      std::string point;
      append(point, across(place.x), " ", down(place.y));
      if (point == last) continue;  // thousands of points fall on hundreds of pixels
      append(path, path.empty() ? "M" : "L", point);
      last = std::move(point);
    }
    return path;
  }

  FULGURITE_BODY void mark(Place place, std::string_view label) {
    double const x = across(place.x), y = down(place.y);
    append(made_, "<circle class=\"mark\" cx=\"", x, "\" cy=\"", y, "\" r=\"5.5\"/>\n");
    bool const before = place.x > 0.6;
    text(before ? x - 10 : x + 10, y - 9 < top_ ? y + 18 : y - 9, before ? "end" : "start", "halo", label);
  }

  FULGURITE_BODY void line(std::string_view name, double x1, double y1, double x2, double y2) {
    append(made_, "<path class=\"", name, "\" d=\"M", x1, " ", y1, "L", x2, " ", y2, "\"/>\n");
  }

  FULGURITE_BODY void text(double x, double y, std::string_view anchor, std::string_view name, std::string_view words) {
    if (words.empty()) return;
    append(made_, "<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\"");
    if (!name.empty()) append(made_, " class=\"", name, "\"");
    append(made_, ">", xml_text(words), "</text>\n");
  }

  Layout const& layout_;
  double left_ = 0, top_ = 0, bottom_ = 0;
  std::string made_;
};

/// The grid of characters in which curves are drawn.
class Field {
 public:
  FULGURITE_BODY Field(std::size_t columns, std::size_t rows)
      : columns_(columns), rows_(rows), cells_(columns * rows, " ") {}

  /// Draws a curve with one kind of character.
  FULGURITE_BODY void draw(Lines const& curve, std::string_view symbol) {
    walk(curve, columns_, rows_, [&](std::size_t x, std::size_t y) { cells_[y * columns_ + x] = symbol; });
  }

  /// Draws a curve in Braille patterns; a character has two columns of four dots.
  FULGURITE_BODY void draw_fine(Lines const& curve) {
    // The bits of a pattern's dots, from top to bottom: the left column, then the right one.
    static constexpr std::array<std::array<unsigned, 4>, 2> bits{{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    std::vector<unsigned> dots(cells_.size());
    walk(curve, 2 * columns_, 4 * rows_,
         [&](std::size_t x, std::size_t y) { dots[y / 4 * columns_ + x / 2] |= bits[x % 2][y % 4]; });
    for (std::size_t i = 0; i != dots.size(); ++i)
      if (dots[i] != 0)
        cells_[i] = {static_cast<char>(0xE2), static_cast<char>(0xA0 | dots[i] >> 6),
                     static_cast<char>(0x80 | (dots[i] & 0x3FU))};
  }

  FULGURITE_BODY void put(Place place, std::string_view symbol) {
    draw(Lines{.label = {}, .lines = {{place}}, .points = 1, .faint = false}, symbol);
  }

  FULGURITE_BODY std::string row(std::size_t i) const {
    std::string all;
    for (std::size_t x = 0; x != columns_; ++x) all += cells_[i * columns_ + x];
    while (all.ends_with(' ')) all.pop_back();
    return all;
  }

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

/// The text in one line: control characters would break the drawing.
FULGURITE_BODY std::string one_line(std::string_view text) {
  std::string all(text);
  for (char& c : all)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return all;
}

/// The text, centred in this many columns.
FULGURITE_BODY std::string centred(std::string_view text, std::size_t columns) {
  auto const words = one_line(clipped(text, columns));
  std::string all((columns - display_width(words)) / 2, ' ');
  return all += words;
}

FULGURITE_BODY std::string text(std::string_view title, Axis const& x, Axis const& y, Layout const& layout,
                                std::size_t width, std::size_t height, bool ascii) {
  auto const& symbols = ascii ? ascii_symbols : fine_symbols;
  std::size_t const around = !title.empty() + !y.name.empty() + 2 + !x.name.empty();
  std::size_t const rows = height > around + 4 ? height - around : 4;
  auto const y_ticks = layout.y.ticks(static_cast<int>(std::max<std::size_t>(2, rows / 3)));
  std::size_t left = 1;
  for (auto const& tick : y_ticks) left = std::max(left, tick.text.size());
  std::size_t const columns = width > left + 12 ? width - left - 2 : 10;
  auto const x_ticks = layout.x.ticks(static_cast<int>(std::max<std::size_t>(2, columns / 10)));

  Field field(columns, rows);
  auto const symbol = [&](std::size_t i) {
    return i == 0 ? symbols.first : symbols.others[(i - 1) % symbols.others.size()];
  };
  // The first curve is drawn last, over the others, unless it is faint.
  for (bool const faint : {true, false})
    for (std::size_t i = layout.curves.size(); i-- != 0;) {
      if (layout.curves[i].faint != faint) continue;
      if (i == 0 && !ascii) field.draw_fine(layout.curves[i]);
      else field.draw(layout.curves[i], symbol(i));
    }
  for (auto const& [place, label] : layout.marks) field.put(place, symbols.mark);

  std::string all;
  auto const add_line = [&](std::string line) {
    while (line.ends_with(' ')) line.pop_back();
    all += line += '\n';
  };
  if (!title.empty()) add_line(centred(title, left + 2 + columns));
  if (!y.name.empty()) add_line(std::string(clipped(one_line(y.name), width)));
  auto const at = [](double part, std::size_t n) {
    return static_cast<std::size_t>(std::lround(part * static_cast<double>(n - 1)));
  };
  for (std::size_t r = 0; r != rows; ++r) {
    auto const tick = std::ranges::find_if(y_ticks, [&](Tick const& t) { return at(t.at, rows) == rows - 1 - r; });
    std::string line;
    if (tick != y_ticks.end()) line += std::string(left - tick->text.size(), ' ') + tick->text;
    else line.append(left, ' ');
    line += ' ';
    line += tick != y_ticks.end() ? symbols.wall_tick : symbols.wall;
    add_line(line + field.row(r));
  }
  std::string numbers(width + 24, ' ');
  std::vector<bool> ticked(columns);
  std::size_t free = 0;
  for (auto const& tick : x_ticks) {
    std::size_t const middle = left + 2 + at(tick.at, columns);
    ticked[at(tick.at, columns)] = true;
    std::size_t const end = std::min(middle + (tick.text.size() + 1) / 2, left + 2 + columns);
    std::size_t const begin = end - std::min(end, tick.text.size());
    if (begin < free) continue;
    numbers.replace(begin, tick.text.size(), tick.text);
    free = begin + tick.text.size() + 1;
  }
  std::string floor(left + 1, ' ');
  floor += symbols.corner;
  for (bool const tick : ticked) floor += tick ? symbols.floor_tick : symbols.floor;
  add_line(floor);
  add_line(numbers);
  if (!x.name.empty()) {
    std::string name(left + 2, ' ');
    add_line(name += centred(x.name, columns));
  }
  for (std::size_t i = 0; i != layout.curves.size(); ++i) {
    if (layout.curves[i].label.empty()) continue;
    std::string line(left + 2, ' ');
    for (int k = 0; k != 2; ++k) line += symbol(i);
    line += ' ';
    add_line(line += one_line(layout.curves[i].label));
  }
  for (auto const& [place, label] : layout.marks) {
    if (label.empty()) continue;
    std::string line(left + 2, ' ');
    line += ' ';
    line += symbols.mark;
    line += ' ';
    add_line(line += one_line(label));
  }
  return all;
}

}  // namespace fulgurite::report::plot

namespace fulgurite::report {

FULGURITE_BODY Glyphs glyphs_of_environment() {
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

FULGURITE_BODY std::string Plot::svg(bool styled) const {
  auto const layout = plot::layout(x, y, curves, marks);
  return plot::Svg(title, x, y, layout, styled).take();
}

FULGURITE_BODY std::string Plot::text(int width, int height, Glyphs glyphs) const {
  auto const size = [](int n) { return static_cast<std::size_t>(n < 0 ? 0 : n); };
  return plot::text(title, x, y, plot::layout(x, y, curves, marks), size(width), size(height), glyphs == Glyphs::ascii);
}

FULGURITE_BODY void Plot::save(std::filesystem::path const& file) const {
  auto const kind = file.extension();
  if (kind != ".svg" && kind != ".txt")
    throw Error("fulgurite.report.plot_name",
                "a plot is written as .svg or as .txt, which " + file.string() + " does not end in");
  write_durably(file, kind == ".svg" ? svg() : text(100, 30, Glyphs::utf8));
}

FULGURITE_BODY std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns) {
  constexpr double width = plot::Svg::width, height = plot::Svg::height, gap = 16, head = 40;
  columns = std::max<std::size_t>(1, std::min(columns, plots.size()));
  auto const rows = (plots.size() + columns - 1) / columns;
  double const wide = static_cast<double>(columns) * (width + gap) + gap;
  double const high = head + static_cast<double>(rows) * (height + gap);
  std::string all;
  plot::append(all, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", wide, " ", high, "\" width=\"", wide,
               "\" height=\"", high, "\" role=\"img\">\n<title>", xml_text(title), "</title>\n<style>", plot::style,
               "</style>\n<rect class=\"ground\" width=\"", wide, "\" height=\"", high,
               "\"/>\n<text class=\"title\" x=\"", gap + 8, "\" y=\"27\">", xml_text(title), "</text>\n");
  for (std::size_t i = 0; i != plots.size(); ++i) {
    plot::append(all, "<g transform=\"translate(", gap + static_cast<double>(i % columns) * (width + gap), " ",
                 head + static_cast<double>(i / columns) * (height + gap), ")\">\n", plots[i].svg(false), "</g>\n");
  }
  return all += "</svg>\n";
}

}  // namespace fulgurite::report
