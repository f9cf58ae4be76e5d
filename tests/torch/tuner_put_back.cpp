// Searches in the middle of a run that goes on from a file, and searches that fail: everything is put back.
#include "searched.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <csignal>
#include <new>
#include <stdexcept>

using namespace fulgurite;
using namespace searched;

namespace {

constexpr auto which = Optimizer::ours;

auto trainer_that(Searches searches, int epochs) {
  return make_trainer<Net<which>>(options(epochs), SingleDevice{cpu}, Float32{}, windows<which>(), EMAWeightAveraging(),
                                  Signals{}, std::move(searches), NoDefaults{});
}
std::filesystem::path file_of_step(long step) {
  return fs::temp_directory_path() /
         ("fulgurite_put_back_" + std::to_string(::getpid()) + "_" + std::to_string(step) + ".safetensors");
}
std::filesystem::path the_file(std::filesystem::path const& folder, std::string const& beginning) {
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(beginning)) return entry.path();
  return {};
}

}  // namespace

TEST_CASE("tuner: a run that goes on from a file and searches has the bits of the unbroken run") {
  long const step = GENERATE(4L, 6L);  // inside of the second epoch, and at its end
  auto const file = file_of_step(step);
  torch::manual_seed(7);
  Net<which> whole;
  auto loader = shuffled();
  auto trainer = trainer_that({.file_after = step, .file = file}, 4);
  trainer.fit(whole, loader);
  auto const unbroken = bits(trainer, whole);
  for (auto const what : {What::nothing, What::rate, What::size}) {
    torch::manual_seed(99);
    Net<which> rest;
    auto anew = shuffled();
    auto later = trainer_that({.what = what, .epochs = {2, 3}}, 4);
    later.fit(rest, anew, CkptPath{file});
    CHECK(bits(later, rest) == unbroken);
    // Before epochs 2 and 3, and what was asked for when the fit began before the first of these.
    CHECK((later.callback<Searches>().points > 0) == (what != What::nothing));
  }
  fs::remove(file);
}

TEST_CASE("tuner: a search that ends a resumed run leaves a file of the run as it was before the search") {
  auto const how = GENERATE(as<std::string>{}, "step", "memory", "signal");
  auto const what = GENERATE(What::rate, What::size);
  auto const folder = fs::temp_directory_path() / ("fulgurite_ended_" + std::to_string(::getpid()));
  auto const trainer_of_four = [&](Searches searches) {
    return make_trainer<Net<which>>(options(4), SingleDevice{cpu}, Float32{}, windows<which>(),
                                    Signals{{.dirpath = folder}}, OnExceptionCheckpoint{{.dirpath = folder}},
                                    std::move(searches), NoDefaults{});
  };
  torch::manual_seed(7);
  Net<which> whole;
  auto loader = shuffled();
  auto const file = file_of_step(4);
  auto trainer = trainer_of_four({.file_after = 4, .file = file});
  trainer.fit(whole, loader);
  auto const unbroken = bits(trainer, whole);

  torch::manual_seed(99);
  Net<which> net;
  int steps = 0;
  net.act = [&] {
    if (++steps < 2) return;
    if (how == "memory") throw std::bad_alloc();  // for each batch size
    if (steps == 2 && how == "step") throw std::runtime_error("no such batch");
    if (steps == 2 && how == "signal") std::raise(SIGINT);
  };
  auto searching = trainer_of_four({.what = what, .epochs = {3}});
  auto anew = shuffled();
  if (how == "signal") CHECK_THROWS_AS(searching.fit(net, anew, CkptPath{file}), Interrupted);
  else CHECK_THROWS(searching.fit(net, anew, CkptPath{file}));
  CHECK(steps == (how == "memory" && what == What::size ? 3 : 2));

  // A signal's file has the number of its fit in this program in its name.
  auto const left = the_file(folder, how == "signal" ? "interrupted" : "on_exception");
  REQUIRE(fs::exists(left));
  torch::manual_seed(5);
  Net<which> rest;
  auto again = shuffled();
  auto later = trainer_of_four({});
  later.fit(rest, again, CkptPath{left});
  CHECK(bits(later, rest) == unbroken);
  fs::remove_all(folder);
  fs::remove(file);
}

