#pragma once
// The bodies of loop/scheduler.hpp.

#include <algorithm>
#include <cmath>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/scheduler.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void RateGroups::set_lr(std::size_t group, double to) const {
  calls_->set_lr(optimizer_, group, to);
}

FULGURITE_BULK_BODY void RateGroups::set_momentum(std::size_t group, double to) const {
  calls_->set_momentum(optimizer_, group, to);
}

FULGURITE_BULK_BODY std::vector<double> RateGroups::rates() const {
  std::vector<double> all;
  for (std::size_t g = 0; g != size(); ++g) all.push_back(lr(g));
  return all;
}

FULGURITE_BULK_BODY void RateGroups::set_rates(std::vector<double> const& to) const {
  for (std::size_t g = 0; g != std::min(to.size(), size()); ++g) set_lr(g, to[g]);
}

FULGURITE_BULK_BODY std::vector<double> RateGroups::momenta() const {
  std::vector<double> all;
  for (std::size_t g = 0; g != size(); ++g) all.push_back(momentum(g).value_or(0.0));
  return all;
}

FULGURITE_BODY void RateGroups::check_momentum() const {
  auto const all = momenta();
  auto const none = std::find(all.begin(), all.end(), 0.0);
  if (none == all.end()) return;
  throw Error("fulgurite.schedule.zero_momentum", "a schedule moves the momentum, and that of parameter group " +
                                                      std::to_string(none - all.begin()) +
                                                      " is 0: give the optimizer a "
                                                      "momentum, or say .cycle_momentum = false");
}

FULGURITE_BODY std::shared_ptr<ComposedRates> no_rates_yet() { return std::make_shared<ComposedRates>(); }

FULGURITE_BODY void ComposedRates::begin(RateGroups optimizer) {
  given = given_first = initial = base = optimizer.rates();
  if (optimizer.has_momentum()) given_momenta = optimizer.momenta();
}

FULGURITE_BULK_BODY double ComposedRates::factor() const {
  double all = 1.0;
  for (double const one : factors) all *= one;
  return all;
}

FULGURITE_BULK_BODY void ComposedRates::let_set(RateGroups optimizer, FunctionRef<void()> move) {
  double const all = factor();
  if (!(all > 0)) optimizer.set_rates(base);
  auto const before = optimizer.rates();
  move();
  for (std::size_t g = 0; g != base.size(); ++g)
    if (double const after = optimizer.lr(g); after != before[g]) base[g] = all > 0 ? after / all : after;
  if (!(all > 0)) set(optimizer);
}

FULGURITE_BULK_BODY double ComposedRates::initial_of(RateGroups optimizer, std::size_t group) const {
  return group < initial.size() ? initial[group] : optimizer.lr(group) / moved(optimizer);
}

FULGURITE_BODY void ComposedRates::begin_from(RateGroups optimizer, std::span<double const> rates) {
  auto const known = std::min(initial.size(), rates.size());
  std::copy_n(rates.begin(), known, initial.begin());
  std::copy_n(rates.begin(), known, base.begin());
  set(optimizer);
  double const ratio = moved(optimizer);
  for (std::size_t g = known; g < rates.size(); ++g) optimizer.set_lr(g, rates[g] * ratio);
}

template <class Archive>
void ComposedRates::state(RateGroups optimizer, Archive& archive) {
  Saved all{given_first, initial, base, factors, optimizer.rates()};
  if (optimizer.has_momentum()) all.momenta = {given_momenta, optimizer.momenta(), momentum};
  auto const each_option = [&](std::string const& name, std::vector<double> const& of) {
    for (std::size_t g = 0; g != of.size(); ++g)
      archive.option(g == 0 ? name : name + " of group " + std::to_string(g), of[g]);
  };
  archive("given", all.given)("initial", all.initial)("base", all.base)("factors", all.factors)("rates", all.rates);
  // A search has written its rate into the model, which gives it to the optimizer now, rounded to a float or multiplied
  // for a further group: it is no other than the run's. Where this is known already, a later search may have moved it.
  if constexpr (Archive::loading)
    for (std::size_t g = 0; g != given.size(); ++g) {
      bool const is_known = g < std::min(all.given.size(), all.initial.size());
      if (is_known && given_first[g] == all.given[g]) continue;
      bool const searched = is_known && all.initial[g] != all.given[g] &&
                            std::abs(given[g] - all.initial[g]) <= 1e-6 * std::abs(all.initial[g]);
      given_first[g] = searched ? all.given[g] : given[g];
    }
  each_option("lr", given_first);
  if (optimizer.has_momentum()) {
    each_option("momentum", given_momenta);
    archive("given_momenta", all.momenta.given)("momenta", all.momenta.now);
    archive("scheduled_momentum", all.momenta.scheduled)("momentum_by", momentum_by);
  }
  if constexpr (Archive::loading) take(std::move(all), optimizer.size());
}
FULGURITE_FOLD(INSTANTIATE, ComposedRates::state, RateGroups);

template <class Archive>
void fold_rates(std::span<OptimizerRates const> all, Archive& archive) {
  archive.child("rates", [&](Archive& inner) {
    for (std::size_t i = 0; i != all.size(); ++i)
      inner.child(std::to_string(i), [&](Archive& one) { all[i].composed->state(all[i].optimizer, one); });
  });
}
FULGURITE_FOLD(INSTANTIATE, fold_rates, std::span<OptimizerRates const>);

