#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <variant>
#include <vector>

#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/stride.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;
using Indices = std::vector<std::size_t>;

static Indices order(Sampler auto const& sampler, long epoch = 0) {
  Indices all;
  for (std::size_t const index : sampler.indices(epoch)) all.push_back(index);
  return all;
}

static_assert(Sampler<Sequential> && Sampler<Shuffle> && Sampler<OptionalShuffle> && Sampler<Subset<Shuffle>> &&
              Sampler<Stride<Subset<Shuffle>>>);
static_assert(!Sampler<int> && !Sampler<Indices>);

TEST_CASE("a shuffle is a permutation that depends on seed and epoch alone") {
  Shuffle const shuffle{1000, 7};
  Indices sorted = order(shuffle, 3);
  CHECK(sorted == order(shuffle, 3));
  CHECK(sorted == order(Shuffle{1000, 7}, 3));
  CHECK(sorted != order(shuffle, 4));
  CHECK(sorted != order(Shuffle{1000, 8}, 3));
  std::ranges::sort(sorted);
  CHECK(sorted == order(Sequential{1000}));
}

TEST_CASE("the order of a seed is part of the contract") {
  CHECK(order(Shuffle{10, 0}, 0) == Indices{5, 8, 0, 1, 7, 2, 4, 3, 9, 6});
  CHECK(order(Shuffle{10, 42}, 5) == Indices{0, 5, 3, 9, 2, 8, 7, 6, 1, 4});
}

TEST_CASE("all orders of a shuffle are equally likely") {
  std::map<Indices, int> seen;
  for (long epoch = 0; epoch < 12000; ++epoch) ++seen[order(Shuffle{4, 1}, epoch)];
  CHECK(seen.size() == 24);
  for (auto const& [permutation, count] : seen) CHECK(std::abs(count - 500) < 120);  // five deviations
}

TEST_CASE("an optional shuffle is what it is told to be") {
  CHECK(order(OptionalShuffle{9, true, 4}, 2) == order(Shuffle{9, 4}, 2));
  CHECK(order(OptionalShuffle{9, false, 4}, 2) == order(Sequential{9}));
}

TEST_CASE("a subset visits its own samples") {
  CHECK(order(Subset{Indices{5, 3, 8}}) == Indices{5, 3, 8});
  Subset const shuffled{Indices{10, 20, 30, 40}, Shuffle{4, 1}};
  Indices seen = order(shuffled, 1);
  CHECK(seen != order(shuffled, 2));
  std::ranges::sort(seen);
  CHECK(seen == Indices{10, 20, 30, 40});
  CHECK(data_test::refusal([] { Subset{Indices{1, 2}, Shuffle{3, 0}}; }) == "fulgurite.data.subset");
}

TEST_CASE("a stride deals an order out to ranks") {
  CHECK(order(Stride{Sequential{10}, {.rank = 1, .world = 4}}) == Indices{1, 5, 9});
  CHECK(order(Stride{Sequential{10}, {.rank = 3, .world = 4}}) == Indices{3, 7, 1});  // the first once more
  CHECK(order(Stride{Sequential{10}, {.rank = 3, .world = 4, .leftover = Leftover::drop}}) == Indices{3, 7});
  CHECK(order(Stride{Sequential{10}, {.rank = 3, .world = 4, .leftover = Leftover::keep}}) == Indices{3, 7});
  CHECK(order(Stride{Sequential{2}, {.rank = 4, .world = 5}}) == Indices{0});  // fewer samples than ranks
}

TEST_CASE("what ranks get together is the whole, and equally much where they must keep step") {
  for (std::size_t count = 0; count < 15; ++count)
    for (int world = 1; world < 6; ++world)
      for (Leftover const leftover : {Leftover::repeat, Leftover::drop, Leftover::keep}) {
        std::vector<std::size_t> times(count), sizes;
        for (int rank = 0; rank < world; ++rank) {
          Stride const stride{Shuffle{count, 3}, {rank, world, leftover}};
          Indices const mine = order(stride, 1);
          REQUIRE(mine.size() == stride.size());
          sizes.push_back(mine.size());
          for (std::size_t const index : mine) ++times.at(index);
        }
        auto const [least, most] = std::ranges::minmax(sizes);
        std::size_t const dealt = std::accumulate(times.begin(), times.end(), std::size_t{0});
        if (leftover != Leftover::keep) CHECK(least == most);
        if (leftover == Leftover::keep) CHECK(std::ranges::all_of(times, [](auto n) { return n == 1; }));
        if (leftover == Leftover::repeat) CHECK(std::ranges::all_of(times, [](auto n) { return n >= 1; }));
        if (leftover == Leftover::drop) CHECK(count - dealt < static_cast<std::size_t>(world));
      }
}

