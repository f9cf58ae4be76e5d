// Section 11.1: accumulation windows. With D1 a window of r < K batches is the mean of those r.
#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>

#include "observed.hpp"

using namespace fulgurite;

namespace {

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

/// Steps of each epoch, and where they were.
struct Course {
  Counts per_epoch;
  Places steps;
  long global_step;
};
Course course(std::map<int, int> scheduling, int n, int epochs) {
  toy::P model;
  auto trainer =
      toy::train<toy::P>({.max_epochs = epochs}, {}, Positions{}, GradientAccumulationScheduler{std::move(scheduling)});
  trainer.fit(model, toy::batches(n));
  auto const& steps = trainer.callback<Positions>().steps;
  Counts per_epoch(static_cast<std::size_t>(epochs));
  for (auto const& [epoch, batch] : steps) ++per_epoch[static_cast<std::size_t>(epoch)];
  return {per_epoch, steps, trainer.progress().global_step};
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

TEST_CASE("C1 n5 K2 E2: steps at 1, 3, 4, cleared at 0, 2, 4 of each epoch") {
  auto const r = run(5, 2, 2);
  CHECK(observed("C1", "gs", r.steps) == 6);
  CHECK(observed("C1", "epoch", r.epochs) == 2);
  CHECK(observed("C1", "steps", r.at.steps) == each_epoch(2, {1, 3, 4}));
  CHECK(observed("C1", "clears", r.at.clears) == each_epoch(2, {0, 2, 4}));
}

TEST_CASE("C2 n6 K3 E2: steps at 2, 5") {
  auto const r = run(6, 3, 2);
  CHECK(observed("C2", "gs", r.steps) == 4);
  CHECK(observed("C2", "steps", r.at.steps) == each_epoch(2, {2, 5}));
}

TEST_CASE("C3 n7 K3 E2: steps at 2, 5, 6, cleared at 0, 3, 6") {
  auto const r = run(7, 3, 2);
  CHECK(observed("C3", "gs", r.steps) == 6);
  CHECK(observed("C3", "steps", r.at.steps) == each_epoch(2, {2, 5, 6}));
  CHECK(observed("C3", "clears", r.at.clears) == each_epoch(2, {0, 3, 6}));
}

TEST_CASE("C4 K4 with n4 and with n3: one step an epoch, at its end") {
  auto const whole = run(4, 4, 2), cut = run(3, 4, 2);
  CHECK(observed("C4", "n4 gs", whole.steps) == 2);
  CHECK(observed("C4", "n4 steps", whole.at.steps) == each_epoch(2, {3}));
  CHECK(observed("C4", "n3 gs", cut.steps) == 2);
  CHECK(observed("C4", "n3 steps", cut.at.steps) == each_epoch(2, {2}));
}

TEST_CASE("C6 GradientAccumulationScheduler {1: 2, 3: 4}, n10 E4: 10, 5, 5, 3 steps") {
  auto const run = course({{1, 2}, {3, 4}}, 10, 4);
  CHECK(observed("C6", "per epoch", run.per_epoch) == Counts{10, 5, 5, 3});
  CHECK(observed("C6", "gs", run.global_step) == 23);
  CHECK(observed("C6", "epoch 3", Places(run.steps.end() - 3, run.steps.end())) == Places{{3, 3}, {3, 7}, {3, 9}});
}

TEST_CASE("C7 GradientAccumulationScheduler {0: 8, 4: 4, 8: 1}, n8 E10: a key holds until the next one") {
  auto const run = course({{0, 8}, {4, 4}, {8, 1}}, 8, 10);
  CHECK(observed("C7", "per epoch", run.per_epoch) == Counts{1, 1, 1, 1, 2, 2, 2, 2, 8, 8});
  CHECK(observed("C7", "gs", run.global_step) == 28);
}

// Lightning: 2.5, the last window is still divided by 2.
TEST_CASE("C8 P n5 K2: p seen 0, 0, 1, 1, 2; with D1 the last window of one batch counts fully: 3.0") {
  toy::P model;
  toy::train<toy::P>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}).fit(model, toy::batches(5));
  CHECK(observed("C8", "seen", model.seen) == Numbers{0, 0, 1, 1, 2});
  CHECK(observed("C8", "p", model.p.value()) == 3.0);
}

// Lightning: 1.5, 3.5, 2.5 for n5.
TEST_CASE("C9 gradients i + 1, K2: the mean of each window, with D1 also of the short one: 1.5, 3.5, 5.0") {
  auto stepped = [](int n) {
    toy::Slope model;
    toy::train<toy::Slope>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}).fit(model, toy::batches(n));
    return model.stepped;
  };
  CHECK(observed("C9", "n4", stepped(4)) == Numbers{1.5, 3.5});
  CHECK(observed("C9", "n5", stepped(5)) == Numbers{1.5, 3.5, 5.0});
}

// Lightning: 2.0 in a last window of two as well.
TEST_CASE("C10 outputs of the end hook: the loss over K and detached, the rest as it was; with D1 over 2 in the last "
          "window") {
  Extra model;
  toy::train<Extra>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 3}).fit(model, toy::batches(5));
  CHECK(observed("C10", "n5", model.outputs) ==
        std::vector<std::pair<double, double>>{{2, 7}, {2, 7}, {2, 7}, {3, 7}, {3, 7}});
  CHECK(observed("C10", "has graph", model.has_graph) == std::vector<bool>(5, false));
}

// Lightning: ZeroDivisionError in fit.
TEST_CASE("C12 K = 0 with D7: one Error that names the option and its value; nothing has started") {
  toy::P model;
  std::string which, said;
  auto const fit = [&] {
    toy::train<toy::P>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 0}).fit(model, toy::batches(2));
  };
  CHECK(observed("C12", "K0", outcome(fit, &which, &said)) == "error");
  CHECK(which == "fulgurite.options.accumulate");
  CHECK(said.find("accumulate_grad_batches = 0") != std::string::npos);
  CHECK(model.seen.empty());
}
