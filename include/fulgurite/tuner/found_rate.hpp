#pragma once
// What a search for a learning rate has found, in numbers and as a picture.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

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

  /// The averaged loss over the rate, the losses themselves behind it, and the point that is suggested.
  report::Plot plot() const {
    auto behind = raw;  // those that diverge would leave the averages no room
    double highest = 0;
    for (double const one : loss) highest = std::isfinite(one) ? std::max(highest, one) : highest;
    for (double& one : behind)
      if (one > highest) one = std::numeric_limits<double>::infinity();
    report::Plot plot{.title = "Learning rate",
                      .x = {.name = "learning rate", .scale = by_factors ? report::Scale::log : report::Scale::linear},
                      .y = {.name = "loss"},
                      .curves = {{.label = "loss, averaged", .x = lr, .y = loss},
                                 {.label = "loss", .x = lr, .y = behind, .faint = true}}};
    if (suggested)
      plot.marks.push_back({.x = *suggested, .y = loss[suggested.point], .label = "suggestion: " + rate()});
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
  std::string rate() const { return report::formatted("%.4g", *suggested); }
};

}  // namespace fulgurite::tune
