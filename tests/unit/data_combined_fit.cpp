// Combined loaders in a fit: whose batches a limit counts.
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/stride.hpp>

#include "models.hpp"

using namespace fulgurite;

namespace {
struct Pairs {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<std::pair<double, double>> seen = {}, validated = {};
  toy::Tensor training_step(std::tuple<double, double>& batch) {
    seen.emplace_back(std::get<0>(batch), std::get<1>(batch));
    return -p;
  }
  void validation_step(std::tuple<double, double>& batch) {
    validated.emplace_back(std::get<0>(batch), std::get<1>(batch));
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
auto both() { return data::combined(toy::batches(3, 1), toy::batches(4, 3)); }
}  // namespace

TEST_CASE("C134: a Fraction as a limit is a part of each combined loader, a count is one of all") {
  using Seen = std::vector<std::pair<double, double>>;
  Pairs half;
  auto train = both(), val = both();
  toy::train<Pairs>({.max_epochs = 1,
                     .limit_train_batches = Fraction{0.5},
                     .limit_val_batches = Fraction{0.7},
                     .num_sanity_val_steps = 0},
                    Automatic{})
      .fit(half, train, val);
  CHECK(half.seen == Seen{{1, 3}, {1, 4}});
  CHECK(half.validated == Seen{{1, 3}, {2, 4}});
  Pairs two;
  toy::train<Pairs>({.max_epochs = 1, .limit_train_batches = 2, .num_sanity_val_steps = 0}, Automatic{})
      .fit(two, train, val);
  CHECK(two.seen == Seen{{1, 3}, {2, 4}});
  CHECK(two.validated.size() == 4);  // the part of an earlier trainer is forgotten
  Pairs little;
  CHECK(toy::refusal([&] {
          toy::train<Pairs>({.max_epochs = 1, .limit_train_batches = Fraction{0.3}, .num_sanity_val_steps = 0},
                            Automatic{})
              .fit(little, train, val);
        }) == "fulgurite.options.fraction_too_small");
}

TEST_CASE("overfit_batches: each epoch has the same batches, whatever sampler a loader of the library has") {
  using namespace fulgurite::data;
  using Epochs = std::vector<std::vector<int>>;
  struct Net {
    toy::Tensor p = toy::Tensor::parameter(0.0);
    Epochs epochs = {};
    void on_train_epoch_start() { epochs.emplace_back(); }
    toy::Tensor training_step(std::vector<int> const& batch) {
      epochs.back().insert(epochs.back().end(), batch.begin(), batch.end());
      return -p;
    }
    toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  };
  auto const trained = [](auto loader) {
    Net net;
    auto trainer = toy::train<Net>({.max_epochs = 3, .overfit_batches = 2}, fulgurite::Automatic{});
    trainer.fit(net, loader);
    CHECK(trainer.warnings().empty());
    return net.epochs;
  };
  std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::size_t> const even{0, 2, 4, 6, 8};
  BatchOptions const two{.batch_size = 2};
  CHECK(trained(Loader{all, {.batch_size = 2, .shuffle = true}}) == Epochs(3, {0, 1, 2, 3}));
  CHECK(trained(Loader{all, Subset{even, OptionalShuffle{5, true, 1}}, two}) == Epochs(3, {0, 2, 4, 6}));
  CHECK(trained(Loader{all, Stride{OptionalShuffle{10, true, 1}, {.rank = 1, .world = 2}}, two}) ==
        Epochs(3, {1, 3, 5, 7}));
  auto const shuffled = trained(Loader{all, Shuffle{10, 1}, two});
  CHECK(shuffled == Epochs(3, shuffled.front()));
}
