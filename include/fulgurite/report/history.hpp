#pragma once
// What a run has logged, as curves: kept short however long the run is.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

/// Curves by name, in the order in which their first values came. A curve that has `most` points is thinned: two
/// neighbours become their mean, and from then on so many values one point.
class History {
 public:
  explicit History(std::size_t most = 2000) : most_(most) {}

  FULGURITE_BULK void add(std::string_view name, double x, double y) {
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

  /// A curve of each name, with the values that have not become a point yet as its last one.
  FULGURITE_BULK std::vector<Curve> curves() const {
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
  bool empty() const { return series_.empty(); }
  void clear() { series_.clear(); }

  void state(auto& archive) {
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

 private:
  struct Point {
    double x = 0, y = 0;
  };
  struct Series {
    std::string name{};
    std::vector<double> x{}, y{};
    std::size_t each = 1;          ///< values a point
    std::vector<Point> waiting{};  ///< for their point
  };

  FULGURITE_BULK static Point mean_of(std::vector<Point> const& points) {
    Point sum;
    for (auto const& point : points) {
      sum.x += point.x / static_cast<double>(points.size());
      sum.y += point.y / static_cast<double>(points.size());
    }
    return points.size() == 1 ? points.front() : sum;
  }
  FULGURITE_BULK static void thin(Series& series) {
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
  FULGURITE_BULK void load(std::vector<std::string> const& names, std::vector<std::size_t> const& each,
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

  std::size_t most_;
  std::vector<Series> series_{};
};

}  // namespace fulgurite::report
