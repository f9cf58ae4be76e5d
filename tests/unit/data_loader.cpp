#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <range/v3/range/concepts.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/take.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/zip.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/stride.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;
using namespace std::chrono_literals;

namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

using Epochs = std::vector<std::vector<int>>;
Epochs batches(auto& loader) {
  Epochs all;
  for (auto& batch : loader) all.push_back(batch);
  return all;
}

/// Counts what is read, and fails where it is told to.
struct Probe {
  std::size_t count = 100;
  std::size_t fails_at = 1000;
  std::chrono::microseconds takes = 0us;
  std::shared_ptr<std::atomic<int>> read = std::make_shared<std::atomic<int>>(0);

  std::size_t size() const { return count; }
  int get(std::size_t i) const {
    ++*read;
    if (takes > 0us) std::this_thread::sleep_for(takes);
    if (i == fails_at) throw std::runtime_error("the disk says no");
    return static_cast<int>(i);
  }
};

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
  Loader loader{std::cref(data), Stride{Sequential{10}, {.rank = 1, .world = 2}}, {.batch_size = 3, .workers = 2},
                [](std::vector<int> const& samples) { return static_cast<double>(samples.size()) + samples.front(); }};
  std::vector<double> seen;
  for (double batch : loader) seen.push_back(batch);
  CHECK(seen == std::vector<double>{4, 9});
  Loader wrong{std::cref(data), Sequential{11}, {.batch_size = 3}};
  CHECK(data_test::refusal([&] { batches(wrong); }) == "fulgurite.data.index");
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

TEST_CASE("a loop that leaves early can begin again, any number of times") {
  for (int workers : {0, 1, 3}) {
    Loader loader{Probe{.count = 60}, {.batch_size = 2, .shuffle = true, .workers = workers}};
    loader.set_epoch(0);
    auto const whole = batches(loader);
    for (int round = 0; round < 200; ++round) {
      loader.set_epoch(0);
      int left = round % 30;
      for (auto& batch : loader) {
        REQUIRE(batch == whole[static_cast<std::size_t>(round % 30 - left)]);
        if (left-- == 0) break;
      }
    }
    loader.set_epoch(0);
    CHECK(batches(loader) == whole);
  }
}

TEST_CASE("destroying or moving a loader stops its workers first, also while they read") {
  for (int round = 0; round < 50; ++round) {
    Loader loader{Probe{.takes = 100us}, {.batch_size = 10, .workers = 3}};
    if (round % 3 > 0) loader.begin();
    if (round % 3 == 2) {
      Loader moved{std::move(loader)};
      CHECK(batches(moved).size() == 10);
    }
  }
}

TEST_CASE("workers read ahead, but no further than told, and the samples of an abandoned batch are left") {
  Probe const probe{.count = 1000};
  Loader loader{probe, {.batch_size = 1, .workers = 2, .prefetch = 3}};
  auto at = loader.begin();
  for (int wait = 0; wait < 1000 && *probe.read < 7; ++wait) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  CHECK(*probe.read == 7);  // the one in hand and six ahead
  ++at;
  for (int wait = 0; wait < 1000 && *probe.read < 8; ++wait) std::this_thread::sleep_for(1ms);
  CHECK(*probe.read == 8);

  struct SlowFrom100 {
    std::shared_ptr<std::atomic<int>> read = std::make_shared<std::atomic<int>>(0);
    std::size_t size() const { return 200; }
    int operator[](std::size_t i) const {
      ++*read;
      if (i >= 100) std::this_thread::sleep_for(5ms);
      return 0;
    }
  };
  SlowFrom100 const slow;
  {
    Loader leaving{slow, {.batch_size = 100, .workers = 1}};
    leaving.begin();  // the second batch is begun meanwhile, and takes half a second
  }
  CHECK(*slow.read < 150);
}

TEST_CASE("an exception of the dataset arrives with the index of the sample, after the batches before it") {
  for (int workers : {0, 1, 4}) {
    Loader loader{Probe{.count = 40, .fails_at = 17}, {.batch_size = 5, .workers = workers}};
    for (int round = 0; round < 20; ++round) {
      int whole = 0;
      std::string said, original;
      try {
        for ([[maybe_unused]] auto& batch : loader) ++whole;
      } catch (fulgurite::Error const& error) {
        CHECK(error.identifier() == "fulgurite.data.sample");
        said = error.what();
        try {
          std::rethrow_if_nested(error);
        } catch (std::runtime_error const& nested) {
          original = nested.what();
        }
      }
      CHECK(whole == 3);
      CHECK(said.find("sample 17 (in batch 3 of epoch " + std::to_string(round) + ")") != std::string::npos);
      CHECK(said.find("the disk says no") != std::string::npos);
      CHECK(original == "the disk says no");
    }
  }
}

