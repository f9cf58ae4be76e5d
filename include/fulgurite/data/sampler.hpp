#pragma once
// Samplers decide which samples an epoch visits, and in which order: a pure function of the sampler and the epoch.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite::data {

// The library's own generator: the same numbers with every compiler and standard library, without global state.

/// xoshiro256** (Blackman and Vigna, 2018), a value type: copy it to repeat its numbers, give it a stream to get an
/// independent generator.
///
/// `Random{seed, epoch, batch}` is a pure function of its arguments, so the numbers for one batch do not depend on how
/// many were drawn before: an epoch that is resumed in the middle sees the same data. The four words of state come from
/// splitmix64 (Steele, Lea and Flood, 2014), started at a mix of the three arguments.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0, std::uint64_t substream = 0) {
    std::uint64_t key = mixed(mixed(mixed(seed + golden) ^ (stream + golden)) ^ (substream + golden));
    for (auto& word : state_) word = mixed(key += golden);
  }

  /// Starts from the four words of the state, as in published test vectors.
  explicit constexpr Random(std::array<std::uint64_t, 4> const& state) : state_(state) {}

  constexpr std::uint64_t operator()() {
    std::uint64_t const result = std::rotl(state_[1] * 5, 7) * 9;
    std::uint64_t const shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// An integer in [0, n), n > 0, all equally likely: draws below 2^64 mod n are discarded.
  constexpr std::uint64_t below(std::uint64_t n) {
    std::uint64_t const unfair = (0 - n) % n;
    std::uint64_t drawn = (*this)();
    while (drawn < unfair) drawn = (*this)();
    return drawn % n;
  }

  /// A number in [0, 1) with 53 random bits.
  constexpr double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return std::numeric_limits<std::uint64_t>::max(); }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

  /// The output function of splitmix64.
  static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};

/// What happens to the remaining samples if the ranks do not divide them evenly. Ranks that reduce gradients together
/// must have equally many batches, or the one with more waits forever: `repeat` takes the first samples again, `drop`
/// leaves the rest out. `keep` gives the first ranks one more sample, for evaluation in which ranks do not wait for
/// each other: each sample is then seen exactly once.
enum class Leftover : std::uint8_t { repeat, drop, keep };

/// Every `world`-th position of an order that all ranks share, starting at `rank`. The k-th batches of all ranks
/// together are the k-th batch of one process with batches `world` times as large.
struct RankShare {
  int rank = 0;
  int world = 1;
  Leftover leftover = Leftover::repeat;

  bool operator==(RankShare const&) const = default;

  /// The number of positions, out of `all`, that belong to this rank.
  std::size_t size(std::size_t all) const;
  /// The index of this rank's i-th sample in the sequence of all ranks' samples.
  std::size_t place(std::size_t i) const;
  /// The position of this rank's i-th sample in the order; after the last position the order starts again.
  std::size_t position(std::size_t i, std::size_t all) const { return place(i) % all; }
};

// The random numbers of one batch, for functions that augment batches while making them.

/// Depends only on the seed, the epoch, the number of the batch and the rank: every rank draws its own numbers.
/// `row(i)` is a generator for the i-th sample of the batch. It depends on the sample's place in the whole epoch, so
/// its numbers are the same in one process and in several, and for every batch size:
///
///     auto shift = [](std::vector<float> samples, data::BatchRandom& random) {
///       for (std::size_t i = 0; i != samples.size(); ++i) samples[i] += float(random.row(i).uniform(-0.1, 0.1));
///       return samples;
///     };
class BatchRandom : public Random {
 public:
  BatchRandom(std::uint64_t seed, long epoch, std::size_t batch, long batch_size, RankShare const& share);

  Random row(std::size_t i) const;

 private:
  std::uint64_t seed_, epoch_;
  std::size_t first_;
  RankShare share_;
};

