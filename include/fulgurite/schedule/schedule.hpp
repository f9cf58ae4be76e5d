#pragma once
// Learning-rate schedules as values: a count of moves in, a factor of the initial rate out. `scheduled(optimizer, schedule, ...)`
// puts one on an optimizer; anything callable with a long that returns a double is one.

#include <concepts>
#include <limits>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite::schedule {

/// `factor = schedule(moves)`. Made of a number of steps, it says `static constexpr bool per_step = true` and moves every
/// optimizer step; all others move every epoch, unless ScheduleOptions::interval says otherwise.
template <class S>
concept Schedule = requires(S const& schedule, long moves) { { schedule(moves) } -> std::convertible_to<double>; };

template <class S>
inline constexpr bool counts_steps = [] {
  if constexpr (requires { S::per_step; }) return bool(S::per_step);
  else return false;
}();

/// Constants that make no schedule are one Error, from the first factor on: when the optimizers are made.
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

/// Fit to be a factor: neither negative nor infinite nor NaN.
constexpr bool is_factor(double value) { return value >= 0 && value <= std::numeric_limits<double>::max(); }

/// How much of `total` moves is done, from 0 to 1; of none, all.
constexpr double done(long moves, long total) {
  return moves < total ? static_cast<double>(moves) / static_cast<double>(total) : 1.0;
}

/// Always the initial rate (or a part of it). ConstantLR is `then(Constant{1.0 / 3}, 5, Constant{})`.
struct Constant {
  using Stateless = ByChoice;
  double factor = 1.0;
  constexpr double operator()(long) const {
    check();
    return factor;
  }
  constexpr void check() const {
    if (!is_factor(factor)) refuse("Constant", "factor", factor, "a factor is finite and not negative");
  }
};

/// Both at once: `LinearWarmup{100} * Cosine{1000}` (torch's ChainedScheduler).
template <Schedule A, Schedule B>
struct Product {
  using Stateless = ByChoice;
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  B second;
  constexpr double operator()(long moves) const { return first(moves) * second(moves); }
  constexpr void check() const {
    schedule::check(first);
    schedule::check(second);
  }
};
template <Schedule A, Schedule B>
constexpr Product<A, B> operator*(A first, B second) {
  return {first, second};
}

/// One after the other: what `then` makes.
template <Schedule A, Schedule B>
struct Sequence {
  using Stateless = ByChoice;
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  long boundary;
  B second;
  constexpr double operator()(long moves) const {
    check();
    return moves < boundary ? first(moves) : second(moves - boundary);
  }
  constexpr void check() const {
    if (boundary < before()) refuse("then", "boundary", boundary, "boundaries count moves from the start of the run and ascend");
    schedule::check(first);
    schedule::check(second);
  }

 private:
  constexpr long before() const {
    if constexpr (requires { first.boundary; }) return first.boundary;
    else return 0;
  }
};

/// SequentialLR: `then(LinearWarmup{100}, 100, Cosine{900})`; `second` starts from its own 0 at move `boundary`. Goes on with more:
/// `then(LinearWarmup{100}, 100, Constant{}, 500, Cosine{400})`, all boundaries counted from the start of the run.
template <Schedule A, Schedule B, class... Rest>
constexpr auto then(A first, long boundary, B second, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) return Sequence<A, B>{first, boundary, second};
  else return then(Sequence<A, B>{first, boundary, second}, rest...);
}

}  // namespace fulgurite::schedule
