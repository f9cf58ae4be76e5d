// dataset | shuffle(seed) | batch(n): the loader that the options make, step for step.
#include <catch2/catch_test_macros.hpp>

#include <concepts>
#include <functional>
#include <vector>

#include <fulgurite/data/pipeline.hpp>
#include <fulgurite/data/stride.hpp>

#include "data_probe.hpp"
#include "data_testing.hpp"

using namespace fulgurite::data;
using namespace data_test;

namespace {
auto three_epochs(auto& loader) {
  std::vector<Epochs> all;
  for (int epoch = 0; epoch != 3; ++epoch) all.push_back(batches(loader));
  return all;
}
}  // namespace

TEST_CASE("a pipeline has the type and the batches of the loader with the same options") {
  Loader written{numbers(23), {.batch_size = 4, .shuffle = true, .seed = 7}};
  auto piped = numbers(23) | shuffle(7) | batch(4);
  STATIC_REQUIRE(std::same_as<decltype(piped), decltype(written)>);
  CHECK(piped.size() == 6);
  CHECK(three_epochs(piped) == three_epochs(written));
  CHECK(saved(piped) == saved(written));

  Loader plain{numbers(23), {.batch_size = 4, .drop_last = true, .workers = 2}};
  auto unshuffled = numbers(23) | batch(4, {.drop_last = true, .workers = 2});
  STATIC_REQUIRE(std::same_as<decltype(unshuffled), decltype(plain)>);
  CHECK(three_epochs(unshuffled) == three_epochs(plain));
}

TEST_CASE("a function that makes batches draws the numbers of a pipeline's seed, as those of a loader's") {
  auto const noisy = [](std::vector<int> samples, BatchRandom& random) {
    for (int& one : samples) one += 100 * static_cast<int>(random.below(1000));
    return samples;
  };
  Loader written{numbers(9), {.batch_size = 4, .shuffle = true, .seed = 7}, noisy};
  auto piped = numbers(9) | shuffle(7) | batch(4, {}, noisy);
  CHECK(three_epochs(piped) == three_epochs(written));
  Loader chosen{numbers(9), fulgurite::data::shuffled({2, 3, 5}, true, 7), {.batch_size = 2, .seed = 7}, noisy};
  auto some = numbers(9) | subset({2, 3, 5}) | shuffle(7) | batch(2, {}, noisy);
  CHECK(three_epochs(some) == three_epochs(chosen));
}

TEST_CASE("a pipeline goes on from the state of the loader with the same options") {
  Loader written{numbers(23), {.batch_size = 4, .shuffle = true, .seed = 7}};
  auto at = written.begin();
  ++at;
  ++at;
  auto piped = numbers(23) | shuffle(7) | batch(4);
  load(piped, saved(written));
  Loader rest{numbers(23), {.batch_size = 4, .shuffle = true, .seed = 7}};
  auto all = batches(rest);
  CHECK(batches(piped) == Epochs(all.begin() + 2, all.end()));
}

TEST_CASE("a pipeline keeps its order where it is told to, as the loader does") {
  auto piped = numbers(5) | shuffle(7) | batch(2);
  piped.in_order(true);
  CHECK(batches(piped) == Epochs{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("steps of a pipeline are values: joined, kept, used for several datasets") {
  auto const how = shuffle(3) | batch(2);
  auto few = numbers(5) | how, many = numbers(9) | how;
  Loader of_five{numbers(5), {.batch_size = 2, .shuffle = true, .seed = 3}};
  CHECK(three_epochs(few) == three_epochs(of_five));
  CHECK(many.size() == 5);
  auto const all = shuffle(3) | (batch(2));
  auto again = numbers(9) | all;
  CHECK(three_epochs(again) == three_epochs(many));
}

TEST_CASE("a pipeline borrows a dataset that is given by std::cref, and keeps any other") {
  std::vector<int> data{0, 1, 2, 3};
  auto borrowed = std::cref(data) | shuffle(1) | batch(2);
  auto kept = data | shuffle(1) | batch(2);
  auto direct = std::cref(data) | batch(2);
  STATIC_REQUIRE(std::same_as<decltype(borrowed), Loader<std::vector<int> const&>>);
  STATIC_REQUIRE(std::same_as<decltype(kept), Loader<std::vector<int>>>);
  data = {10, 11, 12, 13};
  CHECK(batches(direct) == Epochs{{10, 11}, {12, 13}});
  int sum = 0;
  for (auto const& batch : borrowed) sum += batch[0] + batch[1];
  CHECK(sum == 46);
  sum = 0;
  for (auto const& batch : kept) sum += batch[0] + batch[1];
  CHECK(sum == 6);
}

TEST_CASE("a pipeline takes some samples, in another sampler's order, and makes a batch of its own kind") {
  auto chosen = numbers(10) | subset({7, 3, 5}) | batch(2);
  CHECK(batches(chosen) == Epochs{{7, 3}, {5}});
  auto mixed = numbers(10) | subset({7, 3, 5}) | shuffle(4) | batch(2);
  Loader written{numbers(10), Subset{{7, 3, 5}, Shuffle{3, 4}}, {.batch_size = 2}};
  CHECK(three_epochs(mixed) == three_epochs(written));
  auto by_hand = numbers(10) | ordered(Shuffle{10, 4}) | batch(5);
  Loader sampled{numbers(10), Shuffle{10, 4}, {.batch_size = 5}};
  CHECK(three_epochs(by_hand) == three_epochs(sampled));
  auto sums = numbers(4) | batch(2, {}, [](std::vector<int> samples) { return samples[0] + samples[1]; });
  std::vector<int> found;
  for (int sum : sums) found.push_back(sum);
  CHECK(found == std::vector<int>{1, 5});
  CHECK(refusal([] { numbers(4) | batch(0); }) == "fulgurite.data.batch_size");
}
