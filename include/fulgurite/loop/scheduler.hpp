#pragma once
// Schedulers: they change the learning rates of one optimizer along a schedule.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>

namespace fulgurite {

/// When a scheduler moves in automatic optimization. In manual optimization the user steps it.
enum class Interval : std::uint8_t { epoch, step };

/// An option that is Interval::step or Interval::epoch, or not given.
struct IntervalOption : std::optional<Interval> {
  using std::optional<Interval>::optional;
  IntervalOption(std::optional<Interval> which) : std::optional<Interval>(which) {}
  /// Refused at compile time: a text could be misspelt.
  template <std::convertible_to<std::string_view> Text>
  IntervalOption(Text const&) {
    constexpr bool is_text = std::convertible_to<Text, std::string_view>;
    static_assert(!is_text, "[fulgurite.schedule.interval] an interval is a constant, not a text: write Interval::step "
                            "or Interval::epoch");
  }
};

/// How a scheduler is run. `frequency` counts optimizer steps, or epochs, over the whole run. If `interval` is not
/// given, it is the schedule's own: those that declare `per_step`, such as `Cosine` and `OneCycle`, move with every
/// optimizer step, all others once an epoch.
///
///     return scheduled(std::move(sgd), schedule::Cosine{10}, {.interval = Interval::epoch});
struct ScheduleOptions {
  IntervalOption interval = std::nullopt;  ///< the unit of `frequency`
  long frequency = 1;                      ///< the schedule moves once in this many steps or epochs
  std::string name = {};                   ///< name in logs; empty: that of its optimizer
};

/// An optimizer with its schedule, which is a value that maps the number of moves to a factor of the initial learning
/// rate, or sets the rates itself. `Configured`: interval or frequency were given, which only automatic optimization
/// uses. The optimizer may be a Scheduled one: then it has several schedules.
template <class O, class S, bool Configured = false>
struct Scheduled {
  O optimizer;
  S schedule;
  ScheduleOptions options;
};

namespace loop {

/// What becomes of an argument in configure_optimizers' result: a temporary is moved, a variable copied if it can be.
template <class O>
std::remove_cvref_t<O> handed_over(O&& optimizer) {
  using Kept = std::remove_cvref_t<O>;
  constexpr bool can_be = std::is_constructible_v<Kept, O>;
  static_assert(can_be, FULGURITE_SENTENCE_OPTIMIZER_COPIED);
  if constexpr (can_be) return std::forward<O>(optimizer);
  else return const_cast<Kept&&>(optimizer);  // so that the sentence is the only error
}

}  // namespace loop

/// Adds a schedule to an optimizer, for configure_optimizers:
///
///     return scheduled(torch::optim::SGD(parameters(), 0.1), schedule::Cosine{1000});
///
/// The result can be scheduled again, each schedule with its own interval, frequency and metric:
///
///     scheduled(scheduled(std::move(sgd), schedule::Cosine{1000}), schedule::ReduceOnPlateau{Net::val_loss})
///
/// The rate is then the initial one times the factors of all schedules. A schedule that sets rates multiplies or
/// replaces the current rate, and its effect stays when the others move.
template <class O, class S>
Scheduled<std::remove_cvref_t<O>, S, true> scheduled(O&& optimizer, S schedule, ScheduleOptions options) {
  return {loop::handed_over(std::forward<O>(optimizer)), std::move(schedule), std::move(options)};
}
/// With the schedule's own interval, or for manual optimization, in which you step it. `name`: in LearningRateMonitor.
template <class O, class S>
Scheduled<std::remove_cvref_t<O>, S> scheduled(O&& optimizer, S schedule, std::string name = {}) {
  return {loop::handed_over(std::forward<O>(optimizer)), std::move(schedule), {.name = std::move(name)}};
}

/// The result of optimizers(...): several optimizers, of which scheduled ones are Scheduled.
template <class... Os>
struct OptimizerList {
  std::tuple<Os...> all;
};

/// Several optimizers, scheduled or not, for manual optimization: `return optimizers(std::move(adam_g),
/// std::move(adam_d));`
template <class... Os>
OptimizerList<std::remove_cvref_t<Os>...> optimizers(Os&&... all) {
  return {std::tuple<std::remove_cvref_t<Os>...>(loop::handed_over(std::forward<Os>(all))...)};
}

/// The schedule of an optimizer that has none.
struct NoSchedule {};

/// A schedule that sets the rates itself, instead of giving a factor of the initial ones. It declares `static constexpr
/// bool sets_rates = true` and has `move(optimizer)`; or, to follow a metric, `metric()`, `using Watches =
/// MetricTypes<...>`, `strict()` and `observe(value, optimizer)`. Optional members: `attach(optimizer)`;
/// `state(archive)`; and `static constexpr bool replays_moves = true` if loading repeats its moves from the initial
/// rates.
template <class S>
concept RateSetter = requires { requires S::sets_rates; };

/// A schedule that moves by the values of a metric.
template <class S>
concept Observer = RateSetter<S> && requires(S const& schedule) { schedule.metric(); };

/// A schedule that also changes the momentum: see schedule::MomentumSchedule.
template <class S>
concept MovesMomentum = requires(S const& schedule, long moves) {
  { schedule.momentum(moves) } -> std::convertible_to<std::optional<double>>;
};

/// An optimizer whose momentum (or first beta) can be set for each group.
template <class O>
concept HasMomentum = requires(O& optimizer, std::size_t group, double value) {
  { optimizer.momentum(group) } -> std::convertible_to<std::optional<double>>;
  optimizer.set_momentum(group, value);
};

/// The allowed types of the second argument of `scheduled`.
template <class S>
concept ScheduleLike = RateSetter<S> || requires(S& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};

namespace loop {

/// The learning rates and momenta of an optimizer's groups, for code that does not know the optimizer's type.
class RateGroups {
  struct Calls {
    std::size_t (*groups)(void*);
    double (*lr)(void*, std::size_t);
    void (*set_lr)(void*, std::size_t, double);
    std::optional<double> (*momentum)(void*, std::size_t) = nullptr;
    void (*set_momentum)(void*, std::size_t, double) = nullptr;
  };
  template <class O>
  static constexpr Calls calls_of() {
    Calls calls{.groups = [](void* o) -> std::size_t { return static_cast<O*>(o)->groups(); },
                .lr = [](void* o, std::size_t g) -> double { return static_cast<O*>(o)->lr(g); },
                .set_lr = [](void* o, std::size_t g, double to) { static_cast<O*>(o)->set_lr(g, to); }};
    if constexpr (HasMomentum<O>) {
      calls.momentum = [](void* o, std::size_t g) -> std::optional<double> { return static_cast<O*>(o)->momentum(g); };
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
  /// nullopt if the group has none.
  std::optional<double> momentum(std::size_t group) const { return calls_->momentum(optimizer_, group); }
  void set_momentum(std::size_t group, double to) const;

  std::vector<double> rates() const;
  /// Groups that were added later have no rate in the list, and are not changed. Rates of missing groups are skipped.
  void set_rates(std::vector<double> const& to) const;
  /// 0 for a group that has none.
  std::vector<double> momenta() const;
  /// Throws [fulgurite.schedule.zero_momentum] for a schedule that changes the momentum of an optimizer made without
  /// one: it has no state for a momentum, and would get one that the program did not give it.
  void check_momentum() const;

 private:
  void* optimizer_;
  Calls const* calls_;
};

// The combined effect of all schedules of one optimizer on its rates.

/// The rates of an optimizer's groups as its schedules see them: a rate is the group's base times the current factor of
/// each schedule. The base is the initial rate until a schedule that sets rates changes it, so that its effect stays.
struct ComposedRates {
  std::vector<double> given{};  ///< of each group: the rate that configure_optimizers gave
  /// Of each group: the same as files know it. A search may have written its rate into the model, which gives it then.
  std::vector<double> given_first{};
  std::vector<double> initial{};  ///< of each group: the given rate, or the one that a search has found
  std::vector<double> base{};
  std::vector<double> factors{};                  ///< of each schedule; 1 for one that sets rates
  bool retired = false;                           ///< something other than the schedules sets the rates
  std::vector<double> given_momenta{};            ///< of each group
  std::optional<double> momentum = std::nullopt;  ///< the value that schedules have set last
  std::size_t momentum_by = 0;                    ///< the number of the schedule that set it

  /// Starts from the optimizer's current rates, before any schedule has moved.
  void begin(RateGroups optimizer);
  bool several() const { return factors.size() > 1; }
  double factor() const;

  /// Sets the optimizer's rates from bases and factors.
  template <class O>
  void set(O& optimizer) const {
    double const all = factor();
    for (std::size_t g = 0; g != base.size(); ++g) optimizer.set_lr(g, base[g] * all);
  }
  /// Runs `move()` of a schedule that sets rates; the other schedules continue from the new rates. If the product of
  /// their factors is 0, so are the rates: then `move` sees the bases, and takes effect when the others move next.
  void let_set(RateGroups optimizer, FunctionRef<void()> move);

  /// The rate from which a group started; for one that was added later, as if it had moved like the first one.
  double initial_of(RateGroups optimizer, std::size_t group) const;
  /// Gives each group another initial rate, and applies the moves made so far.
  void begin_from(RateGroups optimizer, std::span<double const> rates);

  /// Saves or loads everything, with the optimizer's current rates and momenta. `settle` follows when all are loaded.
  template <class Archive>
  void state(RateGroups optimizer, Archive& archive);
  /// Gives each group its saved rate, whoever set it, if the program's initial rate and factors are the same as then;
  /// otherwise computes the rate from the program's values. Does the same for momenta.
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

  /// Throws if the loaded state is of an optimizer with a different number of groups. How far a group's base has moved
  /// since its start is state, also if the program starts the group from another rate.
  void take(Saved all, std::size_t groups);

  /// The factor by which the first group's rate has moved; 1 if there is none, as at the start of a warmup from 0.
  double moved(RateGroups optimizer) const;

  std::optional<Saved> saved_ = std::nullopt;  ///< loaded, and not settled yet
};

/// The rates of an optimizer before its first schedule: made where they are compiled once.
std::shared_ptr<ComposedRates> no_rates_yet();
FULGURITE_FOLD(EXTERN, ComposedRates::state, RateGroups);

/// An optimizer's rates, and how its schedules compute them.
struct OptimizerRates {
  RateGroups optimizer;
  ComposedRates* composed;
};
/// Saves or loads the rates of several optimizers, each under its number.
template <class Archive>
void fold_rates(std::span<OptimizerRates const> all, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_rates, std::span<OptimizerRates const>);

void check_frequency(long frequency);

/// How far a schedule has moved.
struct ScheduleProgress {
  long moves = 0;
  long logged = 0;  ///< WatchedValue::logged when the schedule last took a value
  bool retired = false;

  /// Saves or loads. Moves of another kind of schedule are an Error. `observes`: the schedule follows a metric.
  template <class Archive>
  void state(std::string_view kind, bool observes, ScheduleOptions const& options, Archive& archive);
};
FULGURITE_FOLD(EXTERN, ScheduleProgress::state, std::string_view, bool, ScheduleOptions const&);

/// The key of a schedule in files: the number of its optimizer, so that it never sets another's rates, and that of a
/// further schedule of the same optimizer. `first`: the position of each optimizer's first scheduler.
std::string schedule_key(std::span<std::size_t const> first, std::size_t scheduler);
/// The schedules by their keys and kinds; the kind is empty where a scheduler has no schedule.
std::vector<std::string> schedule_names(std::span<std::size_t const> first,
                                        std::initializer_list<std::string_view> kinds);

}  // namespace loop

/// The learning rates of a run: those of all groups of its first optimizer, then of the second one. Setting more or
/// fewer rates than there are throws [fulgurite.tuner.rates].
class LearningRates {
 public:
  /// Made by the loops. `all` is empty in an evaluation, also after a fit.
  explicit LearningRates(std::span<loop::OptimizerRates const> all);

