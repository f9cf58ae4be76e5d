#pragma once
// Combines what a metric keeps over all ranks: through a context, `accuracy.compute(ctx)`, or through the strategy
// itself. Included by the files that store tensors for a meter.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

/// A context: it gathers each rank's numbers on all ranks.
template <class Ranks>
concept Gathers = requires(Ranks& ranks, std::span<double const> numbers) { ranks.all_gather(numbers); };
/// Such a context, or a strategy of several processes.
template <class Ranks>
concept SeveralRanks = Gathers<Ranks> || requires { requires Ranks::is_distributed; };

/// The numbers of each rank, in the order of the ranks.
template <SeveralRanks Ranks>
std::vector<std::vector<double>> of_each_rank(Ranks& ranks, std::vector<double> const& mine) {
  if constexpr (Gathers<Ranks>) {
    return ranks.all_gather(std::span<double const>(mine));
  } else {
    std::string bytes(mine.size() * sizeof(double), '\0');
    if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
    std::vector<std::vector<double>> all;
    for (auto const& part : ranks.gather(bytes)) {
      auto& numbers = all.emplace_back(part.size() / sizeof(double));
      if (!part.empty()) std::memcpy(numbers.data(), part.data(), part.size());
    }
    return all;
  }
}

/// Combines two numbers of a sum.
constexpr double combined(Reduce how, double a, double b) {
  if (how == Reduce::sum) return a + b;
  if (a != a || b != b) return a + b;  // NaN stays visible
  return how == Reduce::max ? std::max(a, b) : std::min(a, b);
}

/// Combines the sums, and adds the numbers of updates, over all ranks. A collective.
template <class Ranks>
void combine_over_ranks(Ranks& ranks, std::vector<double>& sums, Combining how, long& updates) {
  if constexpr (SeveralRanks<Ranks>) {
    if constexpr (!Gathers<Ranks>)
      if (!how.join) {
        std::vector<Reduce> each(sums.size(), how.reduce);
        each.push_back(Reduce::sum);
        sums.push_back(static_cast<double>(updates));
        ranks.reduce_in_place(std::span<double>(sums), std::span<Reduce const>(each));
        updates = static_cast<long>(sums.back());
        sums.pop_back();
        return;
      }
    auto mine = sums;
    mine.push_back(static_cast<double>(updates));
    updates = 0;
    for (auto& more : of_each_rank(ranks, mine)) {
      auto const more_updates = static_cast<long>(more.back());
      more.pop_back();
      if (more_updates == 0) continue;
      if (updates == 0) sums = more;
      else if (how.join) how.join(sums, more);
      else
        for (std::size_t i = 0; i != sums.size(); ++i) sums[i] = combined(how.reduce, sums[i], more[i]);
      updates += more_updates;
    }
  }
}

/// Concatenates the samples of all ranks, in the order of the ranks. A collective.
template <class Ranks>
void join_over_ranks(Ranks& ranks, std::vector<double>& samples, long& updates) {
  if constexpr (SeveralRanks<Ranks>) {
    auto const all = of_each_rank(ranks, samples);
    samples.clear();
    for (auto const& part : all) samples.insert(samples.end(), part.begin(), part.end());
  }
  if (!samples.empty()) updates = std::max(updates, 1L);
}

}  // namespace fulgurite::metric
