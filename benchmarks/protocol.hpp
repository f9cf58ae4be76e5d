#pragma once
// How loops are compared on a small noisy machine: interleaved, in random order, minima beside medians, the first one
// against itself. A harness of our own, since Google Benchmark measures one variant after the other, and noise drifts.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "turns.hpp"

namespace bench {

inline double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  auto const half = all.size() / 2;
  return all.size() % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
}

/// Times the steps of a round behind its warm-up. Of 100 steps or more the mean is taken, ends of a fit and checks of a
/// capture included. Fewer are timed one by one and their median is taken: a check that comes once in 500 steps must
/// not count as one in ten.
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  Stopwatch(long warm_up, long steps) : warm_up_(warm_up), steps_(steps) {
    marks_.reserve(few() ? static_cast<std::size_t>(steps) + 1 : 1);
  }

  /// A step begins.
  void step() {
    if (seen_ == warm_up_ || (seen_ > warm_up_ && few())) marks_.push_back(Clock::now());
    ++seen_;
  }
  /// Of a step, in microseconds; the last one ends now.
  double result() {
    auto const end = Clock::now();
    if (!few()) return microseconds(marks_.front(), end) / static_cast<double>(steps_);
    std::vector<double> each;
    for (std::size_t i = 0; i != marks_.size(); ++i)
      each.push_back(microseconds(marks_[i], i + 1 == marks_.size() ? end : marks_[i + 1]));
    return median(std::move(each));
  }

  static double microseconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
  }

 private:
  bool few() const { return steps_ < 100; }
  long warm_up_, steps_, seen_ = 0;
  std::vector<Clock::time_point> marks_;
};

/// A loop ready to run. `run(warm_up, steps)` trains so many steps with an optimizer that starts afresh and gives the
/// microseconds of one of the latter.
struct Loop {
  std::function<double(long warm_up, long steps)> run;
  std::function<std::string()> bits = [] { return std::string(); };  ///< of all that it has made: nets.hpp
  std::function<std::string()> note = [] { return std::string(); };  ///< what else is to be said of it
};

/// One kind of loop for the workloads that it has, by their names. Made when it is needed: a workload's memory is not
/// the next one's.
using Loops = std::map<std::string, std::function<Loop()>>;

struct Row {
  std::string variant;
  std::vector<double> samples = {};  ///< microseconds a step, one a round
  double warm_up = 0;     ///< the mean of the very first steps: loaders start, steps are captured, memory is touched
  bool same_bits = true;  ///< after that and after the last round all is as the first variant has made it
  std::string hash = {};  ///< of what there is after the last round
  std::string note = {};

  double least() const { return *std::min_element(samples.begin(), samples.end()); }
};

/// So that runs can be compared, too; empty where nothing is trained.
inline std::string hash_of(std::string const& bits) {
  std::uint64_t all = 0xcbf29ce484222325U;
  for (char const c : bits) all = (all ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(all));
  return bits.empty() ? "" : text;
}

/// Compares what the loops have made so far; all of them have taken the same steps.
inline void compare(std::vector<Row>& rows, std::vector<std::pair<std::string, Loop>> const& variants) {
  auto const first = variants.front().second.bits();
  for (std::size_t i = 0; i != rows.size(); ++i) {
    auto const bits = variants[i].second.bits();
    rows[i].same_bits = rows[i].same_bits && bits == first;
    rows[i].hash = hash_of(bits);
  }
}

/// Measures the variants of one workload against each other; the first is what the others are compared with. Every
/// round warms up again.
inline std::vector<Row> measure(std::vector<std::pair<std::string, Loop>> const& variants, long warm_up, long steps,
                                int rounds) {
  std::vector<Row> rows;
  for (auto const& [name, loop] : variants) {
    auto const began = Stopwatch::Clock::now();
    loop.run(0, warm_up);
    rows.push_back({.variant = name,
                    .warm_up = Stopwatch::microseconds(began, Stopwatch::Clock::now()) / static_cast<double>(warm_up)});
  }
  compare(rows, variants);
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round != rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (auto const i : order) rows[i].samples.push_back(variants[i].second.run(warm_up, steps));
    give_turn();
  }
  compare(rows, variants);
  for (std::size_t i = 0; i != rows.size(); ++i) rows[i].note = variants[i].second.note();
  return rows;
}

/// One run of each variant: nothing is timed, weights are compared at its end.
inline std::vector<Row> train(std::vector<std::pair<std::string, Loop>> const& variants, long steps) {
  std::vector<Row> rows;
  for (auto const& [name, loop] : variants) {
    loop.run(0, steps);
    rows.push_back({.variant = name});
  }
  compare(rows, variants);
  return rows;
}

}  // namespace bench
