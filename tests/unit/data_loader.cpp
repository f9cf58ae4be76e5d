#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <ranges>
#include <set>
#include <vector>

#include <range/v3/range/concepts.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/take.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/stride.hpp>

#include "data_probe.hpp"
#include "data_testing.hpp"

using namespace fulgurite::data;
using namespace data_test;

namespace {

struct NotConst {
  std::size_t size() const;
  int operator[](std::size_t);
};
struct NoSize {
  int operator[](std::size_t) const;
};
static_assert(Dataset<std::vector<int>> && Dataset<Probe> && Dataset<Probe const&>);
static_assert(!Dataset<NotConst> && !Dataset<NoSize> && !Dataset<int>);
using Ints = Loader<std::vector<int>>;
static_assert(std::ranges::input_range<Ints&> && !std::ranges::forward_range<Ints&> && std::ranges::sized_range<Ints&>);
static_assert(ranges::input_range<Ints&> && ranges::sized_range<Ints&>);
static_assert(std::movable<Ints> && !std::copyable<Ints>);

}  // namespace

TEST_CASE("a loader has its options in one order, with a sampler of its own or without") {
  CHECK(LoaderOptions{.batch_size = 2,
                      .shuffle = true,
                      .seed = 3,
                      .drop_last = true,
                      .workers = 4,
                      .prefetch = 5,
                      .on_worker_start = {},
                      .persistent_workers = false,
                      .timeout = std::chrono::milliseconds(6),
                      .pin_memory = true}
            .pin_memory);
  CHECK(BatchOptions{.batch_size = 2,
                     .seed = 3,
                     .drop_last = true,
                     .workers = 4,
                     .prefetch = 5,
                     .on_worker_start = {},
                     .persistent_workers = false,
                     .timeout = std::chrono::milliseconds(6),
                     .pin_memory = true}
            .pin_memory);
}

TEST_CASE("a loader cuts a dataset into batches") {
  Loader loader{numbers(7), {.batch_size = 3}};
  CHECK(loader.size() == 3);
  CHECK(batches(loader) == Epochs{{0, 1, 2}, {3, 4, 5}, {6}});
  Loader dropping{numbers(7), {.batch_size = 3, .drop_last = true}};
  CHECK(dropping.size() == 2);
  CHECK(batches(dropping) == Epochs{{0, 1, 2}, {3, 4, 5}});
  Loader empty{numbers(0), {.batch_size = 3, .workers = 2}};
  CHECK(empty.size() == 0);
  CHECK(batches(empty).empty());
}

TEST_CASE("DataLoader is a name of Loader: every form deduces the same type") {
  std::vector<int> const all{0, 1, 2, 3, 4};
  auto const last = [](std::vector<int> samples) { return samples.back(); };
  DataLoader plain{all, {.batch_size = 2}};
  DataLoader borrowed{std::cref(all), {.batch_size = 2, .shuffle = true}};
  DataLoader sampled{all, Shuffle{5, 1}, {.batch_size = 2}};
  DataLoader collated{all, {.batch_size = 2}, last};
  STATIC_REQUIRE(std::same_as<decltype(plain), Loader<std::vector<int>>>);
  STATIC_REQUIRE(std::same_as<decltype(borrowed), Loader<std::vector<int> const&>>);
  STATIC_REQUIRE(std::same_as<decltype(sampled), Loader<std::vector<int>, Shuffle>>);
  CHECK(data_test::batches(plain).size() == 3);
  CHECK(*collated.begin() == 1);
}

TEST_CASE("the order depends on seed and epoch, not on workers") {
  Loader alone{numbers(50), {.batch_size = 4, .shuffle = true, .seed = 9}};
  Loader helped{numbers(50), {.batch_size = 4, .shuffle = true, .seed = 9, .workers = 3}};
  for (long epoch : {0, 1, 5, 1}) {
    alone.set_epoch(epoch);
    helped.set_epoch(epoch);
    CHECK(batches(alone) == batches(helped));
  }
  auto const first = batches(alone);
  CHECK(first != batches(alone));  // the next epoch
}

TEST_CASE("a sampler of one's own, a borrowed dataset, a collate function") {
  auto const data = numbers(10);
  Loader loader{std::cref(data),
                Stride{Sequential{10}, {.rank = 1, .world = 2}},
                {.batch_size = 3, .workers = 2},
                [](std::vector<int> const& samples) { return static_cast<double>(samples.size()) + samples.front(); }};
  std::vector<double> seen;
  for (double batch : loader) seen.push_back(batch);
  CHECK(seen == std::vector<double>{4, 9});
  Loader wrong{std::cref(data), Sequential{11}, {.batch_size = 3}};
  CHECK(data_test::refusal([&] { batches(wrong); }) == "fulgurite.data.index");
}