FULGURITE_BODY void ComposedRates::settle(RateGroups optimizer) {
  auto const saved = std::exchange(saved_, std::nullopt);
  if (!saved) return;
  double const all = factor();
  for (std::size_t g = 0; g != std::min(saved->rates.size(), optimizer.size()); ++g) {
    bool const same = g >= base.size() || retired ||
                      (saved->factors == factors && saved->given[g] == given_first[g] && saved->base[g] == base[g]);
    optimizer.set_lr(g, same ? saved->rates[g] : base[g] * all);
  }
  if (!optimizer.has_momentum()) return;
  for (std::size_t g = 0; g != std::min(saved->momenta.now.size(), optimizer.size()); ++g) {
    bool const is_known = g < given_momenta.size();
    bool const same =
        !is_known || (saved->momenta.scheduled == momentum && saved->momenta.given[g] == given_momenta[g]);
    double const to = same ? saved->momenta.now[g] : momentum.value_or(given_momenta[g]);
    if (optimizer.momentum(g).value_or(to) != to) optimizer.set_momentum(g, to);
  }
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
    bool const same = all.given[g] == given_first[g];
    bool const moved = all.base[g] != all.initial[g] && all.initial[g] > 0;
    initial[g] = same ? all.initial[g] : given[g];
    base[g] = same ? all.base[g] : moved ? given[g] * (all.base[g] / all.initial[g]) : given[g];
  }
  retired = false;
  saved_ = std::move(all);
}

FULGURITE_BULK_BODY double ComposedRates::moved(RateGroups optimizer) const {
  double const from = initial.empty() ? 0 : initial.front();
  double const ratio = from > 0 ? optimizer.lr(0) / from : 1;
  return ratio > 0 ? ratio : 1;
}

FULGURITE_BODY void check_frequency(long frequency) {
  if (frequency < 1)
    throw Error("fulgurite.options.frequency",
                "a schedule's frequency = " + std::to_string(frequency) + ": it moves every 1 or more steps or epochs");
}

/// Checks that the schedules of checkpoint and program are of the same kind.
FULGURITE_BODY void check_schedule_kind(std::string_view saved, std::string_view own) {
  if (saved != own)
    throw Error("fulgurite.schedule.kind",
                "the checkpoint's schedule is " + std::string(saved) + ", and the program's is " + std::string(own) +
                    ": resume with the same configure_optimizers, or begin a new run with the weights, "
                    "load_weights(model, file)");
}

template <class Archive>
void ScheduleProgress::state(std::string_view kind, bool observes, ScheduleOptions const& options, Archive& archive) {
  std::string saved(kind);
  archive("kind", saved);
  if constexpr (Archive::loading) check_schedule_kind(saved, kind);
  archive("moves", moves)("retired", retired);
  if (observes) archive("logged", logged);
  archive.option("interval", std::string(options.interval == Interval::step ? "step" : "epoch"));
  archive.option("frequency", options.frequency);
}
FULGURITE_FOLD(INSTANTIATE, ScheduleProgress::state, std::string_view, bool, ScheduleOptions const&);

FULGURITE_BODY std::string schedule_key(std::span<std::size_t const> first, std::size_t scheduler) {
  auto const after = std::upper_bound(first.begin(), first.end(), scheduler);
  auto key = std::to_string(after - first.begin() - 1);
  if (scheduler != after[-1]) key += " #" + std::to_string(scheduler - after[-1] + 1);
  return key;
}

FULGURITE_BODY std::vector<std::string> schedule_names(std::span<std::size_t const> first,
                                                       std::initializer_list<std::string_view> kinds) {
  std::vector<std::string> names;
  std::size_t scheduler = 0;
  for (auto const kind : kinds) {
    auto key = schedule_key(first, scheduler++);
    if (!kind.empty()) names.push_back((key += ' ') += kind);
  }
  return names;
}

}  // namespace fulgurite::loop

namespace fulgurite {

FULGURITE_BODY LearningRates::LearningRates(std::span<loop::OptimizerRates const> all) : all_(all.begin(), all.end()) {}

FULGURITE_BODY std::vector<double> LearningRates::now() const {
  std::vector<double> all;
  for (auto const& [optimizer, composed] : all_)
    for (std::size_t g = 0; g != optimizer.size(); ++g) all.push_back(optimizer.lr(g));
  return all;
}

FULGURITE_BODY std::vector<double> LearningRates::initial() const {
  std::vector<double> all;
  for (auto const& [optimizer, composed] : all_)
    for (std::size_t g = 0; g != optimizer.size(); ++g) all.push_back(composed->initial_of(optimizer, g));
  return all;
}

FULGURITE_BODY void LearningRates::set(std::span<double const> rates) {
  check(rates);
  for (auto at = rates.begin(); auto const& [optimizer, composed] : all_)
    for (std::size_t g = 0; g != optimizer.size(); ++g) optimizer.set_lr(g, *at++);
}

FULGURITE_BODY void LearningRates::begin_from(std::span<double const> rates) {
  check(rates);
  for (auto const& [optimizer, composed] : all_) {
    composed->begin_from(optimizer, rates.first(optimizer.size()));
    rates = rates.subspan(optimizer.size());
  }
}

FULGURITE_BODY void LearningRates::check(std::span<double const> rates) const {
  if (auto const groups = now().size(); rates.size() != groups)
    throw Error("fulgurite.tuner.rates", std::to_string(rates.size()) + " rates were given to " +
                                             std::to_string(groups) +
                                             " parameter groups: a plan sets one for each, as rates().now() lists them "
                                             "(more where a callback has added groups, none in an evaluation)");
}

}  // namespace fulgurite