  std::vector<double> now() const;
  /// The rates from which schedules start: those that configure_optimizers gave.
  std::vector<double> initial() const;
  /// Sets the rates until a schedule changes them.
  void set(std::span<double const> rates);
  /// Sets the rates from which schedules start, and applies what each schedule computes from them where it is.
  void begin_from(std::span<double const> rates);

 private:
  void check(std::span<double const> rates) const;

  std::vector<loop::OptimizerRates> all_;
};

/// Changes the learning rates of one optimizer along a schedule: each group from its own initial rate, or as the
/// schedule sets them. A schedule with a momentum sets that of all groups. If an optimizer has several schedules, their
/// factors are multiplied; one that sets rates starts from the current rates, and the last to set a momentum counts.
template <class O, class S>
class Scheduler {
 public:
  using Schedule = S;
  static constexpr bool exists = !std::is_same_v<S, NoSchedule>;
  static constexpr bool observes = Observer<S>;
  static constexpr bool moves_momentum = MovesMomentum<S> && HasMomentum<O>;

  /// For an optimizer that has no schedule.
  Scheduler()
    requires(!exists)
      : schedule_{}, options_{.interval = Interval::epoch}, chosen_(false) {}
  Scheduler(S from, ScheduleOptions options)
      : schedule_(std::move(from)), options_(std::move(options)), chosen_(options_.interval) {
    if (!chosen_) options_.interval = default_interval();
    loop::check_frequency(options_.frequency);
  }

