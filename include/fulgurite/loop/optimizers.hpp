#pragma once
// What configure_optimizers may return, and what the loops make of it: a tuple of optimizers, a tuple of schedulers.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// When a scheduler moves in automatic optimization. In manual optimization the user steps it.
enum class Interval : std::uint8_t { epoch, step };

/// `frequency` counts optimizer steps, or epochs, over the whole run. Not given, `interval` is the schedule's own: those made
/// of a number of steps say `per_step`, all others move once an epoch.
struct ScheduleOptions {
  std::optional<Interval> interval = std::nullopt;
  long frequency = 1;
  std::string name = {};
};

/// An optimizer with its schedule: a value that maps the count of moves to a factor of the initial learning rate, or sets the rates itself.
/// `Configured`: interval or frequency were given, which only automatic optimization goes by.
template <class O, class S, bool Configured = false>
struct Scheduled {
  O optimizer;
  S schedule;
  ScheduleOptions options;
};

/// `return scheduled(torch::optim::SGD(parameters(), 0.1), schedule::Cosine{1000}, {.interval = Interval::step});`
template <class O, class S>
Scheduled<O, S, true> scheduled(O optimizer, S schedule, ScheduleOptions options) {
  return {std::move(optimizer), std::move(schedule), std::move(options)};
}
/// With the schedule's own interval; in manual optimization, where you step it. The name is what LearningRateMonitor calls it.
template <class O, class S>
Scheduled<O, S> scheduled(O optimizer, S schedule, std::string name = {}) {
  return {std::move(optimizer), std::move(schedule), {.name = std::move(name)}};
}

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

/// A schedule that sets the rates itself instead of giving a factor of the initial ones: `static constexpr bool sets_rates = true`,
/// and `move(optimizer)`; or `metric()` to watch, `using Watches = MetricTypes<...>`, `strict()` and `observe(value, optimizer)`. Optional:
/// `attach(optimizer)` and `state(archive)`.
template <class S>
concept RateSetter = requires { requires S::sets_rates; };

/// A schedule that is moved by the values of a metric.
template <class S>
concept Observer = RateSetter<S> && requires(S const& schedule) { schedule.metric(); };

/// What the second argument of `scheduled` may be.
template <class S>
concept ScheduleLike = RateSetter<S> || requires(S& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};

/// Moves the learning rates of one optimizer along a schedule: each group from its own initial rate, or as the schedule says.
template <class O, class S>
class Scheduler {
 public:
  static constexpr bool exists = !std::is_same_v<S, NoSchedule>;
  static constexpr bool observes = Observer<S>;

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

  /// Asked by the loops at each optimizer step, or epoch end, of the run: every `frequency`-th time it is to move.
  bool due() { return !retired_ && ++ticks_ % options_.frequency == 0; }

  /// Never due again: somebody else sets the rates from now on. Saved in a checkpoint.
  void retire() { retired_ = true; }

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

  /// Loading, the schedule starts from the saved initial rates, and the rates end as they were, bit for bit.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    auto now = rates();
    archive("moves", moves_)("ticks", ticks_)("retired", retired_)("initial", initial_)("rates", now);
    if constexpr (loading) {
      check_groups();
      set_rates(initial_);
    }
    if constexpr (requires { schedule_.state(archive); }) archive.child("schedule", schedule_);
    if constexpr (loading) set_rates(now);
  }

 private:
  static constexpr Interval default_interval() {
    if constexpr (requires { S::per_step; }) return S::per_step ? Interval::step : Interval::epoch;
    else return Interval::epoch;
  }

  void apply() {
    if constexpr (exists && !RateSetter<S>) {
      double const factor = schedule_(moves_);
      for (std::size_t g = 0; g != initial_.size(); ++g) optimizer_->set_lr(g, initial_[g] * factor);
    }
  }

  std::vector<double> rates() const {
    std::vector<double> all;
    for (std::size_t g = 0; optimizer_ && g != optimizer_->groups(); ++g) all.push_back(optimizer_->lr(g));
    return all;
  }
  /// Groups that were added to the optimizer later have no rate here, or are not there yet.
  void set_rates(std::vector<double> const& to) {
    for (std::size_t g = 0; optimizer_ && g != std::min(to.size(), optimizer_->groups()); ++g) optimizer_->set_lr(g, to[g]);
  }
  void check_groups() const {
    if (optimizer_ && initial_.size() > optimizer_->groups())
      throw Error("fulgurite.schedule.groups", "the checkpoint's schedule moves " + std::to_string(initial_.size()) +
                                                   " parameter groups, the optimizer has " + std::to_string(optimizer_->groups()) +
                                                   ": resume with the same configure_optimizers");
  }

  S schedule_;
  ScheduleOptions options_;
  O* optimizer_ = nullptr;
  std::vector<double> initial_{};
  long moves_ = 0;
  long ticks_ = 0;
  bool retired_ = false;
};

