#pragma once
// Which samples one process among several takes.

#include <cstddef>
#include <cstdint>

namespace fulgurite::data {

/// What becomes of the samples that are left over when the ranks do not divide them evenly. Ranks that reduce gradients
/// together must have equally many batches, or the one with more waits for ever: `repeat` takes the first samples once
/// more, `drop` leaves the rest out. `keep` gives the first ranks one sample more, for evaluation in which ranks do not
/// wait for each other: each sample is then seen exactly once.
enum class Leftover : std::uint8_t { repeat, drop, keep };

/// Every `world`-th position of an order that all ranks share, from `rank` on. Batch after batch, what the ranks take
/// is together what one process with batches `world` times as large would take.
struct RankShare {
  int rank = 0;
  int world = 1;
  Leftover leftover = Leftover::repeat;

  bool operator==(RankShare const&) const = default;

  /// How many of `all` positions are this rank's.
  std::size_t size(std::size_t all) const {
    auto const from = static_cast<std::size_t>(rank), step = static_cast<std::size_t>(world);
    if (leftover == Leftover::drop) return all / step;
    if (leftover == Leftover::repeat) return (all + step - 1) / step;
    return all > from ? (all - from + step - 1) / step : 0;
  }
  /// The i-th of them.
  std::size_t position(std::size_t i, std::size_t all) const {
    return (static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(world)) % all;
  }
};

}  // namespace fulgurite::data
