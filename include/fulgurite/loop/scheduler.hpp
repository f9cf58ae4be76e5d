#pragma once
// What moves the learning rates of one optimizer along a schedule.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

/// When a scheduler moves in automatic optimization. In manual optimization the user steps it.
enum class Interval : std::uint8_t { epoch, step };

/// `frequency` counts optimizer steps, or epochs, over the whole run. Not given, `interval` is the schedule's own:
/// those made of a number of steps say `per_step`, all others move once an epoch.
struct ScheduleOptions {
  std::optional<Interval> interval = std::nullopt;  ///< what `frequency` counts
  long frequency = 1;                               ///< the schedule moves after every so many of them
  std::string name = {};                            ///< in logs; empty: named after its optimizer
};

/// An optimizer with its schedule: a value that maps the count of moves to a factor of the initial learning rate, or
/// sets the rates itself. `Configured`: interval or frequency were given, which only automatic optimization goes by.
/// The optimizer may be a Scheduled one: then it has several schedules.
template <class O, class S, bool Configured = false>
struct Scheduled {
  O optimizer;
  S schedule;
  ScheduleOptions options;
};

/// `return scheduled(torch::optim::SGD(parameters(), 0.1), schedule::Cosine{1000}, {.interval = Interval::step});`
/// What it returns can be scheduled again, each schedule with its own interval and frequency, and its own metric where
/// it follows one: `scheduled(scheduled(sgd, schedule::Cosine{1000}), schedule::ReduceOnPlateau{Net::val_loss})`. The
/// rate is then the initial one times the factors of all; a schedule that sets rates multiplies (or replaces) the rate
/// of the moment, and what it did outlasts the moves of the others.
template <class O, class S>
Scheduled<O, S, true> scheduled(O optimizer, S schedule, ScheduleOptions options) {
  return {std::move(optimizer), std::move(schedule), std::move(options)};
}
/// With the schedule's own interval; in manual optimization, where you step it. The name is what LearningRateMonitor
/// calls it.
template <class O, class S>
Scheduled<O, S> scheduled(O optimizer, S schedule, std::string name = {}) {
  return {std::move(optimizer), std::move(schedule), {.name = std::move(name)}};
}

/// Several optimizers, as optimizers(...) makes them; scheduled ones are Scheduled.
template <class... Os>
struct OptimizerList {
  std::tuple<Os...> all;
};

/// Several optimizers, scheduled or not, for manual optimization: `return optimizers(adam_g, adam_d);`
template <class... Os>
OptimizerList<Os...> optimizers(Os... all) {
  return {std::tuple<Os...>(std::move(all)...)};
}

/// The schedule of an optimizer that has none.
struct NoSchedule {};

/// A schedule that sets the rates itself instead of giving a factor of the initial ones: `static constexpr bool
/// sets_rates = true`, and `move(optimizer)`; or `metric()` to watch, `using Watches = MetricTypes<...>`, `strict()`
/// and `observe(value, optimizer)`. Optional: `attach(optimizer)` and `state(archive)`; where loading moves it again as
/// often as it had been, from the initial rates, `static constexpr bool replays_moves = true`.
template <class S>
concept RateSetter = requires { requires S::sets_rates; };

/// A schedule that is moved by the values of a metric.
template <class S>
concept Observer = RateSetter<S> && requires(S const& schedule) { schedule.metric(); };

/// A schedule that moves the momentum, too: see schedule::MomentumSchedule.
template <class S>
concept MovesMomentum = requires(S const& schedule, long moves) {
  { schedule.momentum(moves) } -> std::convertible_to<std::optional<double>>;
};

/// An optimizer whose momentum (or first beta) can be set, group by group.
template <class O>
concept HasMomentum = requires(O& optimizer, std::size_t group, double value) {
  { optimizer.momentum(group) } -> std::convertible_to<std::optional<double>>;
  optimizer.set_momentum(group, value);
};

/// What the second argument of `scheduled` may be.
template <class S>
concept ScheduleLike = RateSetter<S> || requires(S& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};

}  // namespace fulgurite

namespace fulgurite::loop {

/// The learning rates and momenta of an optimizer's groups, for code that does not know its type.
class RateGroups {
  struct Calls {
    std::size_t (*groups)(void const*);
    double (*lr)(void const*, std::size_t);
    void (*set_lr)(void*, std::size_t, double);
    std::optional<double> (*momentum)(void const*, std::size_t) = nullptr;
    void (*set_momentum)(void*, std::size_t, double) = nullptr;
  };
  template <class O>
  static constexpr Calls calls_of() {
    Calls calls{.groups = [](void const* o) -> std::size_t { return static_cast<O const*>(o)->groups(); },
                .lr = [](void const* o, std::size_t g) -> double { return static_cast<O const*>(o)->lr(g); },
                .set_lr = [](void* o, std::size_t g, double to) { static_cast<O*>(o)->set_lr(g, to); }};
    if constexpr (HasMomentum<O>) {
      calls.momentum = [](void const* o, std::size_t g) -> std::optional<double> {
        return static_cast<O const*>(o)->momentum(g);
      };
      calls.set_momentum = [](void* o, std::size_t g, double to) { static_cast<O*>(o)->set_momentum(g, to); };
    }
    return calls;
  }
  template <class O>
  static constexpr Calls table = calls_of<O>();

