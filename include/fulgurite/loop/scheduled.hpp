#pragma once
// What configure_optimizers may return: an optimizer, one with its schedule, or a list of them.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

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