namespace {

/// Samples that fail when they are told to.
struct Failing : Rows {
  std::shared_ptr<int> fails_in = std::make_shared<int>(-1);
  torch::data::Example<> get(std::size_t i) const {
    if (*fails_in > 0 && --*fails_in == 0) throw std::runtime_error("no such sample");
    return Rows::get(i);
  }
};

}  // namespace

TEST_CASE("tuner: whatever ends a search, between fits or inside of one, the run goes on as if it had never been") {
  auto const how = GENERATE(as<std::string>{}, "step", "loader", "memory", "allocator", "signal");
  auto const gone_on = [&](bool searches) {
    torch::manual_seed(7);
    Net<which> net;
    Failing samples;
    auto loader = data::Loader{samples, {.batch_size = 5, .shuffle = true, .seed = 3}, data::Stack{}};
    auto trainer = trainer_that({}, 1);
    trainer.fit(net, loader);
    trainer.set_options(options(3));
    int steps = 0;
    net.act = [&] {
      if (++steps % 4 != 0) return;
      if (how == "step") throw std::runtime_error("no such batch");
      if (how == "memory") throw std::bad_alloc();
      if (how == "allocator") torch::empty({std::int64_t{1} << 46});
      if (how == "signal") std::raise(SIGINT);
    };
    auto const fails = [&](auto&& search) {
      steps = 0;
      *samples.fails_in = how == "loader" ? 17 : -1;
      if (how == "signal") CHECK_THROWS_AS(search(), Interrupted);
      else CHECK_THROWS(search());
    };
    auto now = LibTorch::rng_state();
    auto const bits_now = [&] {
      auto again = now;
      again.restore();
      auto all = bits(trainer, net);
      again.restore();
      return all;
    };
    auto const before = bits_now();
    if (searches) {
      fails([&] { tune::lr_find(trainer, net, loader, {}); });
      CHECK(bits_now() == before);
      CHECK(net.lr == 0.02);
      // Where memory ends that is a size which does not fit: the one Error is that none does.
      if (how == "memory" || how == "allocator") net.act = [] { throw std::bad_alloc(); };
      fails([&] { tune::scale_batch_size(trainer, net, loader, {.steps_per_trial = 5, .show = false}); });
      CHECK(bits_now() == before);
      CHECK(loader.batch_size() == 5);

      net.act = [&, steps_in_fit = 0]() mutable {
        if (++steps_in_fit != 2) return;
        if (how == "signal") std::raise(SIGINT);
        else throw std::runtime_error("no such batch");
      };
      auto const weights = fixtures::copied_weights(net);
      auto searching = trainer_that({.what = What::rate}, 3);
      if (how == "signal") CHECK_THROWS_AS(searching.fit(net, loader), Interrupted);
      else CHECK_THROWS_AS(searching.fit(net, loader), std::runtime_error);
      auto const after = fixtures::copied_weights(net);
      for (std::size_t i = 0; i != weights.size(); ++i) CHECK(fixtures::same_bits(weights[i], after[i]));
      CHECK(searching.progress().global_step == 0);
      for (auto const& left : fs::directory_iterator("."))
        if (left.path().filename().string().starts_with("interrupted")) fs::remove(left.path());
    }
    now.restore();
    net.act = nullptr;
    *samples.fails_in = -1;
    trainer.fit(net, loader);
    return bits(trainer, net);
  };
  CHECK(gone_on(true) == gone_on(false));
}

namespace {

/// Memory ends when what it has saved is read again.
struct Unreadable : Net<Optimizer::torch> {
  bool breaks = false;
  template <class Archive>
  void state(Archive&) {
    if constexpr (Archive::loading)
      if (breaks) torch::empty({std::int64_t{1} << 46});
  }
};

}  // namespace

TEST_CASE("tuner: where memory ends while all is put back, that is no batch size that does not fit") {
  Unreadable net;
  auto loader = shuffled();
  auto trainer = make_trainer<Unreadable>(options(2), SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  net.act = [&] { net.breaks = true; };
  try {
    tune::scale_batch_size(trainer, net, loader, {.show = false});
    FAIL("all was put back");
  } catch (Error const& error) {
    CHECK(error.identifier() == "fulgurite.tuner.put_back");
    CHECK(std::string(error.what()).find("can't allocate memory") != std::string::npos);
  }
}
