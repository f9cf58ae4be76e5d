// The general loader where things go wrong or stop: loops left early, exceptions, destruction; with and without
// workers.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fulgurite/data/loader.hpp>

#include "data_probe.hpp"
#include "data_testing.hpp"

using namespace fulgurite::data;
using namespace data_test;

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
        } catch (std::runtime_error const& nested) { original = nested.what(); }
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
  auto const collate = [](std::vector<int> const& samples) -> int {
    throw std::runtime_error("no batch of " + std::to_string(samples.size()));
  };
  for (int workers : {0, 2}) {
    Loader odd{Throws{}, {.workers = workers}};
    CHECK(data_test::refusal([&] { odd.begin(); }) == "fulgurite.data.sample");
    Loader collating{numbers(6), {.batch_size = 4, .workers = workers}, collate};
    CHECK(data_test::refusal([&] { collating.begin(); }) == "fulgurite.data.collate");
    CHECK(data_test::sentence([&] {
            collating.begin();
          }).find("batch 0 of epoch 1 could not be made of its samples: no batch of 4") != std::string::npos);
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
  Loader failing{numbers(100), {.batch_size = 2, .workers = 3, .on_worker_start = [&] {
                                  if (++started == 5) throw std::runtime_error("no");
                                }}};
  CHECK(data_test::refusal([&] { failing.begin(); }) == "fulgurite.data.worker_start");
  Loader odd{numbers(100), {.batch_size = 2, .workers = 1, .on_worker_start = [] { throw 1; }}};
  CHECK(data_test::refusal([&] { odd.begin(); }) == "fulgurite.data.worker_start");
}
