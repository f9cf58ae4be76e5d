// Batch sizes that are tried out: what is tried, what is found, and that all else stays as it was.
#include <fulgurite/tuner/batch_size_finder.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "models.hpp"

using namespace fulgurite;
namespace data = fulgurite::data;

namespace {

using Rows = std::vector<double>;
using Sizes = std::vector<long>;

std::vector<double> samples(int n) { return toy::batches(n); }

/// Takes memory for each row, and draws.
struct Net {
  toy::Tensor p = toy::Tensor::parameter(1.0), seen = toy::Tensor(0.0);
  long batch_size = 2;
  std::function<void()> act = nullptr;
  std::function<void(Rows const&)> look = nullptr;
  std::vector<toy::Tensor> parameters() const { return {p}; }
  std::vector<toy::Tensor> buffers() const { return {seen}; }
  toy::Tensor training_step(Rows const& rows) {
    toy::take_memory(static_cast<long>(rows.size()));
    if (act) act();
    if (look) look(rows);
    seen.set(seen.value() + rows[0]);
    return p * p * toy::Tensor(0.01 * toy::draw() * (1 + rows[0]));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 0.1, .momentum = 0.9}; }
};
template <class Base = Net>
struct Evaluated : Base {
  std::vector<std::size_t> validated = {};
  Rows firsts = {};
  void validation_step(Rows const& rows) { see(rows); }
  void test_step(Rows const& rows) { see(rows); }
  double predict_step(Rows const& rows) { return see(rows), 1.0; }
  void see(Rows const& rows) {
    firsts.push_back(rows[0]);
    validated.push_back(rows.size());
    toy::take_memory(static_cast<long>(rows.size()));
  }
};

auto loader(int n, long batch_size = 2) {
  return data::Loader{samples(n), {.batch_size = batch_size, .shuffle = true, .seed = 3}};
}
/// Its loaders are made of a field, or of 2 rows a batch whatever the field says.
struct Made {
  long batch_size = 2;
  bool heeds = true;
  int made = 0;
  auto train_dataloader() {
    ++made;
    return loader(64, heeds ? batch_size : 2);
  }
};

TrainerOptions options(int epochs = 2) { return {.max_epochs = epochs}; }

template <class Search>
Search quiet(Search search) {
  search.show = false;
  return search;
}
Sizes tried(tune::FoundBatchSize const& found) {
  Sizes all;
  for (auto const& trial : found.trials) all.push_back(trial.fits ? trial.size : -trial.size);
  return all;
}
/// What a search on this loader tries (without memory: negative) and finds.
struct Came {
  Sizes tried;
  long size;
  bool operator==(Came const&) const = default;
};
template <class L>
Came search(L loader, long memory, tune::BatchSizeSearch<Net, L> how) {
  toy::world = {};
  toy::world.memory = memory;
  Net net;
  auto trainer = toy::train<Net>(options(), {});
  how.show = false;
  auto const found = tune::scale_batch_size(trainer, net, loader, how);
  CHECK(loader.batch_size() == found.size);
  return {tried(found), found.size};
}
constexpr long plenty = 1'000'000;

}  // namespace

TEST_CASE("power doubles the batch size until memory ends or a batch has all samples") {
  CHECK(search(loader(64), plenty, {}) == Came{{2, 4, 8, 16, 32, 64}, 64});
  CHECK(search(loader(60), plenty, {}) == Came{{2, 4, 8, 16, 32, 60}, 60});
  CHECK(search(loader(1000), 15, {}) == Came{{2, 4, 8, -16}, 8});
  CHECK(search(loader(60), plenty, {.max_val = 64}) == Came{{2, 4, 8, 16, 32, 60}, 60});
  CHECK(search(loader(60), 50, {}) == Came{{2, 4, 8, 16, 32, -60}, 32});
  CHECK(search(loader(1000), plenty, {.max_trials = 4}) == Came{{2, 4, 8, 16}, 16});
  CHECK(search(loader(1000), 9, {.init_val = 16}) == Came{{-16, 8, -16}, 8});
  CHECK(search(loader(1000), 1, {.init_val = 16}) == Came{{-16, -8, -4, -2, 1, -2}, 1});
  CHECK(search(loader(1000), plenty, {.max_val = 8}) == Came{{2, 4, 8}, 8});
  CHECK(search(loader(1000), plenty, {.init_val = 3, .max_val = 20}) == Came{{3, 6, 12, 20}, 20});
  CHECK(search(loader(5), plenty, {.init_val = 64}) == Came{{5}, 5});
}

