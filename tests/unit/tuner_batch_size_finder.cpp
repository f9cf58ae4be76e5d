// The callback that finds a batch size when a fit starts, and again at milestones.
#include <fulgurite/tuner/batch_size_finder.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/data/loader.hpp>

#include "models.hpp"

using namespace fulgurite;
namespace data = fulgurite::data;

namespace {

using Rows = std::vector<double>;

/// Takes memory for each row; what it has seen in training proper, by epoch.
struct Net {
  toy::Tensor p = toy::Tensor::parameter(1.0);
  long batch_size = 2;
  std::vector<std::vector<std::size_t>> epochs = {};
  std::vector<toy::Tensor> parameters() const { return {p}; }
  void on_train_epoch_start(auto& ctx) {
    if (!ctx.rehearsing()) epochs.emplace_back();
  }
  toy::Tensor training_step(Rows const& rows, auto& ctx) {
    toy::take_memory(static_cast<long>(rows.size()));
    if (epochs.empty() && !ctx.rehearsing()) epochs.emplace_back();  // a fit that goes on inside of one
    if (!ctx.rehearsing()) epochs.back().push_back(rows.size());
    return p * p * toy::Tensor(0.01 * toy::draw() * (1 + rows[0]));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 0.1, .momentum = 0.9}; }
};
struct WithLoaders : Net {
  auto train_dataloader() {
    return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true, .seed = 3}};
  }
};
struct Made {
  int batch_size = 2;
  auto train_dataloader() { return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true}}; }
};
using Sizes = std::vector<std::size_t>;

auto loader(long batch_size = 2) {
  return data::Loader{toy::batches(40), {.batch_size = batch_size, .shuffle = true, .seed = 3}};
}
BatchSizeFinder<Net> finder(std::vector<int> milestones = {}) {
  return BatchSizeFinder<Net>{{.search = {.show = false}, .milestones = std::move(milestones)}};
}
/// More memory from this epoch on, as where a backbone is frozen.
struct MoreMemory {
  using Stateless = ByChoice;
  int epoch;
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == epoch) toy::world.memory = 40;
  }
};

}  // namespace

TEST_CASE("a fit begins with the batch size that was found, and has the bits of one that was given it") {
  toy::world = {};
  toy::world.memory = 20;
  Net net, other;
  auto trainer = toy::train<Net>({.max_epochs = 2}, {}, finder());
  auto all = loader();
  trainer.fit(net, all);
  CHECK(all.batch_size() == 16);
  CHECK(net.epochs == std::vector<Sizes>{{16, 16, 8}, {16, 16, 8}});
  CHECK(trainer.callback<BatchSizeFinder<Net>>().results().size == 16);
  auto const random = toy::world.rng;

  toy::world = {};
  auto plain = toy::train<Net>({.max_epochs = 2}, {});
  auto given = loader(16);
  plain.fit(other, given);
  CHECK(net.p.value() == other.p.value());
  CHECK(random == toy::world.rng);
}

TEST_CASE("fields of the model and of the data module are found and written") {
  toy::world = {};
  toy::world.memory = 20;
  WithLoaders whole;
  auto of_whole = toy::train<WithLoaders>(
      {.max_epochs = 1}, {},
      BatchSizeFinder<WithLoaders>{{.search = {.field = &WithLoaders::batch_size, .show = false}}});
  of_whole.fit(whole);
  CHECK(whole.batch_size == 16);
  CHECK(whole.epochs == std::vector<Sizes>{{16, 16, 8}});

  Net net;
  Made made;
  auto trainer = toy::train<Net>(
      {.max_epochs = 1}, {},
      BatchSizeFinder<Net, Made>{
          {.search = {.mode = tune::binsearch, .margin = 0, .field = &Made::batch_size, .show = false}}});
  trainer.fit(net, made);
  CHECK(made.batch_size == 20);
  CHECK(net.epochs == std::vector<Sizes>{{20, 20}});
}

TEST_CASE("at a milestone it searches again, and the epoch that follows has the new size") {
  for (bool const settable : {true, false}) {
    toy::world = {};
    toy::world.memory = 20;
    WithLoaders net;
    BatchSizeFinderOptions<WithLoaders> options{.search = {.show = false}, .milestones = {2}};
    if (!settable) options.search.field = &WithLoaders::batch_size;
    auto trainer = toy::train<WithLoaders>({.max_epochs = 3}, {}, BatchSizeFinder<WithLoaders>{options}, MoreMemory{2});
    auto all = loader();
    if (settable) trainer.fit(net, all);
    else trainer.fit(net);
    CHECK(net.epochs == std::vector<Sizes>{{16, 16, 8}, {16, 16, 8}, {40}});
    CHECK(trainer.progress().global_step == 7);
  }
}

