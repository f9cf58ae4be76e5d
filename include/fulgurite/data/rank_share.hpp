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
  /// The place of this rank's i-th sample among those that all ranks take.
  std::size_t place(std::size_t i) const {
    return static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(world);
  }
  /// Its position in the order, of which the first samples come once more behind the last one.
  std::size_t position(std::size_t i, std::size_t all) const { return place(i) % all; }
};

}  // namespace fulgurite::data