TEST_CASE("no size is found that was not tried and fitted, whatever limit ends the search") {
  CHECK(search(loader(1000), 17, {.max_val = 20}) == Came{{2, 4, 8, 16, -20}, 16});
  CHECK(search(loader(20'000), 5000, {}) == Came{{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, -8192}, 4096});
  CHECK(search(loader(1000), 7, {.init_val = 8, .max_val = 8}) == Came{{-8, 4, -8}, 4});
  CHECK(search(loader(1000), 17, {.max_trials = 4, .max_val = 20}) == Came{{2, 4, 8, 16}, 16});
  CHECK(search(loader(18), 17, {.max_val = 20}) == Came{{2, 4, 8, 16, -18}, 16});
  CHECK(search(loader(1000), 17, {.mode = tune::binsearch, .max_val = 20, .margin = 0}) ==
        Came{{2, 4, 8, 16, -20, -18, 17}, 17});
  // A field that holds no larger number is such a limit, too.
  struct Small {
    std::int8_t batch_size = 2;
    auto train_dataloader() { return loader(1000, batch_size); }
  };
  for (long const memory : {plenty, 100L}) {
    toy::world = {};
    toy::world.memory = memory;
    Small data;
    Net net;
    auto trainer = toy::train<Net>(options(), {});
    auto const found = tune::scale_batch_size(trainer, net, data, {.field = &Small::batch_size, .show = false});
    CHECK(tried(found) == Sizes{2, 4, 8, 16, 32, 64, memory == plenty ? 127 : -127});
    CHECK(long{data.batch_size} == (memory == plenty ? 127 : 64));
  }
}

TEST_CASE("binsearch halves what lies between the largest that fits and the smallest that does not") {
  CHECK(search(loader(1000), 19, {.mode = tune::binsearch, .margin = 0}) ==
        Came{{2, 4, 8, 16, -32, -24, -20, 18, 19}, 19});
  CHECK(search(loader(1000), 19, {.mode = tune::binsearch}) == Came{{2, 4, 8, 16, -32, -24, -20, 18, 19}, 18});
  CHECK(search(loader(64), plenty, {.mode = tune::binsearch}) == Came{{2, 4, 8, 16, 32, 64}, 64});
  CHECK(search(loader(60), 59, {.mode = tune::binsearch, .margin = 0}) ==
        Came{{2, 4, 8, 16, 32, -60, 46, 53, 56, 58, 59}, 59});
  CHECK(search(loader(1000), plenty, {.mode = tune::binsearch, .max_trials = 3}) == Came{{2, 4, 8}, 8});
  CHECK(search(loader(1000), plenty, {.mode = tune::binsearch, .max_val = 20}) == Came{{2, 4, 8, 16, 20}, 20});
  CHECK(search(loader(1000), 1, {.mode = tune::binsearch}) == Came{{-2, 1}, 1});
  CHECK(search(loader(1000), 3, {.mode = tune::binsearch, .init_val = 64, .margin = 0}) ==
        Came{{-64, -32, -16, -8, -4, 2, 3}, 3});
}

TEST_CASE("where no size fits there is one Error, and the size is as it was") {
  for (auto const mode : {tune::power, tune::binsearch}) {
    toy::world = {};
    toy::world.memory = 0;
    Net net;
    auto trainer = toy::train<Net>(options(), {});
    auto all = loader(100, 7);
    std::string sentence;
    CHECK(toy::refusal([&] { tune::scale_batch_size(trainer, net, all, {.mode = mode, .init_val = 8, .show = false}); },
                       &sentence) == "fulgurite.tuner.out_of_memory");
    CHECK(sentence ==
          "[fulgurite.tuner.out_of_memory] no batch size fits into memory: the smallest that was tried is 1; make the "
          "model smaller, or take a device with more memory");
    CHECK(all.batch_size() == 7);
    CHECK(toy::refusal(
              [&] { tune::scale_batch_size(trainer, net, all, {.init_val = 8, .max_trials = 2, .show = false}); },
              &sentence) == "fulgurite.tuner.out_of_memory");
  }
}

TEST_CASE("loaders are made again from a field of the data module or of the model") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  auto trainer = toy::train<Net>(options(), {});
  Made made;
  auto const found = tune::scale_batch_size(
      trainer, net, made, {.mode = tune::binsearch, .margin = 0, .field = &Made::batch_size, .show = false});
  CHECK(found.size == 20);
  CHECK(made.batch_size == 20);
  CHECK(made.made == static_cast<int>(found.trials.size()));

  struct WithLoaders : Net {
    short rows = 2;  // another integer than long
    auto train_dataloader() { return loader(64, rows); }
  } whole;
  auto of_whole = toy::train<WithLoaders>(options(), {});
  CHECK(tune::scale_batch_size(of_whole, whole, {.field = &WithLoaders::rows, .show = false}).size == 16);
  CHECK(whole.rows == 16);
}

TEST_CASE("a field that no loader is made from is found out") {
  toy::world = {};
  Made fixed{.heeds = false};
  Net net;
  auto trainer = toy::train<Net>(options(), {});
  std::string sentence;
  CHECK(toy::refusal([&] { tune::scale_batch_size(trainer, net, fixed, {.field = &Made::batch_size, .show = false}); },
                     &sentence) == "fulgurite.tuner.unused_size");
  CHECK(sentence.find("batches have 2 rows with a batch size of 2 and of 4") != sentence.npos);
  CHECK(fixed.batch_size == 2);
}

namespace {

/// Batches without a size, of which the next one may be read before this one is done with, or not.
template <bool Stays>
struct Stream {
  using Stateless = ByChoice;
  static constexpr bool batches_stay_valid = Stays;
  std::vector<Rows> all;
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};
/// Makes streams of its field, or of 2 rows a batch whatever the field says.
template <bool Stays>
struct Streams {
  long batch_size = 2;
  bool heeds = true;
  int n = 64;
  Stream<Stays> train_dataloader() { return stream(); }
  Stream<Stays> val_dataloader() { return stream(); }
  Stream<Stays> stream() const {
    Stream<Stays> made;
    for (int i = 0; i != n; ++i) {
      if (i % (heeds ? batch_size : 2) == 0) made.all.emplace_back();
      made.all.back().push_back(i);
    }
    return made;
  }
};
template <bool Stays>
Came streamed(Streams<Stays> data, long steps, int window, bool validates) {
  toy::world = {};
  Evaluated<> net;
  auto trainer = toy::train<Evaluated<>>(options(1), {.accumulate_grad_batches = window});
  auto const search = [&](auto how) { return Came{tried(how), how.size}; };
  if (validates)
    return search(tune::scale_batch_size<tune::validate>(
        trainer, net, data, {.steps_per_trial = steps, .field = &Streams<Stays>::batch_size, .show = false}));
  return search(tune::scale_batch_size(
      trainer, net, data, {.steps_per_trial = steps, .field = &Streams<Stays>::batch_size, .show = false}));
}
template <bool Stays>
void streams_are_told_apart() {
  for (bool const validates : {false, true})
    for (long const steps : {1L, 2L, 3L})
      for (int const window : {1, 2, 3}) {
        CAPTURE(Stays, validates, steps, window);
        auto const came = [&](bool heeds, int n) { return streamed<Stays>({2, heeds, n}, steps, window, validates); };
        CHECK(toy::refusal([&] { came(false, 64); }) == "fulgurite.tuner.unused_size");
        CHECK(toy::refusal([&] { came(false, 3); }) == "fulgurite.tuner.unused_size");
        CHECK(came(true, 21) == Came{{2, 4, 8, 16, 21}, 21});
        CHECK(came(true, 2) == Came{{2, 2}, 2});  // one batch, as large as all the data
        CHECK(came(false, 2) == Came{{2, 2}, 2});
      }
}

}  // namespace

TEST_CASE("without a size of the loader, too, an unused field is told from data that are over") {
  streams_are_told_apart<true>();
  streams_are_told_apart<false>();
}

TEST_CASE("what cannot be told a batch size is refused before anything runs") {
  Net net;
  bool ran = false;
  net.act = [&] { ran = true; };
  auto trainer = toy::train<Net>(options(), {});
  Made made;
  CHECK(toy::refusal([&] { tune::scale_batch_size(trainer, net, made); }) == "fulgurite.tuner.no_size");
  CHECK(made.batch_size == 2);
  auto all = loader(64);
  for (auto const& wrong : {tune::BatchSizeSearch<Net, decltype(all)>{.init_val = 0},
                            {.max_trials = 0},
                            {.steps_per_trial = 0},
                            {.max_val = 1},
                            {.margin = 1},
                            {.margin = -0.1}})
    CHECK(toy::refusal([&] { tune::scale_batch_size(trainer, net, all, wrong); }) ==
          "fulgurite.tuner.batch_size_option");
  CHECK_FALSE(ran);
}

TEST_CASE("training after a search has the bits of one that never searched") {
  auto const trained = [](bool searches, bool fails) {
    toy::world = {};
    toy::world.memory = 20;
    Net net;
    auto trainer = toy::train<Net>(options(2), {.accumulate_grad_batches = 2});
    auto all = loader(64, 8);
    trainer.fit(net, all);
    if (fails) net.act = [] { throw std::runtime_error("a step"); };
    if (searches || fails) {
      try {
        tune::scale_batch_size(trainer, net, all, {.show = false});
      } catch (std::runtime_error const& error) { CHECK(std::string(error.what()) == "a step"); }
      CHECK(all.batch_size() == (fails ? 8 : 16));
    }
    net.act = nullptr;
    all.set_batch_size(8);
    trainer.set_options(options(5));
    trainer.fit(net, all);
    return std::vector{net.p.value(), net.seen.value(), static_cast<double>(toy::world.rng),
                       static_cast<double>(trainer.progress().global_step)};
  };
  auto const never = trained(false, false);
  CHECK(trained(true, false) == never);
  CHECK(trained(false, true) == never);
}

TEST_CASE("a loader that another run has read goes on as if no search had been") {
  // Its epochs since then: the first sample of each batch.
  auto const passes = [](auto&& between) {
    toy::world = {};
    Net net;
    auto all = loader(60, 6);
    auto first = toy::train<Net>(options(1), {});
    first.fit(net, all);
    auto trainer = toy::train<Net>(options(1), {});
    between(trainer, net, all);
    Rows firsts;
    net.look = [&](Rows const& rows) { firsts.push_back(rows[0]); };
    trainer.fit(net, all);
    return firsts;
  };
  auto const never = passes([](auto&...) {});
  CHECK(never.size() == 10);
  CHECK(passes([](auto& trainer, auto& net, auto& all) { tune::rehearse(trainer, net, all, {.steps = 3}); }) == never);
  CHECK(passes([](auto& trainer, auto& net, auto& all) {
          tune::scale_batch_size(trainer, net, all, {.init_val = 6, .max_trials = 2, .show = false});
          all.set_batch_size(6);
        }) == never);
}

TEST_CASE("the same of a loader that another evaluation has read") {
  auto const passes = [](int searches) {
    toy::world = {};
    Evaluated<> net;
    auto all = loader(60, 6);
    auto trainer = toy::train<Evaluated<>>(options(), {});
    trainer.validate(net, all);
    for (int i = 0; i != searches; ++i) {
      auto const found = tune::scale_batch_size<tune::validate>(trainer, net, all, {.init_val = 6, .show = false});
      CHECK(tried(found) == Sizes{6, 12, 24, 48, 60});
      all.set_batch_size(6);
    }
    net.firsts.clear();
    trainer.validate(net, all);
    trainer.test(net, all);
    return net.firsts;
  };
  auto const never = passes(0);
  CHECK(never.size() == 20);
  CHECK(passes(1) == never);
  CHECK(passes(2) == never);
}

TEST_CASE("memory that ends is known by its type, and by what is nested") {
  auto const found = [](std::function<void()> const& fail) {
    toy::world = {};
    Net net;
    net.look = [&](Rows const& rows) {
      if (rows.size() > 4) fail();
    };
    auto trainer = toy::train<Net>(options(), {});
    auto all = loader(64);
    return tune::scale_batch_size(trainer, net, all, {.show = false}).size;
  };
  CHECK(found([] { throw toy::OutOfMemory(); }) == 4);
  CHECK(found([] { throw std::bad_alloc(); }) == 4);
  CHECK(found([] {
          try {
            throw std::bad_alloc();
          } catch (...) { std::throw_with_nested(Error("fulgurite.data.collate", "no batch")); }
        }) == 4);
  CHECK_THROWS_AS(found([] { throw std::runtime_error("another"); }), std::runtime_error);
  CHECK_THROWS_AS(found([] { throw 7; }), int);
}

TEST_CASE("caches are emptied after each trial") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  auto trainer = toy::train<Net>(options(), {});
  auto all = loader(64);
  auto const found = tune::scale_batch_size(trainer, net, all, {.show = false});
  CHECK(toy::world.freed == static_cast<long>(found.trials.size()));
  std::vector<double> peaks;
  for (auto const& trial : found.trials) peaks.push_back(trial.peak_bytes.value());
  CHECK(peaks == std::vector<double>{2, 4, 8, 16, 32});
}

namespace {
long steps_passed = 0;
/// A clock that says a second, and a tenth for each row of the batches so far.
TrainerOptions::Clock::time_point counting() {
  return TrainerOptions::Clock::time_point(std::chrono::milliseconds(steps_passed));
}
}  // namespace

TEST_CASE("each trial is timed without its first step, and the fastest size is named") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  net.look = [](Rows const& rows) { steps_passed += rows.size() == 8 ? 10 : 20 * static_cast<long>(rows.size()); };
  auto trainer = toy::train<Net>({.max_epochs = 1, .now = &counting}, {});
  auto all = loader(64);
  auto const found = tune::scale_batch_size(trainer, net, all, {.max_trials = 5, .show = false});
  CHECK(tried(found) == Sizes{2, 4, 8, 16, -32});
  CHECK(found.fastest() == 8);
  CHECK(found.trials[0].seconds_per_step == 0.04);
  CHECK(found.trials[0].samples_per_second == 50);
  CHECK(found.trials[2].seconds_per_step == 0.01);
  CHECK(found.trials[2].samples_per_second == 800);
  CHECK_FALSE(found.trials[4].samples_per_second.has_value());
  CHECK(found.csv() == "batch_size,fits,seconds_per_step,samples_per_second,peak_bytes\n"
                       "2,1,0.04,50,2\n4,1,0.08,50,4\n8,1,0.01,800,8\n16,1,0.32,50,16\n32,0,,,32\n");
  CHECK(found.table().find("8          | 0.010000 | 800       | 8 B         | fastest ") != std::string::npos);
  CHECK(found.table().find("32         |          |           | 32 B        | out of memory\n") != std::string::npos);
  auto const plot = found.plot();
  REQUIRE(plot.marks.size() == 2);
  CHECK(plot.marks[0].label == "fastest: 8");
  CHECK(plot.marks[1].label == "found: 16");
  CHECK(plot.curves[0].x == std::vector<double>{2, 4, 8, 16});
}

