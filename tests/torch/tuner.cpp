// A search on LibTorch leaves no trace: the training that follows has the bits of a run that never searched.

#include "searched.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <csignal>
#include <filesystem>
#include <stdexcept>

using namespace fulgurite;
using namespace searched;

TEST_CASE("tuner: training after a search has the bits of a run that never searched") {
  CHECK(traces<Optimizer::ours>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::ours>(eager, Bf16Mixed{}, with_workers) == 0);
  CHECK(traces<Optimizer::torch>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::groups>(eager, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::momentum>(eager, Float32{}, shuffled) == 0);
}

TEST_CASE("tuner: the same of captured steps, whose tapes are freed") {
  CHECK(traces<Optimizer::ours>(captured, Float32{}, shuffled) == 0);
  CHECK(traces<Optimizer::our_groups>(captured, Float32{}, with_workers) == 0);
}

TEST_CASE("tuner: a search that throws, or that SIGINT ends, between fits or inside of one, puts all back") {
  auto const how = GENERATE(0, 1);  // the step throws; a signal comes
  torch::manual_seed(7);
  Net<Optimizer::ours> net;
  auto loader = shuffled();
  auto trainer = make_trainer<Net<Optimizer::ours>>(options(1), SingleDevice{cpu}, Float32{}, Automatic{}, Signals{},
                                                    Tries{false, {1}, {.steps = 6}}, NoDefaults{});
  trainer.fit(net, loader);
  auto const random = LibTorch::rng_state();
  auto const bits_now = [&] {
    auto again = random;
    again.restore();
    return bits(trainer, net);
  };
  auto const before = bits_now();
  trainer.set_options(options(5));
  int steps = 0;
  net.act = [&] {
    if (++steps % 4 != 0) return;
    if (how == 0) throw std::runtime_error("no such batch");
    std::raise(SIGINT);
  };
  auto const ends = [&](auto&& search) {
    if (how == 0) CHECK_THROWS_AS(search(), std::runtime_error);
    else CHECK_THROWS_AS(search(), Interrupted);
  };
  ends([&] { tune::lr_find(trainer, net, loader, {}); });
  CHECK(steps == 4);
  CHECK(bits_now() == before);
  CHECK(net.lr == 0.02);
  ends([&] { trainer.fit(net, loader); });
  CHECK(steps == 8);
  // The file of the interrupted fit, or none, was written before the first step.
  CHECK(trainer.progress().global_step == 7);
  for (auto const& left : fs::directory_iterator("."))
    if (left.path().filename().string().starts_with("interrupted_")) fs::remove(left.path());
}
