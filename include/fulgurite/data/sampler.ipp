#pragma once
// The bodies of data/sampler.hpp.

#include <cmath>
#include <numeric>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY std::size_t RankShare::size(std::size_t all) const {
  auto const from = static_cast<std::size_t>(rank), step = static_cast<std::size_t>(world);
  if (leftover == Leftover::drop) return all / step;
  if (leftover == Leftover::repeat) return (all + step - 1) / step;
  return all > from ? (all - from + step - 1) / step : 0;
}

FULGURITE_BULK_BODY std::size_t RankShare::place(std::size_t i) const {
  return static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(world);
}

FULGURITE_BULK_BODY BatchRandom::BatchRandom(std::uint64_t seed, long epoch, std::size_t batch, long batch_size,
                                             RankShare const& share)
    : Random(seed, static_cast<std::uint64_t>(epoch),
             batch * static_cast<std::size_t>(share.world) + static_cast<std::size_t>(share.rank)),
      seed_(seed),
      epoch_(static_cast<std::uint64_t>(epoch)),
      first_(batch * static_cast<std::size_t>(batch_size)),
      share_(share) {}

FULGURITE_BULK_BODY Random BatchRandom::row(std::size_t i) const {
  return Random{~seed_, epoch_, share_.place(first_ + i)};
}

FULGURITE_BULK_BODY void refuse_sampler_size(std::size_t size, std::size_t had, bool more) {
  throw Error("fulgurite.data.sampler_size",
              "the sampler's size() promises " + std::to_string(size) + " positions, and its indices(epoch) has " +
                  (more ? "more than " : "") + std::to_string(had) + ": make the two agree");
}

FULGURITE_BULK_BODY std::size_t batch_count(std::size_t samples, long batch_size, bool drop_last) {
  auto const each = static_cast<std::size_t>(batch_size);
  return drop_last ? samples / each : (samples + each - 1) / each;
}

FULGURITE_BULK_BODY void at_least(long least, std::string_view identifier, std::string const& option, long value) {
  if (value < least)
    throw Error(identifier, option + " is " + std::to_string(value) + ": it must be at least " + std::to_string(least));
}

FULGURITE_BULK_BODY std::vector<std::size_t> positions_in(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> positions(end - begin);
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

FULGURITE_BULK_BODY Subset<OptionalShuffle> shuffled(std::vector<std::size_t> chosen, bool shuffle,
                                                     std::uint64_t seed) {
  OptionalShuffle const order{chosen.size(), shuffle, seed};
  return {std::move(chosen), order};
}

FULGURITE_BULK_BODY std::vector<std::size_t> Shuffle::indices(long epoch) const {
  auto order = positions_in(0, count);
  Random random{seed, static_cast<std::uint64_t>(epoch)};
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

FULGURITE_BULK_BODY std::vector<std::size_t> OptionalShuffle::indices(long epoch) const {
  return shuffle && !ordered ? Shuffle{count, seed}.indices(epoch) : positions_in(0, count);
}

FULGURITE_BULK_BODY std::uint64_t OptionalShuffle::order_key() const {
  return shuffle ? Shuffle{count, seed}.order_key() : Sequential{}.order_key();
}

FULGURITE_BULK_BODY std::size_t Share::of(std::size_t total) const {
  auto const all = static_cast<double>(total);
  double const part = std::round(fraction_ ? value_ * all : value_);
  bool const valid = value_ >= 0 && (!fraction_ || value_ < 1) && (part < all || (total == 0 && part == 0));
  if (!valid)
    throw Error("fulgurite.data.share",
                (fraction_ ? "the fraction " : "the count ") + std::to_string(value_) + " of " + std::to_string(total) +
                    " samples to put aside: give a fraction in [0, 1) (as 0.2) or a count below " +
                    std::to_string(total) + ", so that at least one remains");
  return static_cast<std::size_t>(part);
}

FULGURITE_BULK_BODY Split split(std::size_t total, Share validation, std::uint64_t seed) {
  constexpr long stream = -1;  // epochs count from 0: no epoch's order is related to the split
  std::size_t const aside = validation.of(total);
  std::vector<std::size_t> order = Shuffle{total, seed}.indices(stream);
  auto const middle = order.begin() + static_cast<std::ptrdiff_t>(aside);
  Split parts{{middle, order.end()}, {order.begin(), middle}};
  std::ranges::sort(parts.train);
  std::ranges::sort(parts.validation);
  return parts;
}

void Shuffle::state(auto& archive) { archive.option("seed", static_cast<long>(seed)); }
FULGURITE_STATE(Shuffle)

void OptionalShuffle::state(auto& archive) {
  archive.option("shuffle", shuffle).option("seed", static_cast<long>(seed));
}
FULGURITE_STATE(OptionalShuffle)

FULGURITE_INSTANTIATE(class Subset<OptionalShuffle>);
FULGURITE_INSTANTIATE(class Subset<Sequential>);

}  // namespace fulgurite::data
