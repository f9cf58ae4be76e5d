#pragma once
// Learning-rate schedules as values: functions from a number of moves to a factor of the initial rate; some also give a
// momentum. `scheduled(optimizer, schedule, ...)` attaches one to an optimizer. Anything that takes a long and returns
// a double is a schedule. docs/semantics.md, Schedules, says when schedules move.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/fwd.hpp>

namespace fulgurite::schedule {

/// A schedule is callable with the number of its moves so far, and returns the factor of each group's initial learning
/// rate: `[](long moves) { return std::pow(0.9, moves); }`. `Constant`, `Step`, `MultiStep`, `Exponential`,
/// `ReduceOnPlateau` and functions move once per epoch. The others declare `static constexpr bool per_step = true` and
/// move with every optimizer step, so `Cosine{10}` ends after ten steps. `ScheduleOptions::interval` chooses the other
/// unit: `scheduled(std::move(adam), schedule::Cosine{10}, {.interval = Interval::epoch})` ends after ten epochs.
template <class S>
concept Schedule = requires(S const& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};

/// A schedule that also moves the momentum (for Adam: the first beta). `momentum(moves)` returns the value for all
/// parameter groups, or nullopt to leave it unchanged. A schedule that has the function but never moves the momentum
/// returns false from `moves_momentum()`.
template <class S>
concept MomentumSchedule = Schedule<S> && requires(S const& schedule, long moves) {
  { schedule.momentum(moves) } -> std::convertible_to<std::optional<double>>;
};

/// The momentum of any schedule after this number of moves.
template <class S>
constexpr std::optional<double> momentum_of(S const& schedule, long moves) {
  if constexpr (MomentumSchedule<S>) return schedule.momentum(moves);
  else return std::nullopt;
}
/// True if the schedule moves the momentum at some time.
template <class S>
constexpr bool moves_momentum(S const& schedule) {
  if constexpr (requires { schedule.moves_momentum(); }) return schedule.moves_momentum();
  else return MomentumSchedule<S>;
}

/// True if the schedule is made from a number of steps and moves at each; others move once per epoch.
template <class S>
inline constexpr bool counts_steps = [] {
  if constexpr (FULGURITE_SAYS(S, bool, per_step)) return S::per_step;
  else return false;
}();

/// Throws [fulgurite.schedule.constants] for invalid constants. That happens when the optimizers are made.
template <class Value>
[[noreturn]] void refuse(char const* schedule, char const* constant, Value value, char const* rule) {
  std::string text;
  if constexpr (std::is_floating_point_v<Value>) text = exact_number(value);
  else text = std::to_string(value);
  throw Error("fulgurite.schedule.constants",
              std::string("schedule::") + schedule + " with ." + constant + " = " + text + ": " + rule);
}

/// Checks the constants of a schedule if it can check them, also inside sequences and products.
template <class S>
constexpr void check(S const& schedule) {
  if constexpr (requires { schedule.check(); }) schedule.check();
}

/// Saves or loads the constants of a schedule inside another one. A function has no constants that are known.
template <class S>
void state_of(char const* name, S& schedule, auto& archive) {
  if constexpr (requires { schedule.state(archive); }) archive.child(name, schedule);
}

/// True if a number can be a momentum: at least 0 and below 1.
constexpr bool is_momentum(double value) { return value >= 0 && value < 1; }

/// True if a number can be a factor of a rate: finite and not negative.
constexpr bool is_factor(double value) { return value >= 0 && value <= std::numeric_limits<double>::max(); }

/// The fraction of `total` moves that is done, from 0 to 1; it is 1 if `total` is 0.
constexpr double done(long moves, long total) {
  return moves < total ? static_cast<double>(moves) / static_cast<double>(total) : 1.0;
}

/// Always the initial rate, or a fraction of it. ConstantLR is `then(Constant{1.0 / 3}, 5, Constant{})`.
struct Constant {
  double factor = 1.0;  ///< the fraction of the initial rate
  constexpr double operator()(long) const {
    check();
    return factor;
  }
  void state(auto& archive);
  constexpr void check() const {
    if (!is_factor(factor)) refuse("Constant", "factor", factor, "it must be finite and not negative");
  }
};

/// A schedule's factors without its momentum; see `rate_only`.
template <Schedule S>
struct RateOnly {
  static constexpr bool per_step = counts_steps<S>;
  S of;
  constexpr double operator()(long moves) const { return of(moves); }
  void state(auto& archive) { state_of("of", of, archive); }
  constexpr void check() const { schedule::check(of); }
};
/// Keeps a schedule's factors and drops its momentum, for an optimizer that has none: `scheduled(adagrad,
/// schedule::rate_only(schedule::OneCycle{.total = 100}))`.
template <Schedule S>
constexpr RateOnly<S> rate_only(S of) {
  return {of};
}

/// The product of two schedules: `LinearWarmup{100} * Cosine{1000}` (torch's ChainedScheduler).
template <Schedule A, Schedule B>
struct Product {
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  B second;
  constexpr double operator()(long moves) const { return first(moves) * second(moves); }
  /// If both schedules move the momentum, the second one's value is used.
  constexpr std::optional<double> momentum(long moves) const
    requires(MomentumSchedule<A> || MomentumSchedule<B>)
  {
    auto const later = momentum_of(second, moves);
    return later ? later : momentum_of(first, moves);
  }
  constexpr bool moves_momentum() const { return schedule::moves_momentum(first) || schedule::moves_momentum(second); }
  void state(auto& archive) {
    state_of("first", first, archive);
    state_of("second", second, archive);
  }
  constexpr void check() const {
    schedule::check(first);
    schedule::check(second);
  }
};
/// Multiplies two schedules: `LinearWarmup{100} * Cosine{1000}`.
template <Schedule A, Schedule B>
constexpr Product<A, B> operator*(A first, B second) {
  return {first, second};
}

/// Two schedules, one after the other; see `then`.
template <Schedule A, Schedule B>
struct Sequence {
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  long boundary;
  B second;
  constexpr double operator()(long moves) const {
    check();
    return moves < boundary ? first(moves) : second(moves - boundary);
  }
  /// While `second` has no momentum, the momentum keeps the last value of `first`.
  constexpr std::optional<double> momentum(long moves) const
    requires(MomentumSchedule<A> || MomentumSchedule<B>)
  {
    if (moves < boundary) return momentum_of(first, moves);
    auto const later = momentum_of(second, moves - boundary);
    return later || boundary == 0 ? later : momentum_of(first, boundary - 1);
  }
  constexpr bool moves_momentum() const { return schedule::moves_momentum(first) || schedule::moves_momentum(second); }
  void state(auto& archive) {
    archive.option("boundary", boundary);
    state_of("first", first, archive);
    state_of("second", second, archive);
  }
  constexpr void check() const {
    if (boundary < before())
      refuse("then", "boundary", boundary, "boundaries count moves from the start of the run and must ascend");
    schedule::check(first);
    schedule::check(second);
  }

