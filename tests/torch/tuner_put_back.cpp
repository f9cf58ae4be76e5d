// Searches in the middle of a run that goes on from a file, and searches that fail: everything is put back.
#include "searched.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <csignal>
#include <new>
#include <stdexcept>

using namespace fulgurite;
using namespace searched;

namespace {

enum class What { nothing, rate, size };
constexpr auto which = Optimizer::ours;

/// Searches when the fit starts and before these epochs, and goes on with what it had. Leaves a file after a step.
struct Searches {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  static constexpr Order order = Order::tuner;
  What what = What::nothing;
  std::vector<int> epochs = {};
  long file_after = 0;
  std::filesystem::path file = {};
  int points = 0;

  void on_fit_start(auto& ctx) { ask(ctx); }
  void on_train_epoch_start(auto& ctx) {
    if (std::find(epochs.begin(), epochs.end(), ctx.current_epoch()) != epochs.end()) ask(ctx);
  }
  void on_train_batch_end(auto& ctx) {
    if (file_after != 0 && ctx.global_step() == file_after) ctx.request_checkpoint(file);
  }
  void ask(auto& ctx) {
    if (what == What::nothing) return;
    ctx.request_search([this]<class R>(Rehearser<R>& rehearser) {
      using Model = typename R::Model;
      if (what == What::rate) {
        tune::RateSearch<Model> const search{.min_lr = 1e-4, .num_training = 4, .update = nullptr};
        points += static_cast<int>(tune::find_rate(rehearser, search).lr.size());
      } else {
        tune::BatchSizeSearch<Model> const search{.init_val = 3, .max_trials = 3, .steps_per_trial = 2, .show = false};
        tune::SizeTrials<R, Model, NoModule> trials(rehearser, search);
        long const before = trials.size();
        points += static_cast<int>(trials.run().trials.size());
        trials.put(before);
      }
    });
  }
};
auto trainer_that(Searches searches, int epochs) {
  return make_trainer<Net<which>>(options(epochs), SingleDevice{cpu}, Float32{}, windows<which>(), EMAWeightAveraging(),
                                  Signals{}, std::move(searches));
}
std::filesystem::path file_of_step(long step) {
  return fs::temp_directory_path() /
         ("fulgurite_put_back_" + std::to_string(::getpid()) + "_" + std::to_string(step) + ".safetensors");
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
  auto trainer = make_trainer<Unreadable>(options(2), SingleDevice{cpu}, Float32{}, Automatic{});
  net.act = [&] { net.breaks = true; };
  try {
    tune::scale_batch_size(trainer, net, loader, {.show = false});
    FAIL("all was put back");
  } catch (Error const& error) {
    CHECK(error.identifier() == "fulgurite.tuner.put_back");
    CHECK(std::string(error.what()).find("can't allocate memory") != std::string::npos);
  }
}
