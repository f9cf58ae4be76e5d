#pragma once
// What a search for a learning rate has found, in numbers and as a picture.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/tuner/rate_curve.hpp>

namespace fulgurite::tune {

/// `lr` and `loss`, a point for each step, and the rate that they suggest. Several groups of parameters keep the ratio
/// of their rates: `lr` is that of the first one.
///   auto const found = tune::lr_find(trainer, net, loader, {});
///   std::cout << found.text();                // for a terminal
///   found.plot("lr.svg"), found.save("lr.csv");
class FoundRate : public RateCurve {
 public:
  /// Nothing, and why, where there were too few points: then no rate was changed.
  Suggestion suggested = {};
  bool by_factors = true;  ///< the rates rose by factors, so their axis is logarithmic

  /// The averaged loss over the rate, the losses themselves behind it, and the point that is suggested. Averages are
  /// drawn with their whole correction, so that the first one is the first loss; those of `loss` begin at half of it,
  /// as Lightning's do.
  report::Plot plot() const {
    auto const average = drawn_average();
    auto behind = raw;
    double const most = highest_drawn(average);
    for (double& one : behind)
      if (one > most) one = std::numeric_limits<double>::infinity();
    report::Plot plot{.title = "Learning rate",
                      .x = {.name = "learning rate", .scale = by_factors ? report::Scale::log : report::Scale::linear},
                      .y = {.name = "loss"},
                      .curves = {{.label = "loss, averaged", .x = lr, .y = average},
                                 {.label = "loss", .x = lr, .y = behind, .faint = true}}};
    if (suggested)
      plot.marks.push_back({.x = *suggested, .y = average[suggested.point], .label = "suggestion: " + rate()});
    return plot;
  }
  /// Into a file that ends in .svg or .txt.
  void plot(std::filesystem::path const& file) const { plot().save(file); }
  /// The plot in characters, and below it what is suggested, or why nothing is.
  std::string text() const {
    std::string all = lr.empty() ? std::string() : plot().text();
    all += suggested ? "suggested learning rate: " + rate() : "no learning rate is suggested: " + suggested.why;
    return all += '\n';
  }

 private:
  std::vector<double> drawn_average() const {
    auto all = loss;
    double weight = 1;  // 0.98^t after t averaged steps
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (std::isnan(loss[i]) && std::isnan(raw[i])) continue;  // a step without a loss
      weight *= average_weight;
      all[i] *= (1 - weight * average_weight) / (1 - weight);
    }
    return all;
  }
  /// All losses up to the lowest average are drawn, and of those that diverge after it as many as leave the averages
  /// half of the picture.
  double highest_drawn(std::vector<double> const& average) const {
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    std::size_t bottom = 0;
    for (std::size_t i = 0; i != average.size(); ++i) {
      if (!std::isfinite(average[i])) continue;
      if (average[i] < lowest) lowest = average[i], bottom = i;
      highest = std::max(highest, average[i]);
    }
    double most = lowest + 2 * (highest - lowest);
    for (std::size_t i = 0; i < bottom; ++i) most = std::isfinite(raw[i]) ? std::max(most, raw[i]) : most;
    return most;
  }
  std::string rate() const { return report::formatted("%.4g", *suggested); }
};

}  // namespace fulgurite::tune