TEST_CASE("a loader with a stride is not shared out again, also not behind a subset") {
  Loader loader{
      numbers(9), Subset{{1, 2, 3, 4, 5, 6, 7, 8}, Stride{Sequential{8}, {.rank = 1, .world = 2}}}, {.batch_size = 2}};
  CHECK(loader.share() == RankShare{.rank = 1, .world = 2});
  loader.shard(1, 2, true);
  CHECK(batches(loader) == Epochs{{2, 4}, {6, 8}});
  Loader plain{numbers(9), Subset{{1, 2, 3, 4}}, {.batch_size = 2}};
  plain.shard(1, 2, true);
  CHECK(batches(plain) == Epochs{{2, 4}});
}

TEST_CASE("samples need not be copyable") {
  struct Boxes {
    std::size_t size() const { return 5; }
    std::unique_ptr<int> get(std::size_t i) const { return std::make_unique<int>(static_cast<int>(i)); }
  };
  for (int workers : {0, 2}) {
    Loader loader{Boxes{}, {.batch_size = 2, .workers = workers}};
    int sum = 0;
    for (auto& batch : loader)
      for (auto& box : batch) sum += *box;
    CHECK(sum == 10);
  }
}

TEST_CASE("a batch stays valid until the second increment") {
  for (int workers : {0, 2}) {
    Loader loader{numbers(8), {.batch_size = 2, .workers = workers}};
    auto at = loader.begin();
    auto const& first = *at;
    ++at;
    CHECK(first == std::vector{0, 1});
    auto const& second = *at;
    ++at;
    CHECK(second == std::vector{2, 3});
    ++at;
    auto const& last = *at;
    ++at;
    CHECK(at == loader.end());
    CHECK(last == std::vector{6, 7});
  }
}

TEST_CASE("options that make no sense are refused") {
  CHECK(data_test::refusal([] { Loader{numbers(3), {.batch_size = 0}}; }) == "fulgurite.data.batch_size");
  CHECK(data_test::refusal([] { Loader{numbers(3), {.workers = -1}}; }) == "fulgurite.data.workers");
  CHECK(data_test::refusal([] { Loader{numbers(3), {.prefetch = 0}}; }) == "fulgurite.data.prefetch");
}

TEST_CASE("a saved loader resumes where it stopped, inside an epoch with the same seed alone") {
  for (int workers : {0, 2}) {
    Loader first{numbers(20), {.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers}};
    first.set_epoch(4);
    auto const whole = batches(first);
    first.set_epoch(4);
    auto at = first.begin();
    ++at;
    ++at;
    auto const saved = data_test::saved(first);
    Loader second{numbers(20), {.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers}};
    data_test::load(second, saved);
    CHECK(batches(second) == Epochs(whole.begin() + 2, whole.end()));
    first.set_epoch(5);
    CHECK(batches(second) == batches(first));  // and the epochs after it are the same
    Loader other{numbers(21), {.batch_size = 3, .shuffle = true}};
    CHECK(data_test::refusal([&] { data_test::load(other, saved); }) == "fulgurite.data.resume");
    Loader reseeded{numbers(20), {.batch_size = 3, .shuffle = true, .seed = 2, .workers = workers}};
    CHECK(data_test::refusal([&] { data_test::load(reseeded, saved); }) == "fulgurite.data.resume");
  }
}

/// That of docs/loaders.md.
struct WeightedSampler {
  std::vector<double> weights;
  std::size_t draws;
  std::uint64_t seed = 0;

  std::size_t size() const { return draws; }
  std::vector<std::size_t> indices(long epoch) const {
    Random random(seed, static_cast<std::uint64_t>(epoch));
    std::discrete_distribution<std::size_t> by_weight(weights.begin(), weights.end());
    std::vector<std::size_t> drawn(draws);
    for (auto& position : drawn) position = by_weight(random);
    return drawn;
  }
};

