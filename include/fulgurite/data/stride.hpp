#pragma once
// The sampler of one process among several: it takes every world-th sample of an order that all processes share.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/cycle.hpp>
#include <range/v3/view/drop.hpp>
#include <range/v3/view/stride.hpp>
#include <range/v3/view/take.hpp>

#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// Visits every `world`-th position of `inner`, starting at `rank`: `Stride{Shuffle{n, seed}, {.rank = 1, .world = 4}}`
/// visits positions 1, 5, 9, ... of the shuffled order. All ranks need the same inner sampler with the same seed, and
/// the same epoch.
template <Sampler Inner>
class Stride {
 public:
  static constexpr bool shares_samples = true;  ///< so a loader with this sampler is not sharded again
  struct Options {
    int rank = 0;
    int world = 1;
    Leftover leftover = Leftover::repeat;
  };

  /// Throws [fulgurite.data.rank] unless 0 <= rank < world.
  Stride(Inner inner, Options options) : inner_(std::move(inner)), options_(options) {
    if (options.rank < 0 || options.rank >= options.world)
      throw Error("fulgurite.data.rank", "rank " + std::to_string(options.rank) + " of a world of " +
                                             std::to_string(options.world) + ": ranks count from 0 to world - 1");
  }

  RankShare share() const { return {options_.rank, options_.world, options_.leftover}; }
  std::size_t size() const { return share().size(inner_.size()); }

  std::vector<std::size_t> indices(long epoch) const {
    namespace views = ranges::views;
    if (size() == 0) return {};
    std::vector<std::size_t> order;
    each_index(inner_, epoch, std::size_t(-1), [&](std::size_t index) { order.push_back(index); });
    return order | views::cycle | views::drop(rank()) | views::stride(world()) | views::take(size()) |
           ranges::to<std::vector<std::size_t>>();
  }

  std::uint64_t order_key() const
    requires requires(Inner const& inner) { inner.order_key(); }
  {
    return inner_.order_key();
  }

  void state(auto& archive) {
    if constexpr (requires { inner_.state(archive); }) inner_.state(archive);
  }
  void in_order(bool on) {
    if constexpr (requires { inner_.in_order(on); }) inner_.in_order(on);
  }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(options_.rank); }
  std::size_t world() const { return static_cast<std::size_t>(options_.world); }

  Inner inner_;
  Options options_;
};

}  // namespace fulgurite::data
