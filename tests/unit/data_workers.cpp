// The general loader where things go wrong or stop: loops left early, exceptions, destruction; with and without
// workers.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/train_epoch.hpp>

#include "data_probe.hpp"
#include "data_testing.hpp"
#include "models.hpp"

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

namespace {
/// Remembers which threads have read it.
struct Threads {
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> threads;
  };
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  std::size_t size() const { return 40; }
  int get(std::size_t i) const {
    std::lock_guard const lock(seen->mutex);
    seen->threads.insert(std::this_thread::get_id());
    return static_cast<int>(i);
  }
};

/// Sample `hangs_at` is not read before the gate opens. The test waits for threads that were left behind. Limits of
/// time in these tests are long enough for a busy machine, where a worker that does not hang may rest for a tenth of a
/// second.
struct Gated {
  struct Gate {
    std::atomic<bool> open = false, hangs = false;
  };
  std::size_t hangs_at = 13;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::size_t size() const { return 40; }
  int get(std::size_t i) const {
    if (i == hangs_at) {
      gate->hangs = true;
      while (!gate->open) std::this_thread::sleep_for(1ms);
    }
    return static_cast<int>(i);
  }
};
void await(auto const& what) {
  for (int wait = 0; wait < 20000 && !what(); ++wait) std::this_thread::sleep_for(1ms);
  REQUIRE(what());
}
}  // namespace

TEST_CASE("workers stay from epoch to epoch, and run the start hook once; or end with each") {
  for (bool stay : {true, false}) {
    Threads const data;
    std::atomic<int> started = 0;
    Loader loader{data,
                  {.batch_size = 2, .workers = 2, .on_worker_start = [&] { ++started; }, .persistent_workers = stay}};
    Loader alone{data, {.batch_size = 2}};
    for (int epoch = 0; epoch < 4; ++epoch) CHECK(batches(loader) == batches(alone));
    for (auto& batch : loader)
      if (batch.front() > 6) break;  // left early
    CHECK(batches(loader) == batches(alone));
    CHECK(started == (stay ? 2 : 12));
    if (stay) CHECK(data.seen->threads.size() <= 3);  // and the one that reads alone
  }
  std::atomic<int> started = 0;
  Loader failing{Probe{.count = 40, .fails_at = 17},
                 {.batch_size = 5, .workers = 2, .on_worker_start = [&] { ++started; }}};
  for (int epoch = 0; epoch < 3; ++epoch) CHECK_THROWS(batches(failing));
  CHECK(started == 2);  // an error of a sample ends the epoch, and no worker
}

TEST_CASE("a worker that hangs ends the epoch with one Error, and the loader can be destroyed", "[long]") {
  for (bool stay : {true, false}) {
    Gated const data;
    std::weak_ptr<Gated::Gate> const left = data.gate;
    {
      Loader loader{data, {.batch_size = 5, .workers = 2, .persistent_workers = stay, .timeout = 700ms}};
      std::vector<int> seen;
      auto const said = data_test::sentence([&] {
        for (auto& batch : loader) seen.push_back(batch.front());
      });
      CHECK(seen == std::vector{0, 5});
      INFO(said);
      CHECK(said.find("[fulgurite.data.worker_hangs] worker ") != std::string::npos);
      CHECK(
          said.find(" of 2 reads sample 13 for batch 2 of epoch 0, and the loop has waited for 700 ms, its .timeout") !=
          std::string::npos);
      for (int again = 0; again < 2; ++again)  // it still does
        CHECK(data_test::refusal([&] { loader.begin(); }) == "fulgurite.data.worker_hangs");
      data.gate->open = true;
      await([&] { return data_test::refusal([&] { batches(loader); }) == "nothing was thrown"; });
      data.gate->open = data.gate->hangs = false;
      loader.begin();
      await([&] { return data.gate->hangs.load(); });
      CHECK(data_test::refusal([&] { loader.begin(); }) == "fulgurite.data.worker_hangs");  // left early as well
    }
    data.gate->open = true;
    await([&] { return left.use_count() == 1; });  // the thread that was left behind has let go of everything
  }
}

TEST_CASE("the end of a loader leaves the worker that hangs, and waits for one that is merely slow") {
  struct Slow : Gated {
    std::shared_ptr<std::atomic<int>> slow = std::make_shared<std::atomic<int>>(0);
    int get(std::size_t i) const {
      if (i != 15) return Gated::get(i);
      *slow = 1;
      while (*slow == 1) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(50ms);
      *slow = 3;
      return 15;
    }
  };
  Slow const data;
  {
    Loader loader{data, {.batch_size = 5, .workers = 2, .timeout = 700ms}};
    CHECK(data_test::refusal([&] { batches(loader); }) == "fulgurite.data.worker_hangs");
    await([&] { return *data.slow == 1; });
    *data.slow = 2;
  }
  CHECK(*data.slow == 3);
  data.gate->open = true;
  await([&] { return data.gate.use_count() == 1; });
}