TEST_CASE("a sampler of one's own draws with replacement: more samples than there are, by their weights") {
  Loader loader{std::vector{10, 11, 12}, WeightedSampler{{0, 1, 3}, 400}, {.batch_size = 100}};
  std::vector<std::vector<int>> epochs;
  for (long epoch : {0L, 1L, 0L}) {
    loader.set_epoch(epoch);
    auto& seen = epochs.emplace_back();
    for (auto const& batch : loader) seen.insert(seen.end(), batch.begin(), batch.end());
    CHECK(seen.size() == 400);
    CHECK(std::ranges::count(seen, 10) == 0);
    CHECK(std::ranges::count(seen, 12) > 2 * std::ranges::count(seen, 11));
  }
  CHECK(epochs[0] == epochs[2]);
  CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("loaders are ranges for range-v3") {
  Loader a{numbers(9), {.batch_size = 2}}, b{numbers(6), {.batch_size = 2, .workers = 2}};
  auto const firsts = a | ranges::views::take(2) |
                      ranges::views::transform([](auto const& batch) { return batch.front(); }) |
                      ranges::to<std::vector<int>>();
  CHECK(firsts == std::vector{0, 2});
  int pairs = 0;
  for (auto&& [left, right] : ranges::views::zip(a, b)) pairs += left == right;
  CHECK(pairs == 3);
}

TEST_CASE("a function that makes batches may draw random numbers, of the seed, the epoch and the batch alone") {
  auto const noisy = [](std::vector<int> samples, Random& random) {
    for (int& sample : samples) sample += 100 * static_cast<int>(random.below(1000));
    return samples;
  };
  auto const made = [&](std::uint64_t seed, int workers) {
    return Loader{numbers(20), {.batch_size = 3, .seed = seed, .workers = workers}, noisy};
  };
  auto alone = made(1, 0), helped = made(1, 3), other = made(2, 1);
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto const whole = batches(alone);
    CHECK(whole == batches(helped));
    CHECK(whole != batches(other));
  }
  alone.set_epoch(5);
  auto const whole = batches(alone);
  alone.set_epoch(5);
  auto at = alone.begin();
  ++at;
  auto again = made(1, 1);
  data_test::load(again, data_test::saved(alone));
  CHECK(batches(again) == Epochs(whole.begin() + 1, whole.end()));
  CHECK(data_test::refusal([&] { data_test::load(other, data_test::saved(alone)); }) == "fulgurite.data.resume");
  CHECK(whole[0][0] % 100 == 0);
}

TEST_CASE("what a function that makes batches draws is another one on each rank, and one process's for each sample") {
  auto const by_row = [](std::vector<int> samples, BatchRandom& random) {
    for (std::size_t i = 0; i != samples.size(); ++i)
      samples[i] += 100 * static_cast<int>(random.row(i).below(1000000));
    return samples;
  };
  auto const by_batch = [](std::vector<int> samples, Random& random) {
    for (int& sample : samples) sample += 100 * static_cast<int>(random.below(1000000));
    return samples;
  };
  auto const drawn = [](auto& loader, int rank, int world) {
    loader.set_epoch(3);
    if (world != 1) loader.shard(rank, world, false);
    std::vector<int> all;
    for (auto const& batch : loader) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  };
  auto const of = [&](auto collate, int rank, int world, long batch_size, int workers = 0) {
    Loader loader{numbers(14), {.batch_size = batch_size, .shuffle = true, .seed = 5, .workers = workers}, collate};
    return drawn(loader, rank, world);
  };
  auto const sorted = [](std::vector<int> all) { return std::ranges::sort(all), all; };
  auto const one = of(by_row, 0, 1, 6);
  CHECK(one != of(by_batch, 0, 1, 6));
  CHECK(one == of(by_row, 0, 1, 4, 2));
  for (int const world : {2, 3, 4}) {
    std::vector<int> rows;
    std::set<int> draws;
    for (int rank = 0; rank != world; ++rank) {
      auto const mine = of(by_row, rank, world, 2);
      rows.insert(rows.end(), mine.begin(), mine.end());
      for (int const sample : of(by_batch, rank, world, 2)) draws.insert(sample / 100);
      // A sampler that takes a part itself is told from the others, too.
      Loader stride{numbers(14),
                    Stride{Shuffle{14, 5}, {.rank = rank, .world = world, .leftover = Leftover::keep}},
                    {.batch_size = 2, .seed = 5},
                    by_row};
      CHECK(drawn(stride, 0, 1) == mine);
    }
    CHECK(sorted(rows) == sorted(one));
    CHECK(draws.size() == 14);  // no number is drawn twice
  }
}