 public:
  template <class O>
    requires(!std::same_as<O, RateGroups const> && !std::same_as<O, RateGroups>)
  RateGroups(O& optimizer) : optimizer_(&optimizer), calls_(&table<O>) {}

  std::size_t size() const { return calls_->groups(optimizer_); }
  double lr(std::size_t group) const { return calls_->lr(optimizer_, group); }
  void set_lr(std::size_t group, double to) const;
  bool has_momentum() const { return calls_->momentum != nullptr; }
  /// nullopt where the group has none.
  std::optional<double> momentum(std::size_t group) const { return calls_->momentum(optimizer_, group); }
  void set_momentum(std::size_t group, double to) const;

  std::vector<double> rates() const;
  /// Groups that were added to the optimizer later have no rate in the list, or are not there yet.
  void set_rates(std::vector<double> const& to) const;
  /// 0 where a group has none.
  std::vector<double> momenta() const;
  /// Error [fulgurite.schedule.zero_momentum] for a schedule that moves the momentum of an optimizer that was made
  /// without: it keeps no state for one, and would get one that nobody gave it.
  void check_momentum() const;

 private:
  void* optimizer_;
  Calls const* calls_;
};

// What the schedules of one optimizer make of its rates together.

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
  void begin(RateGroups optimizer);
  bool several() const { return factors.size() > 1; }
  double factor() const;

  /// The optimizer's rates are those of bases and factors.
  template <class O>
  void set(O& optimizer) const {
    double const all = factor();
    for (std::size_t g = 0; g != base.size(); ++g) optimizer.set_lr(g, base[g] * all);
  }
  /// `move()` is a schedule's that sets rates: the others go on from them. Where a factor of theirs is 0, so is the
  /// rate, which tells nothing: then it is shown the bases, and what it makes of them counts from the next move of the
  /// others on.
  void let_set(RateGroups optimizer, FunctionRef<void()> move);

  /// The rate that a group started from; for one that came later, which no schedule moves, as if it had been moved like
  /// the first.
  double initial_of(RateGroups optimizer, std::size_t group) const;
  /// Each group starts from another rate, with the moves that were made.
  void begin_from(RateGroups optimizer, std::span<double const> rates);

  /// Saves or loads all of it, with the optimizer's present rates and momenta. Loading, `settle` follows when the
  /// schedules are loaded, too.
  template <class Archive>
  void state(RateGroups optimizer, Archive& archive);
  /// A group has the rate that was saved, whoever has set it, where the program gives it the same rate as before and
  /// the same factors; else the rate is computed from those of the program. So it is with the momentum.
  void settle(RateGroups optimizer);

 private:
  struct SavedMomenta {
    std::vector<double> given = {}, now = {};
    std::optional<double> scheduled = std::nullopt;
  };
  struct Saved {
    std::vector<double> given, initial, base, factors, rates;
    SavedMomenta momenta = {};
  };

  /// Error where what was loaded is not of an optimizer of so many groups. What has become of a group's base since it
  /// started is state, also where the program lets the group start from another rate.
  void take(Saved all, std::size_t groups);

  /// What has become of the first group's rate since it started; 1 where that is no factor, as at the foot of a warmup.
  double moved(RateGroups optimizer) const;

  std::optional<Saved> saved_ = std::nullopt;  ///< loaded, and not settled yet
};

FULGURITE_EXTERN(void ComposedRates::state(RateGroups, StateSaver&));
FULGURITE_EXTERN(void ComposedRates::state(RateGroups, StateLoader&));

void check_frequency(long frequency);
/// A checkpoint's schedule and the program's are of one kind.
void check_schedule_kind(std::string const& saved, std::string const& own);

}  // namespace fulgurite::loop

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
    loop::check_frequency(options_.frequency);
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
    if constexpr (loading) loop::check_schedule_kind(kind_saved, kind());
    archive("moves", moves_)("retired", retired_);
    if constexpr (observes) archive("logged", logged_);
    archive.option("interval", std::string(interval() == Interval::step ? "step" : "epoch"));
    archive.option("frequency", options_.frequency);
    if constexpr (loading && RateSetter<S>) loop::RateGroups(*optimizer_).set_rates(together_->initial);
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
    if constexpr (moves_momentum) check_momentum();
    if constexpr (requires(O& optimizer) { schedule_.attach(optimizer); })
      together_->let_set(*optimizer_, [&] { schedule_.attach(*optimizer_); });
    apply();
  }

  void check_momentum() const {
    if constexpr (requires { schedule_.moves_momentum(); })
      if (!schedule_.moves_momentum()) return;
    loop::RateGroups(*optimizer_).check_momentum();
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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/scheduler.ipp>
#endif
