#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <vector>

#include <fulgurite/data/sampler.hpp>

using fulgurite::data::Random;

TEST_CASE("the generator is xoshiro256**, by its published numbers") {
  Random random{std::array<std::uint64_t, 4>{1, 2, 3, 4}};
  for (std::uint64_t const expected :
       {11520ULL, 0ULL, 1509978240ULL, 1215971899390074240ULL, 1216172134540287360ULL, 607988272756665600ULL,
        16172922978634559625ULL, 8476171486693032832ULL, 10595114339597558777ULL, 2904607092377533576ULL})
    CHECK(random() == expected);
}

TEST_CASE("seed, stream and substream each change every number, and nothing else does") {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    for (std::uint64_t stream = 0; stream < 8; ++stream)
      for (std::uint64_t substream = 0; substream < 8; ++substream) firsts.insert(Random{seed, stream, substream}());
  CHECK(firsts.size() == 512);
  CHECK(Random{1, 2, 3}() == Random{1, 2, 3}());
  static_assert(Random{0}() == Random{0, 0, 0}());
  static_assert(Random{0}() == 417561839031515716,
                "the numbers of a seed are part of the contract: runs are repeated by them");
}

TEST_CASE("bounded numbers are within bounds and equally likely") {
  Random random{1};
  std::array<int, 7> seen{};
  for (int i = 0; i < 70000; ++i) ++seen.at(random.below(7));
  for (int const count : seen) CHECK(std::abs(count - 10000) < 500);  // five deviations
  CHECK(random.below(1) == 0);
}

TEST_CASE("draws that would favour small numbers are thrown away") {
  // Of 2^64 numbers, 3 * 2^62 makes a remainder below 2^62 come up twice as often unless the first 2^62 are drawn
  // again.
  std::uint64_t const n = std::uint64_t{3} << 62;
  Random random{2};
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += random.below(n) < (n / 3);
  CHECK(std::abs(low - 10000) < 500);
}

TEST_CASE("uniform numbers are in their range and cover it") {
  Random random{3};
  double sum = 0, least = 1, most = 0;
  for (int i = 0; i < 10000; ++i) {
    double const drawn = random.uniform();
    sum += drawn;
    least = std::min(least, drawn);
    most = std::max(most, drawn);
  }
  CHECK(least >= 0);
  CHECK(most < 1);
  CHECK(std::abs(sum / 10000 - 0.5) < 0.02);
  double const between = random.uniform(-3, -2);
  CHECK(between >= -3);
  CHECK(between < -2);
}