  /// Takes the optimizer's current rates as the initial ones, and applies the first factor.
  void attach(O& optimizer) {
    optimizer_ = &optimizer;
    together_->begin(optimizer);
    begin();
  }
  /// Adds a further schedule to an optimizer: it starts from the rates that the earlier ones have set.
  template <class Earlier>
  void join(Scheduler<O, Earlier> const& earlier) {
    optimizer_ = earlier.optimizer_;
    together_ = earlier.together_;
    begin();
  }

  /// Moves once.
  void step()
    requires(!observes)
  {
    ++progress_.moves;
    if constexpr (RateSetter<S>) together_->let_set(*optimizer_, [&] { schedule_.move(*optimizer_); });
    else apply();
  }
  /// Moves a schedule that follows a metric once, by the metric's value.
  void step(double value)
    requires observes
  {
    ++progress_.moves;
    together_->let_set(*optimizer_, [&] { schedule_.observe(value, *optimizer_); });
  }

  /// True if the schedule moves at this point: the loops call it with the number of optimizer steps, or epochs, of the
  /// whole run before and after what was just done, and it moves at each `frequency`-th, also in a second fit.
  bool due(long before, long after) const {
    return !progress_.retired && before / options_.frequency != after / options_.frequency;
  }

  /// Makes the schedule never due again, because something else sets the rates from now on. Saved in checkpoints.
  void retire() { progress_.retired = true; }

