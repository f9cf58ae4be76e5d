#pragma once
// What the schedules of one optimizer make of its rates together.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/group_lists.hpp>

namespace fulgurite::loop {

/// The rates of an optimizer's groups as its schedules see them: a rate is the group's base, multiplied by the present
/// factor of each schedule. A base is the initial rate until a schedule that sets rates itself moves it, so that what
/// such a one does outlasts the next move of the others.
struct ComposedRates {
  std::vector<double> initial{};  ///< of each group: what configure_optimizers gave, or a search has found
  std::vector<double> base{};
  std::vector<double> factors{};  ///< of each schedule; 1 for one that sets rates

  /// All starts from the optimizer's present rates, and no schedule has been heard.
  template <class O>
  void begin(O const& optimizer) {
    initial = rates_of(optimizer);
    base = initial;
  }
  bool several() const { return factors.size() > 1; }
  double factor() const {
    double all = 1.0;
    for (double const one : factors) all *= one;
    return all;
  }

  /// The optimizer's rates are those of bases and factors.
  template <class O>
  void set(O& optimizer) const {
    double const all = factor();
    for (std::size_t g = 0; g != base.size(); ++g) optimizer.set_lr(g, base[g] * all);
  }
  /// `move()` is a schedule's that sets rates: the others go on from them. Where a factor of theirs is 0, so is the
  /// rate, which tells nothing: then it is shown the bases, and what it makes of them counts from the next move of the
  /// others on.
  template <class O, class F>
  void let_set(O& optimizer, F&& move) {
    double const all = factor();
    if (!(all > 0)) set_rates(optimizer, base);
    auto const before = rates_of(optimizer);
    move();
    for (std::size_t g = 0; g != base.size(); ++g)
      if (double const after = optimizer.lr(g); after != before[g]) base[g] = all > 0 ? after / all : after;
    if (!(all > 0)) set(optimizer);
  }

  /// The rate that a group started from; for one that came later, which no schedule moves, as if it had been moved like
  /// the first.
  template <class O>
  double initial_of(O const& optimizer, std::size_t group) const {
    return group < initial.size() ? initial[group] : optimizer.lr(group) / moved(optimizer);
  }
  /// Each group starts from another rate, with the moves that were made.
  template <class O>
  void begin_from(O& optimizer, std::span<double const> rates) {
    auto const known = std::min(initial.size(), rates.size());
    std::copy_n(rates.begin(), known, initial.begin());
    std::copy_n(rates.begin(), known, base.begin());
    set(optimizer);
    double const ratio = moved(optimizer);
    for (std::size_t g = known; g < rates.size(); ++g) optimizer.set_lr(g, rates[g] * ratio);
  }

  /// Loaded from a file of one schedule, which holds no bases. Groups that came later have a rate and no base.
  void take_bases(std::vector<double> const& rates) {
    auto const known = std::min(rates.size(), initial.size());
    base.assign(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(known));
  }
  /// Error where what was loaded is not of an optimizer of so many groups.
  void check_groups(std::size_t groups) const {
    auto const known = initial.size();
    if (base.size() != known)
      throw Error("fulgurite.schedule.base", "the checkpoint's schedules start " + std::to_string(known) +
                                                 " parameter groups and move " + std::to_string(base.size()) +
                                                 ": the file is damaged, take an earlier one");
    if (known > groups)
      throw Error("fulgurite.schedule.groups", "the checkpoint's schedule moves " + std::to_string(known) +
                                                   " parameter groups, the optimizer has " + std::to_string(groups) +
                                                   ": resume with the same configure_optimizers");
  }

 private:
  /// What has become of the first group's rate since it started; 1 where that is no factor, as at the foot of a warmup.
  template <class O>
  double moved(O const& optimizer) const {
    double const from = initial.empty() ? 0 : initial.front();
    double const ratio = from > 0 ? optimizer.lr(0) / from : 1;
    return ratio > 0 ? ratio : 1;
  }
};

}  // namespace fulgurite::loop
