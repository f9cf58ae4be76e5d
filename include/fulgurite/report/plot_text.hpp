#pragma once
// A plot as lines of text for a terminal.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/report/plot_layout.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report::plot {

/// The field of characters in which curves are drawn.
class Field {
 public:
  Field(std::size_t columns, std::size_t rows) : columns_(columns), rows_(rows), cells_(columns * rows, " ") {}

  /// A curve in characters of one kind.
  void draw(Lines const& curve, std::string_view symbol) {
    walk(curve, columns_, rows_, [&](std::size_t x, std::size_t y) { cells_[y * columns_ + x] = symbol; });
  }
  /// A curve in Braille patterns, of which a character has two columns of four dots.
  void draw_fine(Lines const& curve) {
    // The dots of a pattern, from the top down: the left column, then the right one.
    static constexpr std::array<std::array<unsigned, 4>, 2> bits{{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    std::vector<unsigned> dots(cells_.size());
    walk(curve, 2 * columns_, 4 * rows_,
         [&](std::size_t x, std::size_t y) { dots[y / 4 * columns_ + x / 2] |= bits[x % 2][y % 4]; });
    for (std::size_t i = 0; i != dots.size(); ++i)
      if (dots[i] != 0)
        cells_[i] = {static_cast<char>(0xE2), static_cast<char>(0xA0 | dots[i] >> 6),
                     static_cast<char>(0x80 | (dots[i] & 0x3FU))};
  }
  void put(Place place, std::string_view symbol) {
    draw(Lines{.label = {}, .lines = {{place}}, .points = 1, .faint = false}, symbol);
  }
  std::string row(std::size_t i) const {
    std::string all;
    for (std::size_t x = 0; x != columns_; ++x) all += cells_[i * columns_ + x];
    while (all.ends_with(' ')) all.pop_back();
    return all;
  }

 private:
  /// Calls `visit(x, y)` for each dot of a field of this size that the curve goes through; y counts from the top.
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

/// The characters of a plot: of the frame, of curves after the first one, of marks.
struct Symbols {
  std::string_view wall, wall_tick, corner, floor, floor_tick, first, mark;
  std::array<std::string_view, 5> others;
};
inline constexpr Symbols fine_symbols{"│", "┤", "└", "─", "┬", "⠒", "●", {"·", "∘", "×", "+", "▪"}};
inline constexpr Symbols ascii_symbols{"|", "+", "+", "-", "+", "*", "@", {".", "o", "x", "#", "~"}};

/// One line: control characters would break the picture.
inline std::string one_line(std::string_view text) {
  std::string all(text);
  for (char& c : all)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return all;
}

/// Text in the middle of so many columns.
inline std::string centred(std::string_view text, std::size_t columns) {
  auto const words = one_line(clipped(text, columns));
  std::string all((columns - display_width(words)) / 2, ' ');
  return all += words;
}

inline std::string text(std::string_view title, Axis const& x, Axis const& y, Layout const& layout, std::size_t width,
                        std::size_t height, bool ascii) {
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
  // The first curve is drawn last, over the others, unless it is the faint one.
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
