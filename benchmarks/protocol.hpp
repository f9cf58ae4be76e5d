#pragma once
// How loops are compared on a small noisy machine: interleaved, in random order, minima beside medians, the first one against itself.
// A harness of our own, since Google Benchmark measures one variant after the other, and noise drifts.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A loop ready to run: `run(n)` takes n steps with an optimizer that starts anew; `weights()` shows what they made.
struct Loop {
  std::function<void(long)> run;
  std::function<std::vector<float>()> weights;
};

/// One kind of loop for every workload, by the workload's name.
using Loops = std::map<std::string, Loop>;

struct Protocol {
  long warm_up = 200;  ///< steps before anything is measured, the same for all, after which their weights are compared
  int rounds = 11;
  double steps_factor = 1;  ///< of the steps of a round
};

struct Row {
  std::string variant;
  std::vector<double> samples = {};  ///< microseconds a step, one a round
  double warm_up = 0;                ///< the same of the warm-up
  bool same_bits = false;            ///< its weights after the warm-up are those of the first variant

  double least() const { return *std::min_element(samples.begin(), samples.end()); }
  double median() const {
    auto sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    auto const half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
};

inline double microseconds_a_step(Loop const& loop, long steps) {
  auto const began = std::chrono::steady_clock::now();
  loop.run(steps);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / static_cast<double>(steps);
}

/// Measures the variants of one workload against each other; the first is what the others are compared with.
inline std::vector<Row> measure(std::vector<std::pair<std::string, Loop>> const& variants, long steps, Protocol const& protocol) {
  std::vector<Row> rows;
  std::vector<float> expected;
  for (auto const& [name, loop] : variants) {
    Row row{name};
    row.warm_up = microseconds_a_step(loop, protocol.warm_up);
    auto const weights = loop.weights();
    if (rows.empty()) expected = weights;
    row.same_bits = weights == expected;
    rows.push_back(std::move(row));
  }
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);
  long const taken = std::max(1L, static_cast<long>(static_cast<double>(steps) * protocol.steps_factor));
  for (int round = 0; round != protocol.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (auto const i : order) rows[i].samples.push_back(microseconds_a_step(variants[i].second, taken));
  }
  return rows;
}

}  // namespace bench
