#pragma once
// The least time of two ways to do one thing, which take turns, so that what else a machine does meets both.

#include <algorithm>
#include <array>
#include <chrono>

/// Least microseconds of a call of each, of 15 rounds of `times` calls.
template <class A, class B>
std::array<double, 2> least(int times, A&& a, B&& b) {
  std::array<double, 2> best{1e18, 1e18};
  auto const time = [&](auto& f) {
    auto const began = std::chrono::steady_clock::now();
    for (int i = 0; i != times; ++i) f();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / times;
  };
  for (int round = 0; round != 15; ++round) {
    best[0] = std::min(best[0], time(a));
    best[1] = std::min(best[1], time(b));
  }
  return best;
}
