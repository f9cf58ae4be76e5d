#pragma once
// Learning rates that go from where they are to where they stay.

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <utility>
#include <vector>

namespace fulgurite {

/// One learning rate for all parameter groups, or one for each: `0.05`, `{0.05, 0.01}`.
struct GroupRates {
  std::vector<double> values;
  GroupRates(double all) : values{all} {}
  GroupRates(std::initializer_list<double> each) : values(each) {}
  GroupRates(std::vector<double> each) : values(std::move(each)) {}
};

/// How the learning rate comes down (or up) to its last value.
enum class Annealing : std::uint8_t { cos, linear };

/// The rate when a part `done` of the way, from 0 to 1, is behind it.
inline double annealed(Annealing how, double from, double to, double done) {
  double const share = how == Annealing::linear ? done : 0.5 * (1.0 - std::cos(std::numbers::pi * done));
  return to * share + from * (1.0 - share);
}

}  // namespace fulgurite
