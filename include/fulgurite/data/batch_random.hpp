#pragma once
// The random numbers of one batch, for what changes batches as they are made.

#include <cstddef>
#include <cstdint>

#include <fulgurite/data/random.hpp>
#include <fulgurite/data/rank_share.hpp>

namespace fulgurite::data {

/// Depends on the seed, the epoch, the number of the batch and the rank alone: every rank draws numbers of its own.
/// `row(i)` is a generator for the i-th sample of the batch, and depends on the sample's place in the whole epoch, so
/// that what is drawn from it is the same in one process and in several, and for every batch size.
class BatchRandom : public Random {
 public:
  BatchRandom(std::uint64_t seed, long epoch, std::size_t batch, long batch_size, RankShare const& share)
      : Random(seed, static_cast<std::uint64_t>(epoch),
               batch * static_cast<std::size_t>(share.world) + static_cast<std::size_t>(share.rank)),
        seed_(seed),
        epoch_(static_cast<std::uint64_t>(epoch)),
        first_(batch * static_cast<std::size_t>(batch_size)),
        share_(share) {}

  Random row(std::size_t i) const { return Random{~seed_, epoch_, share_.place(first_ + i)}; }

 private:
  std::uint64_t seed_, epoch_;
  std::size_t first_;
  RankShare share_;
};

}  // namespace fulgurite::data