namespace loop {

/// One entry of what configure_optimizers returned: a bare optimizer, or a scheduled one.
template <class Backend, class T>
struct Entry {
  using Optimizer = std::remove_cvref_t<decltype(Backend::adopt(std::declval<T>()))>;
  using Schedule = NoSchedule;
  static Optimizer optimizer(T&& from) { return Backend::adopt(std::move(from)); }
  static Scheduler<Optimizer, NoSchedule> scheduler(T&) { return {NoSchedule{}, ScheduleOptions{}}; }
};
template <class Backend, class O, class S, bool Configured>
struct Entry<Backend, Scheduled<O, S, Configured>> {
  using Optimizer = std::remove_cvref_t<decltype(Backend::adopt(std::declval<O>()))>;
  using Schedule = S;
  static Optimizer optimizer(Scheduled<O, S, Configured>&& from) { return Backend::adopt(std::move(from.optimizer)); }
  static Scheduler<Optimizer, S> scheduler(Scheduled<O, S, Configured>& from) { return {std::move(from.schedule), std::move(from.options)}; }
};

template <class T>
struct AsList {
  using type = OptimizerList<T>;
  static type make(T&& one) { return {std::tuple<T>(std::move(one))}; }
};
template <class... Os>
struct AsList<OptimizerList<Os...>> {
  using type = OptimizerList<Os...>;
  static type make(type&& list) { return std::move(list); }
};

/// The optimizers and schedulers of a run; never moved, since schedulers point to optimizers.
template <class Backend, class List>
struct OptimizerSet;
template <class Backend, class... Os>
struct OptimizerSet<Backend, OptimizerList<Os...>> {
  static constexpr std::size_t count = sizeof...(Os);
  static constexpr bool needs_closure = (Entry<Backend, Os>::Optimizer::needs_closure || ...);
  std::tuple<Scheduler<typename Entry<Backend, Os>::Optimizer, typename Entry<Backend, Os>::Schedule>...> schedulers;
  std::tuple<typename Entry<Backend, Os>::Optimizer...> optimizers;

  explicit OptimizerSet(OptimizerList<Os...>&& list)
      : OptimizerSet(std::move(list), std::index_sequence_for<Os...>{}) {}
  OptimizerSet(OptimizerSet const&) = delete;
  OptimizerSet& operator=(OptimizerSet const&) = delete;

  /// f(scheduler) for those that have a schedule.
  template <class F>
  void each_scheduler(F&& f) {
    std::apply([&](auto&... s) { ((std::remove_reference_t<decltype(s)>::exists ? call(f, s) : void()), ...); }, schedulers);
  }

 private:
  template <std::size_t... I>
  OptimizerSet(OptimizerList<Os...>&& list, std::index_sequence<I...>)
      : schedulers(Entry<Backend, Os>::scheduler(std::get<I>(list.all))...),
        optimizers(Entry<Backend, Os>::optimizer(std::move(std::get<I>(list.all)))...) {
    (std::get<I>(schedulers).attach(std::get<I>(optimizers)), ...);
  }
  template <class F, class S>
  static void call(F& f, S& scheduler) {
    if constexpr (S::exists) f(scheduler);
  }
};

}  // namespace loop
}  // namespace fulgurite
