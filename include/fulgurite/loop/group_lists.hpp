#pragma once
// The rates and the momenta of an optimizer's groups, as lists.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite::loop {

template <class O>
std::vector<double> rates_of(O const& optimizer) {
  std::vector<double> all;
  for (std::size_t g = 0; g != optimizer.groups(); ++g) all.push_back(optimizer.lr(g));
  return all;
}
/// Groups that were added to the optimizer later have no rate in the list, or are not there yet.
template <class O>
void set_rates(O& optimizer, std::vector<double> const& to) {
  for (std::size_t g = 0; g != std::min(to.size(), optimizer.groups()); ++g) optimizer.set_lr(g, to[g]);
}

/// 0 where a group has none.
template <class O>
std::vector<double> momenta_of(O const& optimizer) {
  std::vector<double> all;
  for (std::size_t g = 0; g != optimizer.groups(); ++g)
    all.push_back(std::optional<double>(optimizer.momentum(g)).value_or(0.0));
  return all;
}
/// Error [fulgurite.schedule.zero_momentum] for a schedule that moves the momentum of an optimizer that was made
/// without: it keeps no state for one, and would get one that nobody gave it.
template <class S, class O>
void check_momentum(S const& schedule, O const& optimizer) {
  if constexpr (requires { schedule.moves_momentum(); })
    if (!schedule.moves_momentum()) return;
  auto const momenta = momenta_of(optimizer);
  auto const none = std::find(momenta.begin(), momenta.end(), 0.0);
  if (none == momenta.end()) return;
  throw Error("fulgurite.schedule.zero_momentum", "a schedule moves the momentum, and that of parameter group " +
                                                      std::to_string(none - momenta.begin()) +
                                                      " is 0: give the optimizer a "
                                                      "momentum, or say .cycle_momentum = false");
}

}  // namespace fulgurite::loop