/// A sampler: `indices(epoch)` is a range of `size()` positions in a dataset; a loader refuses one that has more or
/// fewer. Two calls with the same epoch must give the same order, whatever happened between them:
///
///     struct Chosen {
///       std::vector<std::size_t> positions;
///       std::size_t size() const { return positions.size(); }
///       std::vector<std::size_t> const& indices(long) const { return positions; }
///     };
template <class S>
concept Sampler = std::movable<S> && requires(S const& sampler, long epoch) {
  { sampler.size() } -> std::convertible_to<std::size_t>;
  { sampler.indices(epoch) } -> std::ranges::input_range;
};

/// A sampler that gives each rank its own part already, so that a loader with it is not sharded again: it says `static
/// constexpr bool shares_samples = true`.
template <class S>
concept SharesSamples = requires { requires S::shares_samples; };

/// A number that identifies the samples and the kind of order of `sampler`, regardless of the epoch: resuming a fit
/// inside an epoch needs the same number. -1 if the sampler has no `std::uint64_t order_key() const`.
template <Sampler S>
long order_of(S const& sampler) {
  if constexpr (requires { sampler.order_key(); }) return static_cast<long>(sampler.order_key() >> 1);
  else return -1;
}

/// Throws [fulgurite.data.sampler_size] for a sampler that does not have `size` positions: it has more, or had `had`.
[[noreturn]] void refuse_sampler_size(std::size_t size, std::size_t had, bool more);

/// Calls `f(index)` for each position of an epoch, `sampler.size()` times. Throws [fulgurite.data.index] for a position
/// beyond the dataset's `samples` samples, and [fulgurite.data.sampler_size].
void each_index(Sampler auto const& sampler, long epoch, std::size_t samples, auto&& f) {
  std::size_t const size = sampler.size();
  std::size_t had = 0;
  for (std::size_t const index : sampler.indices(epoch)) {
    if (had++ == size) refuse_sampler_size(size, size, true);
    if (index >= samples)
      throw Error("fulgurite.data.index", "the sampler asks for sample " + std::to_string(index) +
                                              " of a dataset that has " + std::to_string(samples) +
                                              ": make the sampler with the size of this dataset");
    f(index);
  }
  if (had != size) refuse_sampler_size(size, had, false);
}

/// The number of batches in an epoch. The last one may be smaller, unless it is dropped.
std::size_t batch_count(std::size_t samples, long batch_size, bool drop_last);

/// Checks an option that is a count: throws an Error with `identifier` if `value` is less than `least`.
void at_least(long least, std::string_view identifier, std::string const& option, long value);

/// The range 0, 1, 2, ..., count - 1. std::views::iota would do, but its header takes longer to compile than this one.
struct Positions {
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::size_t;

    std::size_t at = 0;

    std::size_t operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    Iterator operator++(int) { return {at++}; }
    bool operator==(Iterator const&) const = default;
  };

  std::size_t count = 0;

  Iterator begin() const { return {0}; }
  Iterator end() const { return {count}; }
  std::size_t size() const { return count; }
  std::size_t operator[](std::size_t position) const { return position; }
};

/// Visits 0, 1, 2, ...: for validation, and for data with an order of their own.
struct Sequential {
  std::size_t count = 0;

  std::size_t size() const { return count; }
  Positions indices(long /*epoch*/) const { return {count}; }
  std::uint64_t order_key() const { return 2; }
};

/// Visits 0 to count-1 in a new order in each epoch: the Fisher-Yates shuffle from the end, in which i swaps with one
/// of 0 .. i, drawn from `Random{seed, epoch}`. All orders are equally likely, and the order of epoch 7 needs none of
/// the six before it.
struct Shuffle {
  std::size_t count = 0;
  std::uint64_t seed = 0;

  std::size_t size() const { return count; }

  std::vector<std::size_t> indices(long epoch) const;
  std::uint64_t order_key() const { return 4 + (seed << 3); }

  void state(auto& archive);
};

/// The sampler of a loader's options `.shuffle` and `.seed`: `Shuffle` or `Sequential`, chosen at run time.
struct OptionalShuffle {
  std::size_t count = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool ordered = false;  ///< while true, nothing is shuffled

  std::size_t size() const { return count; }

  std::vector<std::size_t> indices(long epoch) const;

  std::uint64_t order_key() const;