 private:
  constexpr long before() const {
    if constexpr (requires { first.boundary; }) return first.boundary;
    else return 0;
  }
};

/// Runs one schedule after another, as SequentialLR: `then(LinearWarmup{100}, 100, Cosine{900})`. `second` begins at
/// move `boundary`, which is its own move 0. More schedules may follow: `then(LinearWarmup{100}, 100, Constant{}, 500,
/// Cosine{400})`; all boundaries are counted from the start of the run.
template <Schedule A, Schedule B, class... Rest>
constexpr auto then(A first, long boundary, B second, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) return Sequence<A, B>{first, boundary, second};
  else return then(Sequence<A, B>{first, boundary, second}, rest...);
}

// Schedules that only go down: steps, milestones, exponential, polynomial, cosine. The formulas are those of
// torch.optim.lr_scheduler.

/// StepLR: gamma^floor(t / size).
struct Step {
  long size;           ///< moves from one decay to the next
  double gamma = 0.1;  ///< the factor of each decay
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

/// MultiStepLR: gamma^(number of milestones passed). Milestones must ascend; one given twice counts twice.
struct MultiStep {
  ListOption<long> milestones;  ///< the moves at which the rate decays
  double gamma = 0.1;           ///< the factor of each decay
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

/// ExponentialLR: gamma^t.
struct Exponential {
  double gamma;  ///< the factor of each move
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

/// PolynomialLR: (1 - t/total)^power until `total`, then 0.
struct Polynomial {
  static constexpr bool per_step = true;
  long total;          ///< moves until the rate is 0
  double power = 1.0;  ///< 1: a straight line
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

/// CosineAnnealingLR: least + (1 - least) * (1 + cos(pi t/total)) / 2 until `total`, then `least`. PyTorch's goes up
/// again after `total`, and down again: `.periodic = true` does that.
struct Cosine {
  static constexpr bool per_step = true;
  long total;             ///< moves until the rate is `least`
  double least = 0.0;     ///< a fraction of the initial rate
  bool periodic = false;  ///< true: up again after `total`, as PyTorch does
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

// Linear schedules: from one factor to another, and a warm-up, alone or before a cosine.

/// LinearLR: from `start_factor` to `end_factor` in `total` equal moves, then `end_factor`.
struct Linear {
  static constexpr bool per_step = true;
  double start_factor = 1.0 / 3;  ///< the fraction of the initial rate at first
  double end_factor = 1.0;        ///< the fraction of the initial rate in the end
  long total = 5;                 ///< moves from the one to the other
  constexpr double operator()(long moves) const {
    check();
    return start_factor + (end_factor - start_factor) * done(moves, total);
  }
  void state(auto& archive);
  constexpr void check() const {
    if (total < 1) refuse("Linear", "total", total, "it must be at least 1");
    if (!is_factor(start_factor)) refuse("Linear", "start_factor", start_factor, "it must be finite and not negative");
    if (!is_factor(end_factor)) refuse("Linear", "end_factor", end_factor, "it must be finite and not negative");
  }
};

/// From the fraction `from` of the initial rate to 1 in `steps` equal moves, then 1. With 0 steps it is always 1.
struct LinearWarmup {
  static constexpr bool per_step = true;
  long steps;         ///< moves of the warm-up
  double from = 0.0;  ///< the fraction of the initial rate at first
  constexpr double operator()(long moves) const {
    check();
    return from + (1.0 - from) * done(moves, steps);
  }
  void state(auto& archive);
  constexpr void check() const {
    if (steps < 0) refuse("LinearWarmup", "steps", steps, "it must be at least 0");
    if (!is_factor(from)) refuse("LinearWarmup", "from", from, "it must be finite and not negative");
  }
};

/// A linear warm-up of `warmup` moves, then a cosine over the rest of `total`. The first step already has 1/warmup of
/// the rate, since a step with a rate of 0 would do nothing.
struct WarmupCosine {
  static constexpr bool per_step = true;
  long warmup;         ///< moves of the warm-up
  long total;          ///< moves of warm-up and cosine together
  double least = 0.0;  ///< a fraction of the initial rate
  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;

