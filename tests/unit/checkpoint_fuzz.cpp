#include <random>

#include <catch2/catch_test_macros.hpp>

#include "../fuzz/seeds.hpp"
#include "checkpoint_pt_bytes.hpp"

namespace {
/// Changes a few bytes, words or stretches of a good input. The standard fixes what mt19937 yields, so every machine
/// makes the same inputs.
std::string mutated(std::string bytes, std::mt19937& random) {
  constexpr std::uint64_t odd[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, ~0ULL, 1ULL << 62};
  auto const below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (auto count = 1 + below(4); count != 0; --count) {
    auto const at = below(bytes.size() + 1), length = below(std::min<std::size_t>(bytes.size() - at, 40) + 1);
    switch (below(6)) {
    case 0:
      if (at != bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1: bytes.insert(at, 1, static_cast<char>(below(256))); break;
    case 2: bytes.erase(at, length); break;
    case 3: bytes.insert(below(bytes.size() + 1), bytes.substr(at, length)); break;
    case 4: bytes.resize(at); break;
    default:
      auto const width = std::size_t{1} << below(4);
      if (bytes.size() - at >= width)
        bytes.replace(at, width, pt_bytes::le(odd[below(std::size(odd))]).substr(0, width));
    }
  }
  return bytes;
}

/// How many of so many mutated inputs were good ones all the same.
int run(bool (*target)(std::string_view), std::string const& good, int inputs) {
  std::mt19937 random(1);
  int accepted = 0;
  REQUIRE(target(good));
  for (int i = 0; i != inputs; ++i) {
    auto const bytes = mutated(good, random);
    try {
      accepted += target(bytes);
    } catch (std::exception const& other) {  // only an Error of ours may be thrown, and targets catch those
      FAIL("input " << i << ": " << other.what());
    }
  }
  return accepted;
}

}  // namespace

TEST_CASE("fuzz: thousands of damaged files end in an Error of ours, or are read") {
  for (auto const& target : fuzz::targets()) {
    INFO(target.name);
    CHECK(run(target.run, target.good, 2000) < 2000);
  }
}
