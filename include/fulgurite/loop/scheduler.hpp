#pragma once
// What moves the learning rates of one optimizer along a schedule.

#include <cstddef>
#include <memory>
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
#include <fulgurite/loop/composed_rates.hpp>
#include <fulgurite/loop/group_lists.hpp>
#include <fulgurite/loop/scheduled.hpp>

namespace fulgurite {

/// Moves the learning rates of one optimizer along a schedule: each group from its own initial rate, or as the schedule
/// says. A schedule that has a momentum moves that of all groups. Where an optimizer has several schedules, factors are
/// multiplied, one that sets rates goes on from the rates as they are, and the momentum is that of the last one that
/// has moved it.
template <class O, class S>
class Scheduler {
 public:
  using Schedule = S;
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
    together_->begin(optimizer);
    begin();
  }
  /// A further schedule of an optimizer: it goes on from what those before it have made of the rates.
  template <class Earlier>
  void join(Scheduler<O, Earlier> const& earlier) {
    optimizer_ = earlier.optimizer_;
    together_ = earlier.together_;
    begin();
  }

  /// One move.
  void step()
    requires(!observes)
  {
    ++moves_;
    if constexpr (RateSetter<S>) together_->let_set(*optimizer_, [&] { schedule_.move(*optimizer_); });
    else apply();
  }
  /// One move of a schedule that watches a metric.
  void step(double value)
    requires observes
  {
    ++moves_;
    together_->let_set(*optimizer_, [&] { schedule_.observe(value, *optimizer_); });
  }

  /// Asked by the loops with the count of optimizer steps, or epochs, of the whole run, `before` and `after` what has
  /// just been done: at each `frequency`-th of them it is to move. The count is the run's, so it goes on in a second
  /// fit, whose schedules are new.
  bool due(long before, long after) const {
    return !retired_ && before / options_.frequency != after / options_.frequency;
  }

  /// Never due again: somebody else sets the rates from now on. Saved in a checkpoint.
  void retire() { retired_ = true; }

  /// The rate that a group started from. For a group that was added later, which no schedule moves: its present rate,
  /// divided by what has become of the first group's rate since it started.
  double initial(std::size_t group) const { return together_->initial_of(*optimizer_, group); }
  /// Each group starts from another rate from now on, with the moves that were made, by all schedules of the optimizer.
  /// One that sets the rates itself goes on from these.
  void begin_from(std::span<double const> rates) { together_->begin_from(*optimizer_, rates); }

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
  /// Whether the metric was logged since the last value that the schedule took. If so, this is the next one.
  template <class Watched>
  bool takes(Watched const& seen)
    requires observes
  {
    bool const is_new = seen.is_newer_than(logged_);
    if (is_new) logged_ = seen.logged;
    return is_new;
  }

  /// What the schedules of the optimizer make of its rates together.
  loop::ComposedRates& composed() { return *together_; }

  /// How often it has moved, and what the schedule keeps; the rates are saved and loaded beside it, once for all
  /// schedules of the optimizer (OptimizerSet). Loading, the factor is that of the program's schedule after the saved
  /// number of moves. Moves of another kind of schedule mean nothing here.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    auto kind_saved = kind();
    archive("kind", kind_saved);
    if constexpr (loading) check_kind(kind_saved);
    archive("moves", moves_)("retired", retired_);
    if constexpr (observes) archive("logged", logged_);
    archive.option("interval", std::string(interval() == Interval::step ? "step" : "epoch"));
    archive.option("frequency", options_.frequency);
    if constexpr (loading && RateSetter<S>) loop::set_rates(*optimizer_, together_->initial);
    if constexpr (requires { schedule_.state(archive); }) archive.child("schedule", schedule_);
    if constexpr (loading) take_up();
  }

 private:
  template <class, class>
  friend class Scheduler;
  static constexpr bool gives_factors = exists && !RateSetter<S>;

  void begin() {
    if constexpr (exists) {
      number_ = together_->factors.size();
      together_->factors.push_back(1.0);
    }
    if constexpr (moves_momentum) loop::check_momentum(schedule_, *optimizer_);
    if constexpr (requires(O& optimizer) { schedule_.attach(optimizer); })
      together_->let_set(*optimizer_, [&] { schedule_.attach(*optimizer_); });
    apply();
  }

  static constexpr Interval default_interval() {
    if constexpr (FULGURITE_SAYS(S, bool, per_step)) return S::per_step ? Interval::step : Interval::epoch;
    else return Interval::epoch;
  }

  void apply() {
    if constexpr (gives_factors) {
      together_->factors[number_] = schedule_(moves_);
      together_->set(*optimizer_);
    }
    if constexpr (moves_momentum)
      if (std::optional<double> const momentum = schedule_.momentum(moves_)) {
        together_->momentum = momentum;
        together_->momentum_by = number_;
        for (std::size_t g = 0; g != together_->initial.size(); ++g) optimizer_->set_momentum(g, *momentum);
      }
  }
  /// What the loaded number of moves means for rates and momenta, by the program's constants. One that moves a new
  /// scheduler as often as the saved one was moved has set the rates; where it is one of several, what the file says of
  /// them together holds.
  void take_up() {
    if (retired_) together_->retired = true;
    if constexpr (gives_factors) together_->factors[number_] = schedule_(moves_);
    if constexpr (FULGURITE_SAYS(S, bool, replays_moves))
      if (S::replays_moves && !together_->several())
        for (std::size_t g = 0; g != together_->base.size(); ++g) together_->base[g] = optimizer_->lr(g);
    if constexpr (moves_momentum)
      if (together_->momentum_by == number_) together_->momentum = schedule_.momentum(moves_);
  }
  static void check_kind(std::string const& saved) {
    if (saved != kind())
      throw Error("fulgurite.schedule.kind", "the checkpoint's schedule is " + saved + ", and the program's is " +
                                                 kind() +
                                                 ": resume with the same configure_optimizers, or begin a new run with "
                                                 "the weights, load_weights(model, file)");
  }

  S schedule_;
  ScheduleOptions options_;
  O* optimizer_ = nullptr;
  std::shared_ptr<loop::ComposedRates> together_ = std::make_shared<loop::ComposedRates>();
  std::size_t number_ = 0;  ///< among the optimizer's schedules
  long moves_ = 0;
  long logged_ = 0;  ///< WatchedValue's, when the schedule last took a value
  bool retired_ = false;
};

}  // namespace fulgurite
