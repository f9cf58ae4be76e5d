#pragma once
// What a metric keeps, over all ranks: through a context, `accuracy.compute(ctx)`, or through the strategy itself.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/metric/keeps.hpp>

namespace fulgurite::metric {

/// A context: it gives all ranks what each has.
template <class Ranks>
concept Gathers = requires(Ranks& ranks, std::span<double const> numbers) { ranks.all_gather(numbers); };

/// Two numbers of a sum's kind as one.
constexpr double combined(Reduce how, double a, double b) {
  if (how == Reduce::sum) return a + b;
  if (a != a || b != b) return a + b;  // not a number: it stays visible
  return how == Reduce::max ? std::max(a, b) : std::min(a, b);
}

/// Sums, and the number of updates, become those of all ranks. Every rank has to come here.
template <class Ranks>
void add_over_ranks(Ranks& ranks, std::vector<double>& sums, Reduce how, long& updates) {
  if constexpr (Gathers<Ranks>) {
    sums.push_back(static_cast<double>(updates));
    auto const all = ranks.all_gather(std::span<double const>(sums));
    std::vector<double> total = all.front();
    for (std::size_t rank = 1; rank != all.size(); ++rank)
      for (std::size_t i = 0; i != total.size(); ++i)
        total[i] = combined(i + 1 == total.size() ? Reduce::sum : how, total[i], all[rank][i]);
    updates = static_cast<long>(total.back());
    total.pop_back();
    sums = std::move(total);
  } else if constexpr (Ranks::is_distributed) {
    std::vector<Reduce> each(sums.size(), how);
    each.push_back(Reduce::sum);
    sums.push_back(static_cast<double>(updates));
    ranks.reduce_in_place(std::span<double>(sums), std::span<Reduce const>(each));
    updates = static_cast<long>(sums.back());
    sums.pop_back();
  }
}

/// Samples become those of all ranks, in their order.
template <class Ranks>
void join_over_ranks(Ranks& ranks, std::vector<double>& samples, long& updates) {
  if constexpr (Gathers<Ranks>) {
    auto const all = ranks.all_gather(std::span<double const>(samples));
    samples.clear();
    for (auto const& part : all) samples.insert(samples.end(), part.begin(), part.end());
  } else if constexpr (Ranks::is_distributed) {
    std::string bytes(samples.size() * sizeof(double), '\0');
    if (!samples.empty()) std::memcpy(bytes.data(), samples.data(), bytes.size());
    auto const all = ranks.gather(bytes);
    samples.clear();
    for (auto const& part : all) {
      auto const begin = samples.size();
      samples.resize(begin + part.size() / sizeof(double));
      if (!part.empty()) std::memcpy(samples.data() + begin, part.data(), part.size());
    }
  }
  if (!samples.empty()) updates = std::max(updates, 1L);
}

}  // namespace fulgurite::metric
