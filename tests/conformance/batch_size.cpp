// Section 11.11: the search for a batch size.
#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

#include "observed.hpp"

using namespace fulgurite;

namespace {

/// Memory ends at batches of `memory` rows or more.
struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  long batch_size = 2;
  std::vector<toy::Tensor> parameters() const { return {p}; }
  toy::Tensor training_step(std::vector<double> const& rows) {
    toy::take_memory(static_cast<long>(rows.size()));
    return -p;
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
/// Its loader is made of the model's field.
struct Whole : Net {
  int samples = 0;
  auto train_dataloader() { return data::Loader{toy::batches(samples), {.batch_size = batch_size}}; }
};

struct Came {
  long size;
  Counts tried;
  bool operator==(Came const&) const = default;
};
Came came(int samples, long ends_at, tune::BatchSizeSearch<Whole, Whole> search) {
  toy::world = {};
  toy::world.memory = ends_at - 1;
  Whole net;
  net.samples = samples;
  auto trainer = toy::train<Whole>({.max_epochs = 2}, Automatic{});
  search.field = &Whole::batch_size;
  search.show = false;
  auto const found = tune::scale_batch_size(trainer, net, search);
  CHECK(net.batch_size == found.size);
  CHECK(trainer.progress().global_step == 0);
  Came all{found.size, {}};
  for (auto const& trial : found.trials) all.tried.push_back(trial.size);
  return all;
}
constexpr long never = 1'000'000'000;

}  // namespace

TEST_CASE(
    "C124 power, 64 / 60 / 1000 samples, no OOM: 64; with D10 60 and 1000, never beyond the data; tries 2, 4, ...") {
  CHECK(observed("C124", "64", came(64, never, {}).size) == 64);
  CHECK(came(64, never, {}).tried == Counts{2, 4, 8, 16, 32, 64});
  CHECK(came(60, never, {}).size == 60);
  CHECK(came(1000, never, {}).size == 1000);
}

TEST_CASE("C125 power: max_trials 4; OOM from 16; init 16 with OOM from 10; with D10 max_val 8 is tried; trials 0 are "
          "refused") {
  CHECK(observed("C125", "max_trials 4", came(1000, never, {.max_trials = 4}).size) == 16);
  CHECK(observed("C125", "OOM from 16", came(1000, 16, {}).size) == 8);
  CHECK(came(1000, 10, {.init_val = 16}) == Came{8, {16, 8, 16}});
  CHECK(came(1000, never, {.max_val = 8}) == Came{8, {2, 4, 8}});
  CHECK(outcome([] { came(1000, never, {.max_trials = 0}); }) == "error");
}

TEST_CASE(
    "C127 binsearch: OOM from 20 margin 0; with D10 no margin where nothing failed: max_trials 3, and 64 samples") {
  CHECK(observed("C127", "OOM from 20", came(1000, 20, {.mode = tune::binsearch, .margin = 0}).size) == 19);
  CHECK(came(1000, never, {.mode = tune::binsearch, .max_trials = 3}) == Came{8, {2, 4, 8}});
  CHECK(came(64, never, {.mode = tune::binsearch}).size == 64);
}

TEST_CASE("C128 always OOM: with D10 one clear Error, and the field as it was") {
  for (auto const mode : {tune::power, tune::binsearch}) {
    toy::world = {};
    toy::world.memory = 0;
    Whole net;
    net.samples = 100;
    auto trainer = toy::train<Whole>({.max_epochs = 2}, Automatic{});
    std::string which;
    CHECK(observed("C128", "outcome",
                   outcome(
                       [&] {
                         tune::scale_batch_size(trainer, net,
                                                {.mode = mode, .field = &Whole::batch_size, .show = false});
                       },
                       &which)) == "error");
    CHECK(which == "fulgurite.tuner.out_of_memory");
    CHECK(net.batch_size == 2);
  }
}