TEST_CASE("a rank outside its world is refused") {
  CHECK(data_test::refusal([] { Stride{Sequential{4}, {.rank = 2, .world = 2}}; }) == "fulgurite.data.rank");
  CHECK(data_test::refusal([] { Stride{Sequential{4}, {.rank = -1, .world = 2}}; }) == "fulgurite.data.rank");
  CHECK(data_test::refusal([] { Stride{Sequential{4}, {.rank = 0, .world = 0}}; }) == "fulgurite.data.rank");
}

TEST_CASE("a sampler's seed is an option of the program, through those around it, also as a large number") {
  Stride sampler{Subset{Indices{4, 5, 6, 7}, Shuffle{4, 0xfedcba9876543210}}, {.rank = 0, .world = 1}};
  Stride other{Subset{Indices{4, 5, 6, 7}, Shuffle{4, 1}}, {.rank = 0, .world = 1}};
  auto const before = order(other, 3);
  auto const saved = data_test::saved(sampler);
  auto const tree = fulgurite::from_text(saved);
  CHECK(std::get<std::int64_t>(tree.find("seed")->value) == static_cast<long>(0xfedcba9876543210));
  data_test::load(other, saved);
  CHECK(order(other, 3) == before);
  CHECK(order_of(sampler) != order_of(other));
  OptionalShuffle optional{9, true, 5}, second{9, true, 6};
  data_test::load(second, data_test::saved(optional));
  CHECK(second.seed == 6);
}

TEST_CASE("an index that the dataset does not have is refused") {
  CHECK(data_test::refusal([] { each_index(Sequential{4}, 0, 3, [](std::size_t) {}); }) == "fulgurite.data.index");
}

namespace {
/// Has `length` positions, and says something about it.
struct Draws {
  std::size_t claimed, length;
  std::size_t size() const { return claimed; }
  Indices indices(long) const { return Indices(length, 3); }
};
}  // namespace

TEST_CASE("a sampler that has more or fewer positions than its size() says is refused, wherever it is read") {
  auto const refused = [](auto const& sampler) { return data_test::refusal([&] { sampler.indices(0); }); };
  for (std::size_t length = 0; length <= 4; length += 2) {
    std::size_t seen = 0;
    CHECK(data_test::refusal([&] { each_index(Draws{3, length}, 0, 9, [&](std::size_t) { ++seen; }); }) ==
          "fulgurite.data.sampler_size");
    CHECK(seen == std::min<std::size_t>(3, length));
    CHECK(refused(Subset{Indices(9), Draws{3, length}}) == "fulgurite.data.sampler_size");
    CHECK(refused(Stride{Draws{3, length}, {.rank = 0, .world = 2}}) == "fulgurite.data.sampler_size");
  }
  CHECK(refused(Subset{Indices(3), Draws{3, 3}}) == "fulgurite.data.index");
  CHECK(order(Subset{Indices{5, 6, 7, 8}, Draws{3, 3}}) == Indices(3, 8));
}

TEST_CASE("a split is disjoint, whole, ascending, and repeatable") {
  Split const parts = split(100, 0.2, 5);
  CHECK(parts.validation.size() == 20);
  CHECK(parts.train.size() == 80);
  CHECK(std::ranges::is_sorted(parts.train));
  CHECK(std::ranges::is_sorted(parts.validation));
  Indices all = parts.train;
  all.insert(all.end(), parts.validation.begin(), parts.validation.end());
  std::ranges::sort(all);
  CHECK(all == order(Sequential{100}));
  CHECK(split(100, 0.2, 5).validation == parts.validation);
  CHECK(split(100, 0.2, 6).validation != parts.validation);
  CHECK(split(10, 3, 0).validation.size() == 3);
  CHECK(split(10, 0, 0).train.size() == 10);
  CHECK(split(0, 0, 0).train.empty());
}

TEST_CASE("a share is a fraction or a count, never silently something else") {
  CHECK(Share(0.25).of(10) == 3);  // 2.5, rounded
  CHECK(Share(1).of(10) == 1);     // a count, where 1.0 is all
  for (Share const share : {Share(1.0), Share(-0.1), Share(10), Share(-1), Share(11), Share(0.0 / 0.0)})
    CHECK(data_test::refusal([&] { share.of(10); }) == "fulgurite.data.share");
  CHECK(data_test::refusal([] { Share(0.9).of(5); }) == "fulgurite.data.share");  // 4.5, rounded to all of them
}
