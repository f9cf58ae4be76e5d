#pragma once
// Samplers: which samples an epoch visits, and in which order. A pure function of the sampler and the epoch's number.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/random.hpp>

namespace fulgurite::data {

/// A sampler: `indices(epoch)` is a range of `size()` positions in a dataset. Called twice with the same epoch it gives
/// the same order, whatever happened in between.
template <class S>
concept Sampler = std::movable<S> && requires(S const& sampler, long epoch) {
  { sampler.size() } -> std::convertible_to<std::size_t>;
  { sampler.indices(epoch) } -> std::ranges::input_range;
};

/// A number that stands for what `sampler` visits and how, but for the epoch: a fit that resumes inside an epoch needs
/// the same. -1: the sampler does not say, by `std::uint64_t order_key() const`.
template <Sampler S>
long order_of(S const& sampler) {
  if constexpr (requires { sampler.order_key(); }) return static_cast<long>(sampler.order_key() >> 1);
  else return -1;
}

/// Calls `f(index)` for each position of an epoch. Error [fulgurite.data.index] for one that a dataset of `samples`
/// samples does not have.
template <Sampler S>
void each_index(S const& sampler, long epoch, std::size_t samples, auto&& f) {
  for (std::size_t const index : sampler.indices(epoch)) {
    if (index >= samples)
      throw Error("fulgurite.data.index", "the sampler asks for sample " + std::to_string(index) +
                                              " of a dataset that has " + std::to_string(samples) +
                                              ": make the sampler with the size of this dataset");
    f(index);
  }
}

/// The number of batches in an epoch. The last one may be smaller, unless it is dropped.
inline std::size_t batch_count(std::size_t samples, long batch_size, bool drop_last) {
  auto const each = static_cast<std::size_t>(batch_size);
  return drop_last ? samples / each : (samples + each - 1) / each;
}

/// Checks an option that is a count: throws an Error with `identifier` where `value` is less than `least`.
inline void at_least(long least, std::string_view identifier, std::string const& option, long value) {
  if (value < least)
    throw Error(identifier, option + " is " + std::to_string(value) + ": it must be at least " + std::to_string(least));
}

/// Visits 0, 1, 2, ...: for validation, and for data that have an order of their own.
struct Sequential {
  std::size_t count = 0;

  std::size_t size() const { return count; }
  auto indices(long /*epoch*/) const { return std::views::iota(std::size_t{0}, count); }
  std::uint64_t order_key() const { return 2; }
};

/// Visits 0 to count-1 in an order that is another one in each epoch: the shuffle of Fisher and Yates, from the end,
/// where i swaps with one of 0 .. i, on `Random{seed, epoch}`. All orders are equally likely, and epoch 7 can be had
/// without the six before it.
struct Shuffle {
  std::size_t count = 0;
  std::uint64_t seed = 0;

  std::size_t size() const { return count; }

  std::vector<std::size_t> indices(long epoch) const {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    Random random{seed, static_cast<std::uint64_t>(epoch)};
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order;
  }
  std::uint64_t order_key() const { return 4 + (seed << 3); }

  void state(auto& archive) { archive.option("seed", static_cast<long>(seed)); }
};

/// The sampler of a loader's options `.shuffle` and `.seed`: `Shuffle` or `Sequential`, chosen at run time.
struct OptionalShuffle {
  std::size_t count = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool ordered = false;  ///< while true, nothing is shuffled

  std::size_t size() const { return count; }

  std::vector<std::size_t> indices(long epoch) const {
    if (shuffle && !ordered) return Shuffle{count, seed}.indices(epoch);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
  }

  std::uint64_t order_key() const { return shuffle ? Shuffle{count, seed}.order_key() : Sequential{}.order_key(); }

  void state(auto& archive) { archive.option("shuffle", shuffle).option("seed", static_cast<long>(seed)); }
  void in_order(bool on) { ordered = on; }
};

/// Visits some samples of a dataset, in the order in which `inner` visits their positions in the list:
/// `Subset{split.train, Shuffle{split.train.size(), seed}}`. `Subset{chosen}` keeps the order of the list.
template <Sampler Inner = Sequential>
class Subset {
 public:
  explicit Subset(std::vector<std::size_t> chosen)
    requires std::same_as<Inner, Sequential>
      : Subset(std::move(chosen), Sequential{}) {
    inner_.count = chosen_.size();
  }

  /// Error [fulgurite.data.subset] where `inner` could visit a position beyond the list.
  Subset(std::vector<std::size_t> chosen, Inner inner) : chosen_(std::move(chosen)), inner_(std::move(inner)) {
    if (inner_.size() > chosen_.size())
      throw Error("fulgurite.data.subset", "the inner sampler visits " + std::to_string(inner_.size()) +
                                               " positions of a subset that has " + std::to_string(chosen_.size()) +
                                               ": make it with the size of the subset, not of the whole");
  }

  std::size_t size() const { return inner_.size(); }

  std::vector<std::size_t> indices(long epoch) const {
    std::vector<std::size_t> order;
    order.reserve(size());
    for (std::size_t const position : inner_.indices(epoch)) order.push_back(chosen_[position]);
    return order;
  }
  std::uint64_t order_key() const
    requires requires(Inner const& inner) { inner.order_key(); }
  {
    std::uint64_t key = inner_.order_key();
    for (auto const index : chosen_) key = (key ^ index) * 0x100000001b3U;  // Fowler, Noll and Vo
    return key;
  }

  void state(auto& archive) {
    if constexpr (requires { inner_.state(archive); }) inner_.state(archive);
  }
  void in_order(bool on) {
    if constexpr (requires { inner_.in_order(on); }) inner_.in_order(on);
  }

 private:
  std::vector<std::size_t> chosen_;
  Inner inner_;
};

}  // namespace fulgurite::data