TEST_CASE("a fit ends with the Error of a worker that hangs, also one that hangs as it starts") {
  struct Net {
    toy::Tensor p = toy::Tensor::parameter(0.0);
    int steps = 0;
    toy::Tensor training_step(std::vector<int> const&) { return ++steps, -p; }
    toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  };
  auto const data = std::make_shared<Gated>();
  auto const hanging = [&](auto options) {
    Loader loader{*data, std::move(options)};
    Net net;
    std::string said =
        data_test::sentence([&] { toy::train<Net>({.max_epochs = 2}, fulgurite::Automatic{}).fit(net, loader); });
    return std::pair{net.steps, said};
  };
  auto const [steps, said] = hanging(LoaderOptions{.batch_size = 5, .workers = 1, .timeout = 700ms});
  CHECK(steps == 2);
  CHECK(said.starts_with("[fulgurite.data.worker_hangs] worker 0 of 1 reads sample 13 for batch 2 of epoch 0"));
  auto const start = [gate = data->gate] {
    while (!gate->open) std::this_thread::sleep_for(1ms);
  };
  auto const [none, why] =
      hanging(LoaderOptions{.batch_size = 5, .workers = 1, .on_worker_start = start, .timeout = 700ms});
  CHECK(none == 0);
  CHECK(why.find("worker 0 of 1 has not come back from .on_worker_start") != std::string::npos);
  data->gate->open = true;
  await([&] { return data->gate.use_count() == 2; });  // the data set and `start`
  CHECK(data_test::refusal([] { Loader{numbers(3), {.timeout = 50ms}}; }) == "fulgurite.data.timeout");
  CHECK(data_test::refusal([] { Loader{numbers(3), {.workers = 1, .timeout = -50ms}}; }) == "fulgurite.data.timeout");
  CHECK(LoaderOptions{.timeout = fulgurite::Seconds(1.5)}.timeout == 1500ms);
}

TEST_CASE("pinning is done where batches are made, by a function that can") {
  struct Batch {
    std::vector<int> samples;
    bool pinned = false;
  };
  struct Pins {
    bool gpu = true;
    Batch operator()(std::vector<int> samples) const { return {std::move(samples)}; }
    void can_pin() const {
      if (!gpu) throw fulgurite::Error("fulgurite.data.pin_memory", "no GPU");
    }
    void pin(Batch& batch) const { batch.pinned = true; }
  };
  for (bool on : {false, true}) {
    Loader loader{numbers(9), {.batch_size = 2, .workers = 2, .pin_memory = on}, Pins{}};
    for (auto& batch : loader) CHECK(batch.pinned == on);
  }
  CHECK(data_test::refusal([] { Loader{numbers(9), {.pin_memory = true}, Pins{false}}; }) ==
        "fulgurite.data.pin_memory");
  CHECK(data_test::refusal([] { Loader{numbers(9), {.pin_memory = true}}; }) == "fulgurite.data.pin_memory");
}

TEST_CASE("a loop that waits for its data while processors are idle says so once; what is waited is measured") {
  using fulgurite::Waited, fulgurite::loop::idle_while_waiting;
  Waited const waits{.seconds = 6.2, .pass = 10, .busy = 1.5, .workers = 1};
  CHECK(idle_while_waiting(waits, 8) == 6);
  CHECK(idle_while_waiting(waits, 2) == 0);                          // the processors are busy
  CHECK(idle_while_waiting({.seconds = 2.4, .pass = 10}, 8) == 0);   // the loop hardly waits
  CHECK(idle_while_waiting({.seconds = 4.9, .pass = 4.9}, 8) == 0);  // it was short
  struct Waiting : std::vector<double> {
    using std::vector<double>::vector;
    Waited waited() const { return {.seconds = 9, .pass = 10}; }
  };
  struct Net {
    toy::Tensor p = toy::Tensor::parameter(0.0);
    toy::Tensor training_step(double) { return -p; }
    toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  } net;
  Waiting loader{1, 2, 3};
  auto trainer = toy::train<Net>({.max_epochs = 3, .silence = {"fulgurite.data.waits"}}, fulgurite::Automatic{});
  auto borrowed = named<"train">(std::ref(loader));
  trainer.fit(net, borrowed);
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings()[0].starts_with(
      "[fulgurite.data.waits] the loop waited for its batches for 90 % of epoch 0, and "));
  CHECK(trainer.warnings()[0].find("give the training loader .workers = ") != std::string::npos);

  Loader slow{Probe{.count = 4, .takes = 2ms}, {.batch_size = 2}};
  CHECK(slow.waited().pass == 0);
  batches(slow);
  CHECK(slow.waited().seconds >= 0.008);
  CHECK(slow.waited().seconds <= slow.waited().pass);

  // In the loop itself one batch of 16 stands for the others, after the first 16.
  struct Measured {
    std::size_t size() const { return 48; }
    int get(std::size_t i) const {
      if (i == 20 || i == 31) std::this_thread::sleep_for(i == 20 ? 100ms : 5ms);  // the 21st, and the 32nd
      return 0;
    }
  };
  Loader sampled{Measured{}, {.batch_size = 1}};
  auto at = sampled.begin();
  while (at != sampled.end()) ++at;
  CHECK(sampled.waited().seconds >= 0.08);
  CHECK(sampled.waited().seconds <= sampled.waited().pass);
}

TEST_CASE("a child that was forked after an epoch has workers of its own, and does not wait for those of its parent") {
  std::optional first(Loader{Probe{.count = 20}, {.batch_size = 2, .workers = 2}});
  std::optional second(Loader{Probe{.count = 30}, {.batch_size = 2, .workers = 2}});
  auto const of_epoch = [](auto& loader) {
    loader->set_epoch(0);
    return batches(*loader);
  };
  auto const one = of_epoch(first), two = of_epoch(second);
  auto const child = ::fork();
  if (child == 0) {
    ::alarm(60);
    bool const same = of_epoch(first) == one && of_epoch(second) == two && of_epoch(first) == one;
    first.reset();
    second.reset();
    ::_exit(same ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
