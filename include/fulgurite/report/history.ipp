#pragma once
// The bodies of report/history.hpp.

#include <algorithm>
#include <charconv>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

FULGURITE_BULK_BODY void History::add(std::string_view name, double x, double y) {
  auto at = std::ranges::find(series_, name, &Series::name);
  if (at == series_.end()) at = series_.insert(series_.end(), Series{.name = std::string(name)});
  at->waiting.push_back({x, y});
  if (at->waiting.size() < at->each) return;
  auto const mean = mean_of(at->waiting);
  at->waiting.clear();
  at->x.push_back(mean.x);
  at->y.push_back(mean.y);
  if (at->x.size() >= most_) thin(*at);
}

FULGURITE_BULK_BODY std::vector<Curve> History::curves() const {
  std::vector<Curve> all;
  for (auto const& series : series_) {
    all.push_back({.label = series.name, .x = series.x, .y = series.y});
    if (series.waiting.empty()) continue;
    auto const mean = mean_of(series.waiting);
    all.back().x.push_back(mean.x);
    all.back().y.push_back(mean.y);
  }
  return all;
}

FULGURITE_BULK_BODY History::Point History::mean_of(std::vector<Point> const& points) {
  Point sum;
  for (auto const& point : points) {
    sum.x += point.x / static_cast<double>(points.size());
    sum.y += point.y / static_cast<double>(points.size());
  }
  return points.size() == 1 ? points.front() : sum;
}

FULGURITE_BULK_BODY void History::thin(Series& series) {
  std::size_t const half = series.x.size() / 2;
  for (std::size_t i = 0; i != half; ++i) {
    auto const mean = mean_of({{series.x[2 * i], series.y[2 * i]}, {series.x[2 * i + 1], series.y[2 * i + 1]}});
    series.x[i] = mean.x;
    series.y[i] = mean.y;
  }
  if (series.x.size() % 2 == 1)
    for (std::size_t i = 0; i != series.each; ++i) series.waiting.push_back({series.x.back(), series.y.back()});
  series.x.resize(half);
  series.y.resize(half);
  series.each *= 2;
}

FULGURITE_BULK_BODY void History::load(std::vector<std::string> const& names, std::vector<std::size_t> const& each,
                                       std::vector<std::size_t> const& points, std::vector<std::size_t> const& waiting,
                                       std::vector<double> const& values) {
  series_.clear();
  std::size_t at = 0;
  auto const next = [&] { return at < values.size() ? values[at++] : 0; };
  for (std::size_t i = 0; i != std::min({names.size(), each.size(), points.size(), waiting.size()}); ++i) {
    Series series{.name = names[i], .each = each[i]};
    for (std::size_t k = 0; k != points[i] && at < values.size(); ++k) {
      series.x.push_back(next());
      series.y.push_back(next());
    }
    for (std::size_t k = 0; k != waiting[i] && at < values.size(); ++k) {
      double const x = next();
      series.waiting.push_back({x, next()});
    }
    series_.push_back(std::move(series));
  }
}

}  // namespace fulgurite::report

namespace fulgurite::report::matrices {

FULGURITE_BODY std::optional<std::size_t> take_number(std::string_view& name) {
  auto const point = name.rfind('.');
  if (point == std::string_view::npos || point == 0) return std::nullopt;
  auto const digits = name.substr(point + 1);
  if (digits.size() > 6) return std::nullopt;  // no matrix has so many rows, and this bounds the number of cells
  std::size_t number = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || digits != std::to_string(number))
    return std::nullopt;
  name = name.substr(0, point);
  return number;
}

FULGURITE_BODY std::optional<Cell> cell_of(std::string_view label) {
  for (auto const end : {label.size(), label.rfind('/')}) {
    if (end == std::string_view::npos) continue;
    auto name = label.substr(0, end);
    auto const column = take_number(name), row = column ? take_number(name) : std::nullopt;
    if (row) return Cell{std::string(name).append(label.substr(end)), *row, *column};
  }
  return std::nullopt;
}

}  // namespace fulgurite::report::matrices

namespace fulgurite::report {

FULGURITE_BODY std::vector<Matrix> take_matrices(std::vector<Curve>& curves) {
  std::vector<std::optional<matrices::Cell>> cells;
  std::vector<Matrix> all;
  for (auto const& curve : curves) {
    cells.push_back(matrices::cell_of(curve.label));
    if (!cells.back()) continue;
    auto at = std::ranges::find(all, cells.back()->name, &Matrix::name);
    if (at == all.end()) at = all.insert(all.end(), Matrix{.name = cells.back()->name});
    at->size = std::max({at->size, cells.back()->row + 1, cells.back()->column + 1});
    at->cells.emplace_back();  // as many as there are
  }
  // The size is compared first: a single name with a large number in it does not make a square.
  std::erase_if(all, [](Matrix const& one) {
    return one.size < 2 || one.size > one.cells.size() || one.size * one.size != one.cells.size();
  });
  std::vector<Curve> rest;
  for (std::size_t i = 0; i != curves.size(); ++i) {
    auto const at = cells[i] ? std::ranges::find(all, cells[i]->name, &Matrix::name) : all.end();
    if (at == all.end()) rest.push_back(std::move(curves[i]));
    else at->cells[cells[i]->row * at->size + cells[i]->column] = std::move(curves[i]);
  }
  curves = std::move(rest);
  return all;
}

FULGURITE_BODY std::string subject_of(std::string_view name) {
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

FULGURITE_BODY std::vector<Plot> panels(std::vector<Curve> curves, Axis const& x) {
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

FULGURITE_BODY std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns) {
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
    if (auto const from = picture.find("<style>"); from != std::string::npos)  // one style for all
      picture.erase(from, picture.find("</style>") + 8 - from);
    plot::append(all, "<g transform=\"translate(", gap + static_cast<double>(i % columns) * (width + gap), " ",
                 head + static_cast<double>(i / columns) * (height + gap), ")\">\n", picture, "</g>\n");
  }
  return all += "</svg>\n";
}

void History::state(auto& archive) {
  std::vector<std::string> names;
  std::vector<std::size_t> each, points, waiting;
  std::vector<double> values;
  auto const put = [&](double x, double y) { values.insert(values.end(), {x, y}); };
  for (auto const& series : series_) {
    names.push_back(series.name);
    each.push_back(series.each);
    points.push_back(series.x.size());
    waiting.push_back(series.waiting.size());
    for (std::size_t i = 0; i != series.x.size(); ++i) put(series.x[i], series.y[i]);
    for (auto const& [x, y] : series.waiting) put(x, y);
  }
  archive("names", names)("each", each)("points", points)("waiting", waiting)("values", values);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) load(names, each, points, waiting, values);
}
FULGURITE_STATE(History)

}  // namespace fulgurite::report