TEST_CASE("a window of several batches counts all of them") {
  toy::world = {};
  Net net;
  net.act = [] { steps_passed += 100; };
  auto trainer = toy::train<Net>({.max_epochs = 1, .now = &counting}, {.accumulate_grad_batches = 2});
  auto all = loader(64);
  auto const found = tune::scale_batch_size(trainer, net, all, {.max_trials = 1, .show = false});
  CHECK(found.trials[0].seconds_per_step == 0.2);
  CHECK(found.trials[0].samples_per_second == 20);
}

TEST_CASE("trials go by all of the loader, and past the last epoch of the trainer") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 1, .limit_train_batches = Fraction{0.1}}, {});
  auto all = loader(64);
  trainer.fit(net, all);
  CHECK(tune::scale_batch_size(trainer, net, all, {.show = false}).size == 16);
}

TEST_CASE("a line is said of each trial") {
  auto const said_of = [](tune::BatchSizeSearch<Net, decltype(loader(1))> search) {
    toy::world = {};
    toy::world.memory = 6;
    Net net;
    auto trainer = toy::train<Net>({.max_epochs = 1, .now = [] { return TrainerOptions::Clock::time_point(); }}, {});
    auto all = loader(64);
    search.stream = std::tmpfile();
    REQUIRE(search.stream != nullptr);
    tune::scale_batch_size(trainer, net, all, search);
    std::rewind(search.stream);
    std::string text(200, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), search.stream));
    std::fclose(search.stream);
    return text;
  };
  CHECK(said_of({}) == "batch size 2: fits, peak memory 2 B\nbatch size 4: fits, peak memory 4 B\n"
                       "batch size 8: out of memory, peak memory 8 B\nbatch size: 4\n");
  CHECK(said_of({.max_val = 4}) ==
        "batch size 2: fits, peak memory 2 B\nbatch size 4: fits, peak memory 4 B\nbatch size: 4\n");
}