 private:
  Cosine cosine() const;
};

// Schedules that go up and down: one cycle, triangles, cosine with warm restarts. The formulas are those of
// torch.optim.lr_scheduler.

/// OneCycleLR, for an optimizer that is made with the highest rate. The rate begins at 1/div_factor of it, reaches it
/// after the fraction `pct_start` of `total` moves, and ends at 1/(div_factor * final_div_factor). With `three_phase`
/// it first falls back to its initial value, in as many moves as it rose, and then to the end. `total` is usually
/// `*ctx.estimated_steps()`; after `total` moves the last factor stays. Unless `cycle_momentum` is off, the momentum
/// (for Adam: the first beta) moves the other way, from `max_momentum` down to `base_momentum` and back.
struct OneCycle {
  enum class Anneal : std::uint8_t { cos, linear };
  static constexpr bool per_step = true;
  long total;                     ///< moves of the whole cycle
  double pct_start = 0.3;         ///< the fraction of `total` in which the rate rises
  Anneal anneal = Anneal::cos;    ///< the shape of rise and fall: `Anneal::cos` or `Anneal::linear`
  bool cycle_momentum = true;     ///< also move the momentum
  double base_momentum = 0.85;    ///< the momentum at the highest rate
  double max_momentum = 0.95;     ///< the momentum at first and in the end
  double div_factor = 25.0;       ///< the highest rate divided by the first
  double final_div_factor = 1e4;  ///< the first rate divided by the last
  bool three_phase = false;       ///< fall to the first rate, then to the last one; false: at once

