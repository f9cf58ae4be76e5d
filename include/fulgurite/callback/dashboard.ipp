#pragma once
// The bodies of callback/dashboard.hpp.

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::report::dashboard {

FULGURITE_BODY std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto const end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

FULGURITE_BODY std::string filled(std::string_view line, std::size_t columns) {
  std::string text(clipped(line, columns));
  text.append(columns - display_width(text), ' ');
  return text;
}

FULGURITE_BODY std::string facts_within(std::string_view facts, std::size_t columns) {
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

FULGURITE_BODY std::string title_within(std::string_view title, std::size_t columns, Glyphs glyphs) {
  std::string_view const dots = glyphs == Glyphs::ascii ? "..." : "…";
  std::size_t const all = display_width(title), marked = display_width(dots);
  if (all <= columns || columns <= marked) return std::string(title);
  return std::string(dots).append(title.substr(clipped(title, all - (columns - marked)).size()));
}

FULGURITE_BODY std::vector<std::string> plots_of(std::vector<Plot> plots, std::size_t width, std::size_t height,
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

}  // namespace fulgurite::report::dashboard

namespace fulgurite::report {

FULGURITE_BODY std::vector<std::string> frame_lines(DashboardFrame const& frame, std::size_t width, std::size_t height,
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

namespace fulgurite {

FULGURITE_BODY void ResourcesLine::begin() {
  samples_ = counted_ = 0;
  counted_at_.reset();
  host_.read();
}

FULGURITE_BODY Dashboard::Dashboard(DashboardOptions options)
    : options_(options),
      terminal_(options.terminal.value_or(report::is_terminal(options.stream))),
      glyphs_(options.glyphs.value_or(report::glyphs_of_environment())),
      block_(options.stream, options.redirect),
      bar_(ProgressBarOptions{.stream = options.stream,
                              .ascii = glyphs_ == report::Glyphs::ascii,
                              .columns = options.columns,
                              .terminal = terminal_,
                              .redirect = options.redirect}) {}

FULGURITE_BODY void Dashboard::log_metrics(std::span<Scalar const> row, long step) {
  if (!on_) return;
  for (auto const& one : row)
    if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
}

FULGURITE_BODY void Dashboard::end() {
  train_.reset();
  validation_.reset();
  on_ = false;
}

FULGURITE_BODY bool Dashboard::due(double now) { return redraws_.due(now, options_.seconds_between_redraws); }

FULGURITE_BODY LearningCurves::LearningCurves(LearningCurvesOptions options) : options_(std::move(options)) {
  if (!options_.filename.ends_with(".svg") || options_.filename.find('/') != std::string::npos)
    throw Error("fulgurite.callback.curves_filename",
                "LearningCurves: filename = '" + options_.filename +
                    "' is no name of a picture: it ends in .svg, and its folder is dirpath");
}

FULGURITE_BODY void LearningCurves::log_metrics(std::span<Scalar const> row, long step) {
  for (auto const& one : row)
    if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
  is_new_ = true;
}

void LearningCurves::state(auto& archive) { archive.child("curves", history_); }
FULGURITE_STATE(LearningCurves)

}  // namespace fulgurite