  void state(auto& archive);
  void in_order(bool on) { ordered = on; }
};

/// Visits some samples of a dataset, in the order in which `inner` visits their positions in the list:
/// `Subset{split.train, Shuffle{split.train.size(), seed}}`. `Subset{chosen}` keeps the order of the list.
template <Sampler Inner = Sequential>
class Subset {
 public:
  static constexpr bool shares_samples = SharesSamples<Inner>;

  explicit Subset(std::vector<std::size_t> chosen)
    requires std::same_as<Inner, Sequential>
      : Subset(std::move(chosen), Sequential{}) {
    inner_.count = chosen_.size();
  }

  /// Refused at compile time.
  template <class fulgurite_data_subset_of_positions = Inner>
  explicit Subset(...)
      FULGURITE_REFUSED("[fulgurite.data.subset_of] a Subset takes positions, and a loader the samples: "
                        "write data::Loader{samples, data::Subset{{0, 1}}, {.batch_size = 4}}");

  /// Throws [fulgurite.data.subset] if `inner` could visit a position beyond the list.
  Subset(std::vector<std::size_t> chosen, Inner inner);

  std::size_t size() const { return inner_.size(); }

  RankShare share() const
    requires requires(Inner const& inner) { inner.share(); }
  {
    return inner_.share();
  }

  std::vector<std::size_t> indices(long epoch) const;
  std::uint64_t order_key() const
    requires requires(Inner const& inner) { inner.order_key(); }
  {
    std::uint64_t key = inner_.order_key();
    for (auto const index : chosen_) key = (key ^ index) * 0x100000001b3U;  // the hash of Fowler, Noll and Vo
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

template <class = void>
Subset(...) -> Subset<Sequential>;

template <Sampler Inner>
Subset<Inner>::Subset(std::vector<std::size_t> chosen, Inner inner)
    : chosen_(std::move(chosen)), inner_(std::move(inner)) {
  if (inner_.size() > chosen_.size())
    throw Error("fulgurite.data.subset", "the inner sampler visits " + std::to_string(inner_.size()) +
                                             " positions of a subset that has " + std::to_string(chosen_.size()) +
                                             ": make it with the size of the subset, not of the whole");
}

template <Sampler Inner>
std::vector<std::size_t> Subset<Inner>::indices(long epoch) const {
  std::vector<std::size_t> order;
  order.reserve(size());
  each_index(inner_, epoch, chosen_.size(), [&](std::size_t position) { order.push_back(chosen_[position]); });
  return order;
}

FULGURITE_EXTERN(class Subset<OptionalShuffle>);
FULGURITE_EXTERN(class Subset<Sequential>);

// Splits samples into training and validation: by a fraction or a count, reproducible by a seed.

/// A part of something, as a fraction in [0, 1) or as a count: `0.2` is a fifth, `2000` is 2000 samples.
class Share {
 public:
  constexpr Share(std::floating_point auto fraction)
      : value_(fraction), fraction_(true) {}  // implicit: .validation = 0.2
  constexpr Share(std::integral auto count)
      : value_(static_cast<double>(count)), fraction_(false) {}  // implicit: .validation = 2000

  /// The number of samples in this part of `total`, rounded to the nearest. Throws [fulgurite.data.share] if it is
  /// negative or all of `total`.
  std::size_t of(std::size_t total) const;

 private:
  double value_;
  bool fraction_;
};

/// The positions from `begin` to before `end`.
std::vector<std::size_t> positions_in(std::size_t begin, std::size_t end);
/// The chosen samples, in a new order in each epoch if `shuffle` is true.
Subset<OptionalShuffle> shuffled(std::vector<std::size_t> chosen, bool shuffle, std::uint64_t seed);

/// The positions of the samples of each part, in ascending order.
struct Split {
  std::vector<std::size_t> train, validation;
};

/// Splits `total` samples at random: `auto const parts = data::split(dataset.size(), 0.2, 7);`. The same seed gives the
/// same parts. A shuffle may use the same seed, since the split draws from a separate stream.
Split split(std::size_t total, Share validation, std::uint64_t seed);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/sampler.ipp>
#endif