  /// The rate from which a group started; for one that was added later, as if it had moved like the first one.
  double initial(std::size_t group) const { return together_->initial_of(*optimizer_, group); }
  /// Gives each group another initial rate, and applies the moves made so far by all schedules of the optimizer. A
  /// schedule that sets the rates itself continues from these.
  void begin_from(std::span<double const> rates) { together_->begin_from(*optimizer_, rates); }

  /// The name of the schedule in files: its type. A lambda has no name.
  static constexpr std::string_view kind() {
    constexpr std::string_view name = type_name<S>();
    return name.empty() || name.find('(') != name.npos ? "a function" : name;
  }

  Interval interval() const { return *options_.interval; }
  /// The steps after which the rate stays low, for a schedule with a `total` whose interval was not given.
  std::optional<long> ends_after_steps() const {
    if constexpr (requires { schedule_.periodic; })
      if (schedule_.periodic) return std::nullopt;
    if constexpr (requires { schedule_(long{schedule_.total}) < schedule_(0L); })
      if (!chosen_ && !progress_.retired && interval() == Interval::step && schedule_(schedule_.total) < schedule_(0L))
        return schedule_.total * options_.frequency;
    return std::nullopt;
  }
  std::string const& name() const { return options_.name; }
  long moves() const { return progress_.moves; }
  O& optimizer() const { return *optimizer_; }
  S& schedule() { return schedule_; }

