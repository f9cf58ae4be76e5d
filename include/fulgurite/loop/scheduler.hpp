#pragma once
// What moves the learning rates of one optimizer along a schedule.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/scheduled.hpp>

namespace fulgurite {

/// Moves the learning rates of one optimizer along a schedule: each group from its own initial rate, or as the schedule
/// says. A schedule that has a momentum moves that of all groups.
template <class O, class S>
class Scheduler {
 public:
  static constexpr bool exists = !std::is_same_v<S, NoSchedule>;
  static constexpr bool observes = Observer<S>;
  static constexpr bool moves_momentum = MovesMomentum<S> && HasMomentum<O>;

  Scheduler(S from, ScheduleOptions options) : schedule_(std::move(from)), options_(std::move(options)) {
    if (!options_.interval) options_.interval = default_interval();
    if (options_.frequency < 1)
      throw Error("fulgurite.options.frequency", "a schedule's frequency = " + std::to_string(options_.frequency) +
                                                     ": it moves every 1 or more steps or epochs");
  }

  /// Takes the optimizer's present rates as the initial ones and sets the first factor.
  void attach(O& optimizer) {
    optimizer_ = &optimizer;
    initial_ = rates();
    check_momentum();
    if constexpr (requires { schedule_.attach(optimizer); }) schedule_.attach(optimizer);
    apply();
  }

  /// One move.
  void step()
    requires(!observes)
  {
    ++moves_;
    if constexpr (RateSetter<S>) schedule_.move(*optimizer_);
    else apply();
  }
  /// One move of a schedule that watches a metric.
  void step(double value)
    requires observes
  {
    ++moves_;
    schedule_.observe(value, *optimizer_);
  }

  /// Asked by the loops with the count of optimizer steps, or epochs, of the whole run, `before` and `after` what has
  /// just been done: at each `frequency`-th of them it is to move. The count is the run's, so it goes on in a second
  /// fit, whose schedules are new.
  bool due(long before, long after) const {
    return !retired_ && before / options_.frequency != after / options_.frequency;
  }

  /// Never due again: somebody else sets the rates from now on. Saved in a checkpoint.
  void retire() { retired_ = true; }

  /// The rate that a group started from. Of one that was added later, which no schedule moves: that which has to its
  /// present rate the ratio of the first group's.
  double initial(std::size_t group) const {
    return group < initial_.size() ? initial_[group] : optimizer_->lr(group) / moved();
  }
  /// Each group starts from another rate from now on, with the moves that were made. A schedule that sets the rates
  /// itself goes on from these.
  void begin_from(std::span<double const> rates) {
    for (std::size_t g = 0; g != rates.size(); ++g) {
      if (g < initial_.size()) initial_[g] = rates[g];
      optimizer_->set_lr(g, rates[g]);
    }
    apply();
    double const factor = moved();
    for (std::size_t g = initial_.size(); g < rates.size(); ++g) optimizer_->set_lr(g, rates[g] * factor);
  }

  /// What files call the schedule: its type. A function that was written in place has no name.
  static std::string kind() {
    constexpr std::string_view name = type_name<S>();
    return name.empty() || name.find('(') != name.npos ? "a function" : std::string(name);
  }

  Interval interval() const { return *options_.interval; }
  std::string const& name() const { return options_.name; }
  long moves() const { return moves_; }
  O& optimizer() const { return *optimizer_; }
  S& schedule() { return schedule_; }

  /// What to watch, for `ctx.value(metric())`; `strict`: that nobody has logged it is an Error.
  auto metric() const
    requires observes
  {
    return schedule_.metric();
  }
  bool strict() const
    requires observes
  {
    return schedule_.strict();
  }

  /// Loading, the schedule starts from the saved initial rates, and the rates end as they were, bit for bit. Moves of
  /// another kind of schedule mean nothing here.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    auto now = rates();
    auto kind_saved = kind();
    archive("kind", kind_saved);
    if constexpr (loading) check_kind(kind_saved);
    archive("moves", moves_)("retired", retired_)("initial", initial_)("rates", now);
    if constexpr (moves_momentum) {
      auto momenta = momenta_now();
      archive("momenta", momenta);
      if constexpr (loading) set_momenta(momenta);
    }
    if constexpr (loading) {
      check_groups();
      set_rates(initial_);
    }
    if constexpr (requires { schedule_.state(archive); }) archive.child("schedule", schedule_);
    if constexpr (loading) set_rates(now);
  }