TEST_CASE("what is thrown need not be an exception, and may come from collate") {
  struct Throws {
    std::size_t size() const { return 3; }
    int get(std::size_t) const { throw 5; }
  };
  auto const collate = [](std::vector<int> const& samples) -> int { throw std::runtime_error("no batch of " + std::to_string(samples.size())); };
  for (int workers : {0, 2}) {
    Loader odd{Throws{}, {.workers = workers}};
    CHECK(data_test::refusal([&] { odd.begin(); }) == "fulgurite.data.sample");
    Loader collating{numbers(6), {.batch_size = 4, .workers = workers}, collate};
    CHECK(data_test::refusal([&] { collating.begin(); }) == "fulgurite.data.collate");
    CHECK(data_test::sentence([&] { collating.begin(); }).find("batch 0 of epoch 1 could not be made of its samples: no batch of 4") != std::string::npos);
  }
}

TEST_CASE("after an exception the epoch is over") {
  Loader loader{Probe{.count = 40, .fails_at = 7}, {.batch_size = 5, .workers = 2}};
  auto at = loader.begin();
  CHECK_THROWS(++at);
  CHECK(at == loader.end());
}

TEST_CASE("each worker runs the start hook before its first sample") {
  std::atomic<int> started = 0;
  Loader loader{numbers(100), {.batch_size = 2, .workers = 3, .on_worker_start = [&] { ++started; }}};
  loader.begin();
  CHECK(started == 3);
  Loader failing{numbers(100), {.batch_size = 2, .workers = 3, .on_worker_start = [&] { if (++started == 5) throw std::runtime_error("no"); }}};
  CHECK(data_test::refusal([&] { failing.begin(); }) == "fulgurite.data.worker_start");
  Loader odd{numbers(100), {.batch_size = 2, .workers = 1, .on_worker_start = [] { throw 1; }}};
  CHECK(data_test::refusal([&] { odd.begin(); }) == "fulgurite.data.worker_start");
}

TEST_CASE("options that make no sense are refused") {
  CHECK(data_test::refusal([] { Loader{numbers(3), {.batch_size = 0}}; }) == "fulgurite.data.batch_size");
  CHECK(data_test::refusal([] { Loader{numbers(3), {.workers = -1}}; }) == "fulgurite.data.workers");
  CHECK(data_test::refusal([] { Loader{numbers(3), {.prefetch = 0}}; }) == "fulgurite.data.prefetch");
}

TEST_CASE("a saved loader goes on where it stopped, with the saved seed") {
  for (int workers : {0, 2}) {
    Loader first{numbers(20), {.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers}};
    first.set_epoch(4);
    auto const whole = batches(first);
    first.set_epoch(4);
    auto at = first.begin();
    ++at;
    ++at;
    auto const saved = data_test::saved(first);
    Loader second{numbers(20), {.batch_size = 3, .shuffle = true, .seed = 2, .workers = workers}};
    data_test::load(second, saved);
    CHECK(batches(second) == Epochs(whole.begin() + 2, whole.end()));
    first.set_epoch(5);
    CHECK(batches(second) == batches(first));  // and the epochs after it are the same
    Loader other{numbers(21), {.batch_size = 3, .shuffle = true}};
    CHECK(data_test::refusal([&] { data_test::load(other, saved); }) == "fulgurite.data.resume");
  }
}

TEST_CASE("loaders are ranges for range-v3") {
  Loader a{numbers(9), {.batch_size = 2}}, b{numbers(6), {.batch_size = 2, .workers = 2}};
  auto const firsts = a | ranges::views::take(2) | ranges::views::transform([](auto const& batch) { return batch.front(); }) | ranges::to<std::vector<int>>();
  CHECK(firsts == std::vector{0, 2});
  int pairs = 0;
  for (auto&& [left, right] : ranges::views::zip(a, b)) pairs += left == right;
  CHECK(pairs == 3);
}
