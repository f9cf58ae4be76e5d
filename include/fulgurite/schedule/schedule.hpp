#pragma once
// Learning-rate schedules as values: a count of moves in, a factor of the initial rate out. `scheduled(optimizer, schedule, ...)`
// puts one on an optimizer; anything callable with a long that returns a double is one.

#include <concepts>

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

/// How much of `total` moves is done, from 0 to 1; of none, all.
constexpr double done(long moves, long total) {
  return moves < total ? static_cast<double>(moves) / static_cast<double>(total) : 1.0;
}

/// Always the initial rate (or a part of it).
struct Constant {
  using Stateless = ByChoice;
  double factor = 1.0;
  constexpr double operator()(long) const { return factor; }
};

/// Both at once: `LinearWarmup{100} * Cosine{1000}`.
template <Schedule A, Schedule B>
struct Product {
  using Stateless = ByChoice;
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  B second;
  constexpr double operator()(long moves) const { return first(moves) * second(moves); }
};
template <Schedule A, Schedule B>
constexpr Product<A, B> operator*(A first, B second) {
  return {first, second};
}

/// One after the other: `then(LinearWarmup{100}, 100, Cosine{900})`; the second starts from 0 at `boundary`.
template <Schedule A, Schedule B>
struct Sequence {
  using Stateless = ByChoice;
  static constexpr bool per_step = counts_steps<A> || counts_steps<B>;
  A first;
  long boundary;
  B second;
  constexpr double operator()(long moves) const { return moves < boundary ? first(moves) : second(moves - boundary); }
};
template <Schedule A, Schedule B>
constexpr Sequence<A, B> then(A first, long boundary, B second) {
  return {first, boundary, second};
}

}  // namespace fulgurite::schedule