 private:
  /// What has become of the first group's rate since it started; 1 where that is no factor, as at the foot of a warmup.
  double moved() const {
    double const from = initial_.empty() ? 0 : initial_.front();
    double const factor = from > 0 ? optimizer_->lr(0) / from : 1;
    return factor > 0 ? factor : 1;
  }

  static constexpr Interval default_interval() {
    if constexpr (FULGURITE_SAYS(S, bool, per_step)) return S::per_step ? Interval::step : Interval::epoch;
    else return Interval::epoch;
  }

  void apply() {
    if constexpr (exists && !RateSetter<S>) {
      double const factor = schedule_(moves_);
      for (std::size_t g = 0; g != initial_.size(); ++g) optimizer_->set_lr(g, initial_[g] * factor);
    }
    if constexpr (moves_momentum)
      if (std::optional<double> const momentum = schedule_.momentum(moves_))
        for (std::size_t g = 0; g != initial_.size(); ++g) optimizer_->set_momentum(g, *momentum);
  }

  /// An optimizer that was made without momentum keeps no state for one, and would get one that nobody gave it.
  void check_momentum() const {
    if constexpr (moves_momentum) {
      if constexpr (requires { schedule_.moves_momentum(); })
        if (!schedule_.moves_momentum()) return;
      for (std::size_t g = 0; g != optimizer_->groups(); ++g)
        if (momentum_of(g) == 0)
          throw Error("fulgurite.schedule.zero_momentum",
                      "a schedule moves the momentum, and that of parameter group " + std::to_string(g) +
                          " is 0: give the optimizer a "
                          "momentum, or say .cycle_momentum = false");
    }
  }
  double momentum_of(std::size_t group) const {
    return std::optional<double>(optimizer_->momentum(group)).value_or(0.0);
  }
  std::vector<double> momenta_now() const {
    std::vector<double> all;
    for (std::size_t g = 0; optimizer_ && g != optimizer_->groups(); ++g) all.push_back(momentum_of(g));
    return all;
  }
  void set_momenta(std::vector<double> const& to) {
    for (std::size_t g = 0; optimizer_ && g != std::min(to.size(), optimizer_->groups()); ++g)
      optimizer_->set_momentum(g, to[g]);
  }

  std::vector<double> rates() const {
    std::vector<double> all;
    for (std::size_t g = 0; optimizer_ && g != optimizer_->groups(); ++g) all.push_back(optimizer_->lr(g));
    return all;
  }
  /// Groups that were added to the optimizer later have no rate here, or are not there yet.
  void set_rates(std::vector<double> const& to) {
    for (std::size_t g = 0; optimizer_ && g != std::min(to.size(), optimizer_->groups()); ++g)
      optimizer_->set_lr(g, to[g]);
  }
  static void check_kind(std::string const& saved) {
    if (saved != kind())
      throw Error("fulgurite.schedule.kind", "the checkpoint's schedule is " + saved + ", and the program's is " +
                                                 kind() +
                                                 ": resume with the same configure_optimizers, or begin a new run with "
                                                 "the weights, load_weights(model, file)");
  }
  void check_groups() const {
    if (optimizer_ && initial_.size() > optimizer_->groups())
      throw Error("fulgurite.schedule.groups", "the checkpoint's schedule moves " + std::to_string(initial_.size()) +
                                                   " parameter groups, the optimizer has " +
                                                   std::to_string(optimizer_->groups()) +
                                                   ": resume with the same configure_optimizers");
  }

  S schedule_;
  ScheduleOptions options_;
  O* optimizer_ = nullptr;
  std::vector<double> initial_{};
  long moves_ = 0;
  bool retired_ = false;
};

}  // namespace fulgurite
