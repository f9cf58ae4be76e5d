#pragma once
// The sampler of one process among several: it takes every world-th sample of an order that all of them share.

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

/// What becomes of the samples that are left over when the ranks do not divide them evenly. Ranks that reduce gradients
/// together must have equally many batches, or the one with more waits for ever: `repeat` takes the first samples once
/// more, `drop` leaves the rest out. `keep` gives the first ranks one sample more, for evaluation in which ranks do not
/// wait for each other: each sample is then seen exactly once.
enum class Leftover : std::uint8_t { repeat, drop, keep };

/// Visits every `world`-th position of `inner`, from `rank` on: `Stride{Shuffle{n, seed}, {.rank = 1, .world = 4}}`
/// visits 1, 5, 9, ... of the shuffled order. All ranks need the same inner sampler, with the same seed, and the same
/// epoch.
template <Sampler Inner>
class Stride {
 public:
  struct Options {
    int rank = 0;
    int world = 1;
    Leftover leftover = Leftover::repeat;
  };

  /// Error [fulgurite.data.rank] unless 0 <= rank < world.
  Stride(Inner inner, Options options) : inner_(std::move(inner)), options_(options) {
    if (options.rank < 0 || options.rank >= options.world)
      throw Error("fulgurite.data.rank", "rank " + std::to_string(options.rank) + " of a world of " +
                                             std::to_string(options.world) + ": ranks count from 0 to world - 1");
  }

  std::size_t size() const {
    std::size_t const all = inner_.size();
    if (options_.leftover == Leftover::drop) return all / world();
    if (options_.leftover == Leftover::repeat) return (all + world() - 1) / world();
    return all > rank() ? (all - rank() + world() - 1) / world() : 0;
  }

  std::vector<std::size_t> indices(long epoch) const {
    namespace views = ranges::views;
    if (size() == 0) return {};
    auto const order = inner_.indices(epoch) | ranges::to<std::vector<std::size_t>>();
    return order | views::cycle | views::drop(rank()) | views::stride(world()) | views::take(size()) |
           ranges::to<std::vector<std::size_t>>();
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