  double operator()(long moves) const;
  std::optional<double> momentum(long moves) const;
  bool moves_momentum() const { return cycle_momentum; }
  void state(auto& archive);
  void check() const;

 private:
  /// The value after `moves` moves, from `start` up to `top`, down to `fallen`, and with three phases further to
  /// `last`.
  double along(long moves, double start, double top, double fallen, double last) const;
  // In a cycle of one or two moves a phase may have length 0; it is then skipped.
  double between(double from, double to, double begin, double end, double t) const;
};

/// CyclicLR: the rate rises from the optimizer's own to `peak` times that, and falls back, in triangles. Unless
/// `cycle_momentum` is off, the momentum (for Adam: the first beta) moves the other way, from `max_momentum` down to
/// `base_momentum` and back.
struct Cyclic {
  enum class Shape : std::uint8_t { triangular, triangular2, exp_range };
  static constexpr bool per_step = true;
  double peak;               ///< the highest rate, as a multiple of the optimizer's own
  long step_size_up = 2000;  ///< moves of the rise
  long step_size_down = 0;   ///< moves of the fall; 0: the same as step_size_up
  /// The heights of triangles: all equal; with triangular2 each half as high as the last; with exp_range they shrink by
  /// `gamma` per move.
  Shape shape = Shape::triangular;
  double gamma = 1.0;          ///< for exp_range
  bool cycle_momentum = true;  ///< also move the momentum
  double base_momentum = 0.8;  ///< the momentum at the highest rate
  double max_momentum = 0.9;   ///< the momentum at the lowest rate

  double operator()(long moves) const;
  std::optional<double> momentum(long moves) const;
  bool moves_momentum() const { return cycle_momentum; }
  void state(auto& archive);
  void check() const;

 private:
  double length() const;
  /// The height of the triangle after `moves` moves, from 0 to 1, rounded as PyTorch rounds it.
  double height(long moves) const;
  double scale(long moves) const;
};

/// CosineAnnealingWarmRestarts: a cosine down over `first` moves, then a restart; each cycle is `growth` times as long
/// as the one before.
struct CosineRestarts {
  static constexpr bool per_step = true;
  long first;          ///< moves of the first cycle
  long growth = 1;     ///< the length of a cycle divided by that of the one before
  double least = 0.0;  ///< a fraction of the initial rate

  double operator()(long moves) const;
  void state(auto& archive);
  void check() const;
};

// Lowers the rates when a metric has stopped improving, with the arithmetic of torch's ReduceLROnPlateau.

/// Whether the threshold of an improvement is relative to the best value, or absolute.
enum class ThresholdMode : std::uint8_t { rel, abs };

/// Options of ReduceOnPlateau: what counts as an improvement, how long to wait for one, and how to lower the rates.
struct PlateauOptions {
  ModeOption mode = Mode::min;  ///< the direction of improvement; for an accuracy: Mode::max
  double factor = 0.1;          ///< factor for the rates, below 1
  int patience = 10;        ///< number of values without improvement that are tolerated; the next one lowers the rates
  double threshold = 1e-4;  ///< an improvement must be larger than this
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< relative to the best value, or absolute
  int cooldown = 0;    ///< number of values after a reduction that are not counted as bad
  double min_lr = 0;   ///< no rate is lowered below it
  double eps = 1e-8;   ///< a rate is not changed by less than this
  bool strict = true;  ///< Error if the metric was not logged; false: the value is skipped
};

/// Lowers the learning rates when a metric has stopped improving: `scheduled(optimizer,
/// schedule::ReduceOnPlateau{Net::val_loss, {.patience = 3}})`. It reads the metric once per epoch, after all
/// `on_train_epoch_end` hooks, or with `.interval = Interval::step` after each validation. In manual optimization, call
/// `scheduler.step(value)`. It multiplies the current rates, and other schedules of the optimizer continue from the
/// result.
template <class M>
  requires requires { M::name(); }
class ReduceOnPlateau {
 public:
  using Watches = MetricTypes<M>;
  static constexpr bool sets_rates = true;

