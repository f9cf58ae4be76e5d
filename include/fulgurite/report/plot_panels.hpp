#pragma once
// Many curves as several plots: what belongs together by its name is in one, such as train/loss and val/loss.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/matrices.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

/// What a metric is of, without the data that it was measured on: "loss" of "val/loss", "train_loss" and
/// "train/loss_step". A name that says nothing else stays as it is. Of the parts of a metric it is the metric: "range"
/// of "val/range.min", "f1" of "val/f1.3".
FULGURITE_COLD std::string subject_of(std::string_view name) {
  std::string_view rest = name;
  for (std::string_view const from : {"train", "training", "val", "valid", "validation", "test"})
    if (rest.size() > from.size() + 1 && rest.starts_with(from) &&
        std::string_view("/_-").find(rest[from.size()]) != std::string_view::npos) {
      rest.remove_prefix(from.size() + 1);
      break;
    }
  for (std::string_view const ending : {"_step", "_epoch"})
    if (rest.size() > ending.size() && rest.ends_with(ending)) rest.remove_suffix(ending.size());
  auto const slash = rest.rfind('/');
  auto const own = slash == std::string_view::npos ? 0 : slash + 1;
  if (auto const point = rest.find('.', own); point != std::string_view::npos && point != own)
    rest = rest.substr(0, point);
  return std::string(rest);
}

/// So many curves have each a colour and a dash of their own.
inline constexpr std::size_t most_curves = 12;

/// A plot for each subject, in the order in which they come; a further one where it would have too many curves. The
/// cells of a matrix are left out: nobody can look at a hundred of them.
FULGURITE_COLD std::vector<Plot> panels(std::vector<Curve> curves, Axis const& x = {.name = "step"}) {
  take_matrices(curves);
  std::vector<Plot> all;
  for (auto& curve : curves) {
    auto const subject = subject_of(curve.label);
    auto at = std::ranges::find_if(
        all, [&](Plot const& plot) { return plot.title == subject && plot.curves.size() < most_curves; });
    if (at == all.end()) at = all.insert(all.end(), Plot{.title = subject, .x = x});
    at->curves.push_back(std::move(curve));
  }
  return all;
}

/// The plots side by side, as one SVG file: `columns` in a row.
FULGURITE_COLD std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns = 2) {
  constexpr double width = 720, height = 420, gap = 16, head = 40;
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
    auto picture = plots[i].svg();
    if (auto const from = picture.find("<style>"); from != std::string::npos)  // there is one for all
      picture.erase(from, picture.find("</style>") + 8 - from);
    plot::append(all, "<g transform=\"translate(", gap + static_cast<double>(i % columns) * (width + gap), " ",
                 head + static_cast<double>(i / columns) * (height + gap), ")\">\n", picture, "</g>\n");
  }
  return all += "</svg>\n";
}

}  // namespace fulgurite::report
