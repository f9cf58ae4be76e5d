#pragma once
// Learning-rate schedules as values: a count of moves in, a factor of the initial rate out; some have a momentum, too.
// `scheduled(optimizer, schedule, ...)` gives one to an optimizer. Anything that takes a long and returns a double is a
// schedule. When schedules move: docs/semantics.md, Schedules.

#include <concepts>
#include <limits>
#include <optional>
#include <string>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite::schedule {

/// What a schedule is: callable with the number of its moves so far, and its result is the factor of each group's
/// initial learning rate. A schedule that is made of a number of steps says `static constexpr bool per_step = true` and
/// then moves with every optimizer step; all others move once an epoch, unless ScheduleOptions::interval says
/// otherwise.
template <class S>
concept Schedule = requires(S const& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};

/// A schedule that moves the momentum as well (for Adam: the first beta). `momentum(moves)` returns the value for all
/// parameter groups, or nothing where the momentum stays as it is. A schedule that has the function but never moves the
/// momentum says so by `moves_momentum()`.
template <class S>
concept MomentumSchedule = Schedule<S> && requires(S const& schedule, long moves) {
  { schedule.momentum(moves) } -> std::convertible_to<std::optional<double>>;
};

/// The momentum after so many moves, of any schedule.
template <class S>
constexpr std::optional<double> momentum_of(S const& schedule, long moves) {
  if constexpr (MomentumSchedule<S>) return schedule.momentum(moves);
  else return std::nullopt;
}
/// Whether it moves the momentum at some time.
template <class S>
constexpr bool moves_momentum(S const& schedule) {
  if constexpr (requires { schedule.moves_momentum(); }) return schedule.moves_momentum();
  else return MomentumSchedule<S>;
}

/// The schedule is made of a number of steps, and moves at each; others move once an epoch.
template <class S>
inline constexpr bool counts_steps = [] {
  if constexpr (FULGURITE_SAYS(S, bool, per_step)) return S::per_step;
  else return false;
}();

/// Refuses constants that make no schedule with the Error [fulgurite.schedule.constants]. It is thrown when the first
/// factor is asked for, which is when the optimizers are made.
template <class Value>
[[noreturn]] void refuse(char const* schedule, char const* constant, Value value, char const* rule) {
  throw Error("fulgurite.schedule.constants", std::string("schedule::") + schedule + " with ." + constant + " = " +
                                                  std::to_string(value) + ": " + rule);
}

/// Checks the constants of a schedule that can check them, in sequences and products, too.
template <class S>
constexpr void check(S const& schedule) {
  if constexpr (requires { schedule.check(); }) schedule.check();
}

/// Saves or loads the constants of a schedule inside another one. A function has none that could be known.
template <class S>
void state_of(char const* name, S& schedule, auto& archive) {
  if constexpr (requires { schedule.state(archive); }) archive.child(name, schedule);
}

/// Whether a number can be a momentum: at least 0 and below 1.
constexpr bool is_momentum(double value) { return value >= 0 && value < 1; }

/// Whether a number can be a factor of a rate: neither negative nor infinite nor NaN.
constexpr bool is_factor(double value) { return value >= 0 && value <= std::numeric_limits<double>::max(); }

/// The part of `total` moves that is done, from 0 to 1. Where `total` is 0, all of it is.
constexpr double done(long moves, long total) {
  return moves < total ? static_cast<double>(moves) / static_cast<double>(total) : 1.0;
}

/// Always the initial rate (or a part of it). ConstantLR is `then(Constant{1.0 / 3}, 5, Constant{})`.
struct Constant {
  double factor = 1.0;
  constexpr double operator()(long) const {
    check();
    return factor;
  }
  void state(auto& archive) { archive.option("factor", factor); }
  constexpr void check() const {
    if (!is_factor(factor)) refuse("Constant", "factor", factor, "a factor is finite and not negative");
  }
};

/// The factors of a schedule without its momentum: what `rate_only` makes.
template <Schedule S>
struct RateOnly {
  static constexpr bool per_step = counts_steps<S>;
  S of;
  constexpr double operator()(long moves) const { return of(moves); }
  void state(auto& archive) { state_of("of", of, archive); }
  constexpr void check() const { schedule::check(of); }
};
/// Takes a schedule's factors and leaves its momentum alone, for an optimizer that has none: `scheduled(adagrad,
/// schedule::rate_only(schedule::OneCycle{.total = 100}))`.
template <Schedule S>
constexpr RateOnly<S> rate_only(S of) {
  return {of};
}

/// Two schedules multiplied: `LinearWarmup{100} * Cosine{1000}` (torch's ChainedScheduler).
template <Schedule A, Schedule B>
struct Product {
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  B second;
  constexpr double operator()(long moves) const { return first(moves) * second(moves); }
  /// Where both schedules move the momentum, the second one's value counts.
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
/// Multiplies two schedules, see Product.
template <Schedule A, Schedule B>
constexpr Product<A, B> operator*(A first, B second) {
  return {first, second};
}

/// Two schedules, one after the other; `then` makes it.
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
  /// While `second` has no momentum, it stays where `first` left it.
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
      refuse("then", "boundary", boundary, "boundaries count moves from the start of the run and ascend");
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

}  // namespace fulgurite::schedule
