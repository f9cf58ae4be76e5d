#pragma once
// What a dashboard shows at one moment, as lines for a terminal of any size.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/plot_panels.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// The parts of a frame, each as wide as it likes: it is made to fit.
struct DashboardFrame {
  std::string head{};                ///< model, epoch, step, time
  std::vector<Curve> curves{};       ///< those of one kind share a plot
  std::vector<std::string> bars{};   ///< progress bars, made for the width
  std::vector<std::string> facts{};  ///< what stands below: throughput, memory; three blanks between them
};

namespace dashboard {

inline constexpr std::size_t narrowest = 38, lowest = 9, highest = 16;

FULGURITE_COLD std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto const end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}
/// A line of exactly so many columns.
FULGURITE_COLD std::string filled(std::string_view line, std::size_t columns) {
  std::string text(clipped(line, columns));
  text.append(columns - display_width(text), ' ');
  return text;
}

/// Facts with three blanks between them. Those that find no room are left out as a whole, as a number that is cut in
/// two reads as another one.
FULGURITE_COLD std::string facts_within(std::string_view facts, std::size_t columns) {
  constexpr std::string_view gap = "   ", more = "...";
  if (display_width(facts) <= columns) return std::string(facts);
  auto room = clipped(facts, columns - std::min(columns, gap.size() + more.size()));
  if (!facts.substr(room.size()).starts_with(gap)) {
    auto const at = room.rfind(gap);
    room = room.substr(0, at == room.npos ? 0 : at);
  }
  while (room.ends_with(' ')) room.remove_suffix(1);  // the cut may lie inside of a gap, or facts have wider ones
  if (room.empty()) return std::string(clipped(more, columns));
  return std::string(room).append(gap).append(more);
}
/// A title that is too wide loses its beginning: names of metrics differ at their ends.
FULGURITE_COLD std::string title_within(std::string_view title, std::size_t columns, Glyphs glyphs) {
  std::string_view const dots = glyphs == Glyphs::ascii ? "..." : "…";
  std::size_t const all = display_width(title), marked = display_width(dots);
  if (all <= columns || columns <= marked) return std::string(title);
  return std::string(dots).append(title.substr(clipped(title, all - (columns - marked)).size()));
}

/// Plots side by side: as many as their width lets in, in as many rows as the height lets in.
FULGURITE_COLD std::vector<std::string> plots_of(std::vector<Plot> plots, std::size_t width, std::size_t height,
                                                 Glyphs glyphs) {
  std::vector<std::string> lines;
  if (plots.empty() || height < lowest) return lines;
  std::size_t const across = std::clamp<std::size_t>(width / narrowest, 1, plots.size());
  std::size_t const rows = std::min((plots.size() + across - 1) / across, height / lowest);
  std::size_t const wide = (width - (across - 1)) / across, high = std::min(height / rows, highest);
  for (std::size_t row = 0; row != rows; ++row) {
    std::vector<std::vector<std::string>> beside;
    for (std::size_t i = row * across; i != std::min(plots.size(), (row + 1) * across); ++i) {
      auto& plot = plots[i];
      std::size_t labels = 0;
      if (plot.curves.size() == 1) plot.curves[0].label.clear();
      plot.title = title_within(plot.title, wide, glyphs);
      for (auto const& curve : plot.curves) labels += !curve.label.empty();
      plot.x.name.clear();
      auto const most = [](std::size_t n) { return static_cast<int>(n); };
      beside.push_back(lines_of(plot.text(most(wide), most(high > labels + 5 ? high - labels : 5), glyphs)));
      beside.back().resize(std::max(high, beside.back().size()));
    }
    for (std::size_t line = 0; line != high; ++line) {
      std::string text;
      for (auto const& plot : beside) {
        if (&plot != beside.data()) text += ' ';
        text += filled(plot[line], wide);
      }
      while (text.ends_with(' ')) text.pop_back();
      lines.push_back(std::move(text));
    }
  }
  return lines;
}

}  // namespace dashboard

/// The lines of a frame, none wider than `width`, no more than `height` of them where that is 5 at least. A curve alone
/// in its plot has its name as the plot's title.
FULGURITE_COLD std::vector<std::string> frame_lines(DashboardFrame const& frame, std::size_t width, std::size_t height,
                                                    Glyphs glyphs) {
  auto plots = panels(frame.curves);
  for (auto& plot : plots)
    if (plot.curves.size() == 1) plot.title = plot.curves[0].label;
  std::size_t const others = 1 + frame.bars.size() + frame.facts.size();
  std::vector<std::string> lines{std::string(clipped(frame.head, width))};
  for (auto& line : dashboard::plots_of(std::move(plots), width, height > others ? height - others : 0, glyphs))
    lines.push_back(std::move(line));
  for (auto const& line : frame.bars) lines.emplace_back(clipped(line, width));
  for (auto const& line : frame.facts) lines.push_back(dashboard::facts_within(line, width));
  return lines;
}

}  // namespace fulgurite::report