TEST_CASE("a trial in which no step is made is an Error") {
  toy::world = {};
  struct Stops : Net {
    Flow on_train_batch_start() { return Flow::skip_epoch; }
  } net;
  auto trainer = toy::train<Stops>(options(), {});
  auto all = loader(64, 4);
  CHECK(toy::refusal([&] { tune::scale_batch_size(trainer, net, all, {.show = false}); }) ==
        "fulgurite.tuner.no_steps");
  CHECK(all.batch_size() == 4);
}

TEST_CASE("in a fast_dev_run no batch size is tried") {
  toy::world = {};
  Net net;
  net.act = [] { throw std::logic_error("a step"); };
  auto trainer = toy::train<Net>({.fast_dev_run = 1}, {});
  auto all = loader(64, 4);
  auto const found = tune::scale_batch_size(trainer, net, all);
  CHECK_FALSE(found.searched);
  CHECK(found.size == 4);
  CHECK(found.trials.empty());
  CHECK(all.batch_size() == 4);
}

TEST_CASE("batch sizes of validation, test and prediction are tried on their own steps") {
  auto const sizes = [](auto method) {
    toy::world = {};
    toy::world.memory = 20;
    Evaluated<> net;
    net.act = [] { throw std::logic_error("a training step"); };
    auto trainer = toy::train<Evaluated<>>(options(), {});
    auto all = loader(64);
    auto const before = toy::world.rng;
    auto const found = method(trainer, net, all);
    CHECK(tried(found) == Sizes{2, 4, 8, 16, -32});
    CHECK(all.batch_size() == 16);
    CHECK(net.validated == std::vector<std::size_t>{2, 2, 4, 4, 8, 8, 16, 16, 32});
    CHECK(toy::world.rng == before);
    CHECK(trainer.progress().global_step == 0);
    auto never = loader(64, 16);
    for (auto const& rows : all) {  // in the order of its first epoch
      CHECK(rows == *never.begin());
      break;
    }
  };
  sizes([](auto& trainer, auto& net, auto& all) {
    return tune::scale_batch_size<tune::validate>(trainer, net, all, {.steps_per_trial = 2, .show = false});
  });
  sizes([](auto& trainer, auto& net, auto& all) {
    return tune::scale_batch_size<tune::test>(trainer, net, all, {.steps_per_trial = 2, .show = false});
  });
  sizes([](auto& trainer, auto& net, auto& all) {
    return tune::scale_batch_size<tune::predict>(trainer, net, all, {.steps_per_trial = 2, .show = false});
  });
}
