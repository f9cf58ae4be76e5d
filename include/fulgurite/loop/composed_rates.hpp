#pragma once
// What the schedules of one optimizer make of its rates together.

#include <cstddef>
#include <vector>

namespace fulgurite::loop {

/// The rates of an optimizer's groups as its schedules see them: a rate is the group's base, multiplied by the present
/// factor of each schedule. A base is the initial rate until a schedule that sets rates itself moves it, so that what
/// such a one does outlasts the next move of the others.
struct ComposedRates {
  std::vector<double> initial{};  ///< of each group: what configure_optimizers gave, or a search has found
  std::vector<double> base{};
  std::vector<double> factors{};  ///< of each schedule; 1 for one that sets rates

  /// All starts from these rates, and no schedule has been heard.
  void begin(std::vector<double> rates) {
    base = rates;
    initial = static_cast<std::vector<double>&&>(rates);
  }
  bool several() const { return factors.size() > 1; }
  double factor() const {
    double all = 1.0;
    for (double const one : factors) all *= one;
    return all;
  }
};

}  // namespace fulgurite::loop