  /// The metric to follow, for `ctx.value(metric())`. `strict`: it is an Error if the metric was never logged.
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
  /// Returns true, and takes the value, if the metric was logged since the last value that the schedule took.
  template <class Watched>
  bool takes(Watched const& seen)
    requires observes
  {
    bool const is_new = seen.is_newer_than(progress_.logged);
    if (is_new) progress_.logged = seen.logged;
    return is_new;
  }

  /// The rates that all schedules of the optimizer make together.
  loop::ComposedRates& composed() { return *together_; }

  /// Saves or loads the number of moves and the schedule's own state. The rates are saved separately, once for all
  /// schedules of the optimizer (OptimizerSet). After loading, the factor is that of the program's schedule after the
  /// saved number of moves. Moves of another kind of schedule are an Error.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    progress_.state(kind(), observes, options_, archive);
    if constexpr (loading && RateSetter<S>) loop::RateGroups(*optimizer_).set_rates(together_->initial);
    if constexpr (requires { schedule_.state(archive); }) archive.child("schedule", schedule_);
    if constexpr (loading) take_up();
  }

 private:
  template <class, class>
  friend class Scheduler;
  static constexpr bool gives_factors = exists && !RateSetter<S>;

  void begin() {
    if constexpr (requires { std::as_const(schedule_).check(); }) std::as_const(schedule_).check();
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
      together_->factors[number_] = schedule_(progress_.moves);
      together_->set(*optimizer_);
    }
    if constexpr (moves_momentum)
      if (std::optional<double> const momentum = schedule_.momentum(progress_.moves)) {
        together_->momentum = momentum;
        together_->momentum_by = number_;
        for (std::size_t g = 0; g != together_->initial.size(); ++g) optimizer_->set_momentum(g, *momentum);
      }
  }
  /// Computes rates and momenta for the loaded number of moves, by the program's constants. A schedule that repeats its
  /// moves on loading has set the rates already, unless it is one of several: then the saved combined rates apply.
  void take_up() {
    if (progress_.retired) together_->retired = true;
    if constexpr (gives_factors) together_->factors[number_] = schedule_(progress_.moves);
    if constexpr (FULGURITE_SAYS(S, bool, replays_moves))
      if (S::replays_moves && !together_->several())
        for (std::size_t g = 0; g != together_->base.size(); ++g) together_->base[g] = optimizer_->lr(g);
    if constexpr (moves_momentum)
      if (together_->momentum_by == number_) together_->momentum = schedule_.momentum(progress_.moves);
  }
  S schedule_;
  ScheduleOptions options_;
  bool chosen_;  ///< the interval was given
  O* optimizer_ = nullptr;
  std::shared_ptr<loop::ComposedRates> together_ = loop::no_rates_yet();
  std::size_t number_ = 0;  ///< position among the optimizer's schedules
  loop::ScheduleProgress progress_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/scheduler.ipp>
#endif
