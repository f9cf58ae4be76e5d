// Section 11.10: averages of weights (with D8 every epoch from the start epoch on counts, the last one too),
// finetuning.
#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "observed.hpp"

using namespace fulgurite;
using SWA = StochasticWeightAveraging<>;

namespace {

/// P that keeps what each validation saw, and the learning rate of each epoch.
struct Watched : toy::P {
  Numbers validated = {}, rates = {};
  void on_train_batch_start(auto& ctx) {
    if (ctx.batch_idx() == 0) rates.push_back(ctx.optimizer().lr(0));
  }
  void validation_step(double) { validated.push_back(p.value()); }
};
struct Halving : Watched {
  auto configure_optimizers() { return scheduled(toy::Sgd{.params = {p}, .rate = 0.1}, schedule::Step{1, 0.5}); }
};

/// A batch norm that sees batch + p.
struct Normed : toy::P {
  toy::Norm norm{};
  long backwards = 0;
  double seen_at_end = 0;
  toy::Tensor training_step(double batch) {
    norm.see(batch + p.value());
    seen.push_back(p.value());
    return -p;
  }
  void validation_step(double) {}
  void on_after_backward() { ++backwards; }
  void on_train_end() { seen_at_end = norm.mean; }
};

/// A head and a backbone; the rates of each epoch's groups, and whether the backbone trains.
struct TwoParts {
  toy::Tensor head = toy::Tensor::parameter(0.0), body = toy::Tensor::parameter(0.0);
  toy::Part backbone{{body}, {}};
  std::vector<Numbers> rates = {};
  std::vector<bool> trains = {};
  std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{"head", head}, {"body", body}}; }
  toy::Tensor training_step(double) { return -(head + body); }
  void on_train_batch_start(auto& ctx) {
    auto& now = rates.emplace_back();
    for (std::size_t g = 0; g != ctx.optimizer().groups(); ++g) now.push_back(ctx.optimizer().lr(g));
    trains.push_back(body.requires_grad());
  }
  toy::Sgd configure_optimizers() { return {.params = {head}, .rate = 0.1}; }
};

template <class M, class C>
struct Ran {
  M model;
  C callback;
};
template <class M = Watched, class C>
Ran<M, C> run(int n, int epochs, C callback) {
  M model;
  auto trainer = toy::train<M>({.max_epochs = epochs, .num_sanity_val_steps = 0}, Automatic{}, std::move(callback));
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return {model, trainer.template callback<C>()};
}
bool near(Numbers const& a, Numbers const& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) <= 1e-12; });
}

}  // namespace

// Lightning: 4, the mean of 2, 4, 6: it averages at epoch starts.
TEST_CASE("C110 P n2 E4, SWA from epoch 2: with D8 the mean of 4, 6, 8; validation sees the weights") {
  auto const ran = run(2, 4, SWA{{.swa_lrs = 1.0, .swa_epoch_start = 2}});
  CHECK(observed("C110", "p", ran.model.p.value()) == 6);
  CHECK(observed("C110", "validated", ran.model.validated) == Numbers{2, 4, 6, 8});
}

TEST_CASE("C111 SWA linear from epoch 3: to swa_lrs in two epochs, the other schedule stands still; 4 averages") {
  auto const ran = run<Halving>(
      2, 6,
      SWA{{.swa_lrs = 0.05, .swa_epoch_start = 3, .annealing_epochs = 2, .annealing_strategy = Annealing::linear}});
  CHECK(near(observed("C111", "lr", ran.model.rates), {0.1, 0.05, 0.025, 0.0375, 0.05, 0.05}));
  CHECK(observed("C111", "averages", ran.callback.n_averaged()) == 4);
}

TEST_CASE("C112 SWA from 0.8 of 6 epochs: the rate falls from epoch 3 on, three averages") {
  auto const ran = run(1, 6, SWA{{.swa_lrs = 0.5, .annealing_epochs = 4}});
  CHECK(near(observed("C112", "lr", ran.model.rates), {1, 1, 1, 1, 1 - 0.5 * (1 - std::sqrt(0.5)) / 2, 0.75}));
  CHECK(observed("C112", "averages", ran.callback.n_averaged()) == 3);
}

// Lightning: 4.75, the weights at the start of the last epoch.
TEST_CASE("C114 SWA that takes the newest weights: with D8 those after the last epoch") {
  auto const newest = [](auto const&, auto const& weight, long) { return weight; };
  auto const ran = run(1, 6, StochasticWeightAveraging{newest, {.swa_lrs = 0.5, .annealing_epochs = 2}});
  CHECK(std::abs(observed("C114", "p", ran.model.p.value()) - (4 + 0.75 + 0.5)) <= 1e-12);
}

// Lightning: a seventh epoch for the statistics, and the mean of 12, 16, 20.
TEST_CASE("C115 SWA with a batch norm: no extra epoch, no extra backward, the weights are the average, the statistics "
          "are those of them") {
  Normed model;
  auto trainer = toy::train<Normed>({.max_epochs = 6, .num_sanity_val_steps = 0}, Automatic{}, SWA{{.swa_lrs = 1.0}});
  trainer.fit(model, toy::batches(4), toy::batches(1));
  CHECK(observed("C115", "p", model.p.value()) == 20);  // the mean of 16, 20, 24
  CHECK(observed("C115", "backwards", model.backwards) == 24);
  CHECK(observed("C115", "max_epochs", trainer.options().max_epochs) == 6);
  CHECK(observed("C115", "epoch", trainer.progress().epoch) == 6);
  CHECK(model.seen.size() == 28);  // once more without gradients
  CHECK(Numbers(model.seen.end() - 4, model.seen.end()) == Numbers{20, 20, 20, 20});
  CHECK(std::abs(model.norm.mean - (20 + 1.5)) <= 1e-9);
  CHECK(model.seen_at_end == model.norm.mean);
  CHECK(model.norm.momentum == 0.1);
}

TEST_CASE("C116 weights averaged after each step: validation and the trained model have the mean, training goes on "
          "from the weights") {
  auto const ran = run(2, 4, WeightAveraging{});
  CHECK(observed("C116", "validated", ran.model.validated) == Numbers{1.5, 2.5, 3.5, 4.5});
  CHECK(observed("C116", "seen", ran.model.seen) == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(observed("C116", "p", ran.model.p.value()) == 4.5);
}

TEST_CASE("C118 the backbone joins at epoch 2 with a tenth of the rate, which doubles each epoch") {
  TwoParts model;
  toy::train<TwoParts>({.max_epochs = 6}, Automatic{}, BackboneFinetuning{{.unfreeze_backbone_at_epoch = 2}})
      .fit(model, toy::batches(1));
  std::vector<Numbers> const expected{{.1}, {.1}, {.1, .01}, {.1, .02}, {.1, .04}, {.1, .08}};
  CHECK(std::ranges::equal(observed("C118", "lr", model.rates), expected, near));
  CHECK(observed("C118", "trains", model.trains) == std::vector<bool>{false, false, true, true, true, true});
}
