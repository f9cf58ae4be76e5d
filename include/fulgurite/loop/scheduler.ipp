#pragma once
// The bodies of loop/scheduler.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/scheduler.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY double ComposedRates::factor() const {
  double all = 1.0;
  for (double const one : factors) all *= one;
  return all;
}

FULGURITE_BODY void ComposedRates::take(Saved all, std::size_t groups) {
  auto const known = given.size();
  if (all.initial.size() != all.given.size() || all.base.size() != all.given.size() ||
      all.momenta.given.size() != given_momenta.size() * (all.given.size() == known ? 1 : 0))
    throw Error("fulgurite.schedule.base", "the checkpoint's schedules start " + std::to_string(all.initial.size()) +
                                               " parameter groups and move " + std::to_string(all.base.size()) +
                                               ": the file is damaged, take an earlier one");
  if (all.given.size() != known)
    throw Error("fulgurite.schedule.groups", "the checkpoint's schedule moves " + std::to_string(all.given.size()) +
                                                 " parameter groups, the optimizer has " + std::to_string(groups) +
                                                 ": resume with the same configure_optimizers");
  for (std::size_t g = 0; g != known; ++g) {
    bool const same = all.given[g] == given[g];
    bool const moved = all.base[g] != all.initial[g] && all.initial[g] > 0;
    initial[g] = same ? all.initial[g] : given[g];
    base[g] = same ? all.base[g] : moved ? given[g] * (all.base[g] / all.initial[g]) : given[g];
  }
  retired = false;
  saved_ = std::move(all);
}

FULGURITE_INSTANTIATE(void ComposedRates::fold(Saved&, bool, StateSaver&));
FULGURITE_INSTANTIATE(void ComposedRates::fold(Saved&, bool, StateLoader&));

}  // namespace fulgurite::loop
