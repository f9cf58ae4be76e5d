#pragma once
// What the schedules of one optimizer make of its rates together.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/group_lists.hpp>
#include <fulgurite/loop/scheduled.hpp>

namespace fulgurite::loop {

/// The rates of an optimizer's groups as its schedules see them: a rate is the group's base, multiplied by the present
/// factor of each schedule. A base is the initial rate until a schedule that sets rates itself moves it, so that what
/// such a one does outlasts the next move of the others.
struct ComposedRates {
  std::vector<double> given{};    ///< of each group: what configure_optimizers gave
  std::vector<double> initial{};  ///< the same, or what a search has found
  std::vector<double> base{};
  std::vector<double> factors{};                  ///< of each schedule; 1 for one that sets rates
  bool retired = false;                           ///< somebody else sets the rates
  std::vector<double> given_momenta{};            ///< of each group
  std::optional<double> momentum = std::nullopt;  ///< what schedules have set last
  std::size_t momentum_by = 0;                    ///< which of them did

  /// All starts from the optimizer's present rates, and no schedule has been heard.
  template <class O>
  void begin(O const& optimizer) {
    given = initial = base = rates_of(optimizer);
    if constexpr (HasMomentum<O>) given_momenta = momenta_of(optimizer);
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

  /// Saves or loads all of it, with the optimizer's present rates and momenta. Loading, `settle` follows when the
  /// schedules are loaded, too.
  template <class O, class Archive>
  void state(O& optimizer, Archive& archive) {
    Saved all{given, initial, base, factors, rates_of(optimizer)};
    each_option(archive, "lr", given);
    archive("given", all.given)("initial", all.initial)("base", all.base)("factors", all.factors)("rates", all.rates);
    if constexpr (HasMomentum<O>) {
      all.momenta = {given_momenta, momenta_of(optimizer), momentum};
      each_option(archive, "momentum", given_momenta);
      archive("given_momenta", all.momenta.given)("momenta", all.momenta.now)(
          "scheduled_momentum", all.momenta.scheduled)("momentum_by", momentum_by);
    }
    if constexpr (Archive::loading) take(std::move(all), optimizer.groups());
  }
  /// A group has the rate that was saved, whoever has set it, where the program gives it the same rate as before and
  /// the same factors; else the rate is computed from those of the program. So it is with the momentum.
  template <class O>
  void settle(O& optimizer) {
    auto const saved = std::exchange(saved_, std::nullopt);
    if (!saved) return;
    double const all = factor();
    for (std::size_t g = 0; g != std::min(saved->rates.size(), optimizer.groups()); ++g) {
      bool const same = g >= base.size() || retired ||
                        (saved->factors == factors && saved->given[g] == given[g] && saved->base[g] == base[g]);
      optimizer.set_lr(g, same ? saved->rates[g] : base[g] * all);
    }
    if constexpr (HasMomentum<O>)
      for (std::size_t g = 0; g != std::min(saved->momenta.now.size(), optimizer.groups()); ++g) {
        bool const is_known = g < given_momenta.size();
        bool const same =
            !is_known || (saved->momenta.scheduled == momentum && saved->momenta.given[g] == given_momenta[g]);
        double const to = same ? saved->momenta.now[g] : momentum.value_or(given_momenta[g]);
        if (std::optional<double>(optimizer.momentum(g)).value_or(to) != to) optimizer.set_momentum(g, to);
      }
  }

 private:
  struct SavedMomenta {
    std::vector<double> given = {}, now = {};
    std::optional<double> scheduled = std::nullopt;
  };
  struct Saved {
    std::vector<double> given, initial, base, factors, rates;
    SavedMomenta momenta = {};
  };

  template <class Archive>
  static void each_option(Archive& archive, std::string const& name, std::vector<double> const& given) {
    for (std::size_t g = 0; g != given.size(); ++g)
      archive.option(g == 0 ? name : name + " of group " + std::to_string(g), given[g]);
  }
  /// Error where what was loaded is not of an optimizer of so many groups. What has become of a group's base since it
  /// started is state, also where the program lets the group start from another rate.
  FULGURITE_COLD void take(Saved all, std::size_t groups) {
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

  /// What has become of the first group's rate since it started; 1 where that is no factor, as at the foot of a warmup.
  template <class O>
  double moved(O const& optimizer) const {
    double const from = initial.empty() ? 0 : initial.front();
    double const ratio = from > 0 ? optimizer.lr(0) / from : 1;
    return ratio > 0 ? ratio : 1;
  }

  std::optional<Saved> saved_ = std::nullopt;  ///< loaded, and not settled yet
};

}  // namespace fulgurite::loop
