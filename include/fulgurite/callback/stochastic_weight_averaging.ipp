#pragma once
// The bodies of callback/stochastic_weight_averaging.hpp.

#include <cmath>
#include <numbers>

#include <fulgurite/callback/stochastic_weight_averaging.hpp>

namespace fulgurite {

FULGURITE_BODY double annealed(Annealing how, double from, double to, double done) {
  double const share = how == Annealing::linear ? done : 0.5 * (1.0 - std::cos(std::numbers::pi * done));
  return to * share + from * (1.0 - share);
}

}  // namespace fulgurite