  /// Throws fulgurite.schedule.constants for invalid options.
  explicit ReduceOnPlateau(M metric, PlateauOptions options = {}) : metric_(metric), options_(options) {
    constexpr char const* name = "ReduceOnPlateau";
    if (!(options.factor >= 0 && options.factor < 1))
      refuse(name, "factor", options.factor, "it must be at least 0 and below 1");
    if (options.patience < 0) refuse(name, "patience", options.patience, "it must be at least 0");
    if (!is_factor(options.threshold))
      refuse(name, "threshold", options.threshold, "it must be finite and not negative");
    if (options.cooldown < 0) refuse(name, "cooldown", options.cooldown, "it must be at least 0");
    if (!is_factor(options.min_lr)) refuse(name, "min_lr", options.min_lr, "it must be finite and not negative");
    if (!is_factor(options.eps)) refuse(name, "eps", options.eps, "it must be finite and not negative");
  }

  M metric() const { return metric_; }
  bool strict() const { return options_.strict; }

  /// Takes one value of the metric, and lowers the optimizer's rates if patience has run out. NaN is no improvement.
  void observe(double value, auto& optimizer) {
    if (better(value)) {
      best_ = value;
      bad_ = 0;
    } else {
      ++bad_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_ = 0;
    }
    if (bad_ <= options_.patience) return;
    for (std::size_t group = 0; group != optimizer.groups(); ++group) {
      double const before = optimizer.lr(group), after = std::max(before * options_.factor, options_.min_lr);
      if (before - after > options_.eps) optimizer.set_lr(group, after);
    }
    cooldown_ = options_.cooldown;
    bad_ = 0;
  }

  double best() const { return best_; }
  int num_bad_epochs() const { return bad_; }  ///< values since the last improvement, reduction or cooldown

  void state(auto& archive) {
    archive("best", best_)("num_bad_epochs", bad_)("cooldown_counter", cooldown_);
    archive.option("mode", std::string(options_.mode == Mode::min ? "min" : "max")).option("factor", options_.factor);
    archive.option("patience", options_.patience).option("threshold", options_.threshold);
    archive.option("threshold_mode", std::string(options_.threshold_mode == ThresholdMode::rel ? "rel" : "abs"));
    archive.option("cooldown", options_.cooldown).option("min_lr", options_.min_lr).option("eps", options_.eps);
    archive.option("strict", options_.strict);
  }

 private:
  bool better(double value) const {
    bool const relative = options_.threshold_mode == ThresholdMode::rel;
    double const by = options_.threshold;
    if (options_.mode == Mode::min) return value < (relative ? best_ * (1.0 - by) : best_ - by);
    return value > (relative ? best_ * (by + 1.0) : best_ + by);
  }
  double worst() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return options_.mode == Mode::min ? infinity : -infinity;
  }

  [[no_unique_address]] M metric_;
  PlateauOptions options_;
  double best_ = worst();
  int bad_ = 0;
  int cooldown_ = 0;
};

/// Refused by the trainer: a metric must be a constant, not a text.
template <std::convertible_to<std::string_view> Text>
ReduceOnPlateau(Text const&, PlateauOptions = {}) -> ReduceOnPlateau<MetricText>;

}  // namespace fulgurite::schedule

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/schedule/schedule.ipp>
#endif
