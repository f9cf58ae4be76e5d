// Accumulation windows: when gradients are cleared and stepped, and that a window is the mean of its batches (D1).
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"

using namespace fulgurite;
using toy::Places;
using toy::Positions;

namespace {

Places per_epoch(int epochs, std::vector<long> batches) {
  Places all;
  for (int e = 0; e != epochs; ++e)
    for (long b : batches) all.emplace_back(e, b);
  return all;
}

struct Ran {
  long steps;
  int epochs;
  Positions at;
};
Ran run(int n, int k, int epochs) {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = epochs}, Automatic{.accumulate_grad_batches = k}, Positions{});
  trainer.fit(model, toy::batches(n));
  return {trainer.progress().global_step, trainer.progress().epoch, trainer.callback<Positions>()};
}

/// The step's result has more than a loss.
struct Extra {
  struct Output {
    toy::Tensor loss;
    double extra;
  };
  toy::Tensor p = toy::Tensor::parameter(1.0);
  std::vector<std::pair<double, double>> outputs = {};
  std::vector<bool> has_graph = {};
  Output training_step(double) { return {p * toy::Tensor(6.0), 7.0}; }
  void on_train_batch_end(auto& output, auto&, auto&) {
    outputs.emplace_back(output.loss.value(), output.extra);
    has_graph.push_back(output.loss.node()->op != toy::Node::Op::leaf);
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.0}; }
};

}  // namespace

TEST_CASE("C1: n5 K2 E2: steps at 1, 3, 4, cleared at 0, 2, 4 of each epoch") {
  auto const r = run(5, 2, 2);
  CHECK(r.steps == 6);
  CHECK(r.epochs == 2);
  CHECK(r.at.steps == per_epoch(2, {1, 3, 4}));
  CHECK(r.at.clears == per_epoch(2, {0, 2, 4}));
}

TEST_CASE("C2: n6 K3 E2: steps at 2, 5") {
  auto const r = run(6, 3, 2);
  CHECK(r.steps == 4);
  CHECK(r.at.steps == per_epoch(2, {2, 5}));
}

TEST_CASE("C3: n7 K3 E2: steps at 2, 5, 6, cleared at 0, 3, 6") {
  auto const r = run(7, 3, 2);
  CHECK(r.steps == 6);
  CHECK(r.at.steps == per_epoch(2, {2, 5, 6}));
  CHECK(r.at.clears == per_epoch(2, {0, 3, 6}));
}

TEST_CASE("C4: K4 with n4 and with n3: one step an epoch, at its end") {
  auto const whole = run(4, 4, 2), cut = run(3, 4, 2);
  CHECK(whole.steps == 2);
  CHECK(whole.at.steps == per_epoch(2, {3}));
  CHECK(cut.steps == 2);
  CHECK(cut.at.steps == per_epoch(2, {2}));
}

TEST_CASE("C8 with D1: P n5 K2: p seen 0, 0, 1, 1, 2; the last window of one batch counts fully: 3.0") {
  toy::P model;
  toy::train<toy::P>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}).fit(model, toy::batches(5));
  CHECK(model.seen == std::vector<double>{0, 0, 1, 1, 2});
  CHECK(model.p.value() == 3.0);
}

TEST_CASE("C9 with D1: gradients i + 1, K2: the mean of each window, also of the short one") {
  for (int n : {4, 5}) {
    toy::Slope model;
    toy::train<toy::Slope>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}).fit(model, toy::batches(n));
    CHECK(model.stepped == (n == 4 ? std::vector<double>{1.5, 3.5} : std::vector<double>{1.5, 3.5, 5.0}));
  }
}

TEST_CASE("C10: outputs of the end hook: the loss over K and detached, the rest as it was") {
  Extra model;
  toy::train<Extra>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 3}).fit(model, toy::batches(5));
  // The last window has two batches and is their mean (D1).
  CHECK(model.outputs == std::vector<std::pair<double, double>>{{2, 7}, {2, 7}, {2, 7}, {3, 7}, {3, 7}});
  CHECK(model.has_graph == std::vector<bool>(5, false));
}

TEST_CASE("C12 with D7: K = 0 is one Error that names the option and its value; nothing has started") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 0}, Positions{});
  std::string said;
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(2)); }, &said) == "fulgurite.options.accumulate");
  CHECK(said.find("accumulate_grad_batches = 0") != std::string::npos);
  CHECK(trainer.callback<Positions>().batches.empty());
  CHECK(model.seen.empty());
}

TEST_CASE("K = 1: one step and one clearing for each batch; the seed is 1") {
  auto const r = run(3, 1, 1);
  CHECK(r.at.steps == per_epoch(1, {0, 1, 2}));
  CHECK(r.at.clears == per_epoch(1, {0, 1, 2}));
}
