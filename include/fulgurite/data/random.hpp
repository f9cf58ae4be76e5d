#pragma once
// The library's own generator: the same numbers with every compiler and standard library, and no global state touched.

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace fulgurite::data {

/// xoshiro256** (Blackman and Vigna, 2018), a value: copy it to repeat it, give it a stream to get an independent one.
///
/// `Random{seed, epoch, batch}` is a pure function of its arguments, so what is drawn for one batch does not depend on
/// how many were drawn before: an epoch that is begun in its middle sees the same data. The four words of state come
/// from splitmix64 (Steele, Lea and Flood, 2014), started at a mix of the three arguments.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0, std::uint64_t substream = 0) {
    std::uint64_t key = mixed(mixed(mixed(seed + golden) ^ (stream + golden)) ^ (substream + golden));
    for (auto& word : state_) word = mixed(key += golden);
  }

  /// Begins with the four words of the state, which published test vectors give.
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

  /// A whole number in [0, n), n > 0, all equally likely: draws below 2^64 mod n are thrown away.
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

}  // namespace fulgurite::data
