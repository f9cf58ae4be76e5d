#pragma once
// The best value of a metric's curve, and which end of it is good.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

/// Of metrics that count mistakes the smallest value is best. Words of a name stand between '/', '.', '_' and '-':
/// "answers" has no "wer" in it.
FULGURITE_COLD bool smaller_is_better(std::string_view name) {
  constexpr std::array<std::string_view, 8> mistakes{"loss", "error", "mse", "mae", "rmse", "perplexity", "nll", "wer"};
  while (!name.empty()) {
    auto const word = name.substr(0, name.find_first_of("/._-"));
    if (std::ranges::find(mistakes, word) != mistakes.end()) return true;
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return false;
}

/// The best value of a curve, at which step it was, and the last one.
struct BestValue {
  double value = 0, last = 0;
  double step = 0;
  bool any = false;
};
/// Passes over values that are no numbers. `smaller`: the smallest is best.
FULGURITE_COLD BestValue best_of(Curve const* curve, bool smaller) {
  BestValue best;
  if (!curve) return best;
  for (std::size_t i = 0; i != curve->y.size(); ++i) {
    if (!std::isfinite(curve->y[i])) continue;
    best.last = curve->y[i];
    if (best.any && !(smaller ? curve->y[i] < best.value : curve->y[i] > best.value)) continue;
    best.value = curve->y[i];
    best.step = curve->x[i];
    best.any = true;
  }
  return best;
}

}  // namespace fulgurite::report