TEST_CASE("a search at a milestone changes nothing but the batch size") {
  auto const trained = [](std::vector<int> milestones) {
    toy::world = {};
    toy::world.memory = 20;
    Net net;
    auto trainer = toy::train<Net>({.max_epochs = 4}, {.accumulate_grad_batches = 2}, finder(std::move(milestones)));
    auto all = loader();
    trainer.fit(net, all);
    return std::vector{net.p.value(), static_cast<double>(toy::world.rng),
                       static_cast<double>(trainer.progress().global_step)};
  };
  CHECK(trained({1, 3}) == trained({}));
}

TEST_CASE("a fit that goes on from a file has the size that was found, and searches no more") {
  auto const fit = [](Net& net, long saved_at, auto... from) {
    auto trainer = toy::train<Net>({.max_epochs = 4}, {}, finder(), toy::Influence{[=](std::string_view, auto& ctx) {
                                     if (ctx.global_step() == saved_at) ctx.request_checkpoint("a file");
                                   }});
    auto all = loader();
    trainer.fit(net, all, from...);
    CHECK(all.batch_size() == 16);
    return trainer.template callback<BatchSizeFinder<Net>>().results().trials.size();
  };
  for (long const steps : {3L, 4L}) {  // after an epoch, and inside of one
    toy::world = {};
    toy::world.memory = 20;
    Net whole, rest;
    CHECK(fit(whole, steps) == 5);
    auto const random = toy::world.rng;
    CHECK(fit(rest, 0, CkptPath{"a file"}) == 0);
    CHECK(rest.epochs.size() == 3);
    CHECK(rest.p.value() == whole.p.value());
    CHECK(toy::world.rng == random);
  }
}

TEST_CASE("what a search cannot do in a fit is an Error before training") {
  toy::world = {};
  std::vector<Rows> const batches(4, Rows{1, 2});
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 1}, {}, finder());
  CHECK(toy::refusal([&] { trainer.fit(net, batches); }) == "fulgurite.tuner.no_size");

  auto with_field = toy::train<Net>({.max_epochs = 1}, {},
                                    BatchSizeFinder<Net>{{.search = {.field = &Net::batch_size, .show = false}}});
  auto all = loader();
  CHECK(toy::refusal([&] { with_field.fit(net, all); }) == "fulgurite.tuner.needs_factory");

  struct Other : Made {
  } other;
  auto of_made = toy::train<Net>({.max_epochs = 1}, {},
                                 BatchSizeFinder<Net, Made>{{.search = {.field = &Made::batch_size, .show = false}}});
  CHECK(toy::refusal([&] { of_made.fit(net, other); }) == "fulgurite.tuner.no_data_module");
  CHECK(net.epochs.empty());
  CHECK(toy::refusal([] { finder({-1}); }) == "fulgurite.tuner.milestone");
  CHECK(toy::refusal([] { BatchSizeFinder<Net>{{.search = {.init_val = 0}}}; }) == "fulgurite.tuner.batch_size_option");
}

TEST_CASE("in a fast_dev_run the callback is idle") {
  toy::world = {};
  Net net;
  auto trainer = toy::train<Net>({.fast_dev_run = 2}, {}, finder());
  auto all = loader();
  trainer.fit(net, all);
  CHECK(net.epochs == std::vector<Sizes>{{2, 2}});
}

namespace {
/// Searches before the second epoch alone.
struct Later : BatchSizeFinder<Net> {
  Later() : BatchSizeFinder<Net>({.search = {.show = false}}) {}
  void on_fit_start(auto&) {}
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 1) scale_batch_size(ctx);
  }
};
}  // namespace

TEST_CASE("what derives from it searches when it likes") {
  toy::world = {};
  toy::world.memory = 20;
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 2}, {}, Later{});
  auto all = loader(10);
  trainer.fit(net, all);
  CHECK(net.epochs == std::vector<Sizes>{{10, 10, 10, 10}, {16, 16, 8}});
}
