// Steps in a stand-in for a graph on the fake accelerator: what a fit on a GPU looks at without waiting is part of the
// graph, together with clipping and the optimizer's update.

#include "fake_device.hpp"

#include "../gpu.hpp"
#include "../replayed.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstddef>
#include <vector>

#include <c10/core/AutogradState.h>

using namespace gpu;
using replayed::Replayed;

namespace {

using OnFake = SingleDevice<Accelerator>;
using Graphed =
    replayed::capture::Capturing<OnFake, replayed::capture::CapturedSteps<replayed::graph::Graphs<Replayed>>>;

/// Without random numbers, whose state only a real GPU's graphs restore.
struct Small : torch::nn::Module {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)));
  std::vector<torch::Tensor> losses = {};
  torch::Tensor training_step(data::Batch const& batch) {
    return F::cross_entropy(body->forward(batch.data), batch.target);
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss); }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 0.01}); }
};

struct Fitted {
  std::vector<torch::Tensor> weights = {}, losses = {};
  std::size_t operators = 0, all = 0;  ///< of most batches, and of all batches together
};
Fitted fitted(auto strategy, std::vector<data::Batch> const& train, Automatic how, bool in_graph = true) {
  // Backward on this thread, since the stand-in records no other.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  auto model = fresh<Small>();
  Replayed::model = &model;
  Replayed::has_kernels = in_graph;
  replayed::CountsOperators counts;
  auto trainer =
      make_trainer<Small>({.max_epochs = 3, .log_every_n_steps = 25}, strategy, Float32{}, how, counts, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  Replayed::has_kernels = true;
  return {fixtures::copied_weights(model), model.losses, counts.most().first, counts.sum()};
}

}  // namespace

TEST_CASE("on a device the look at losses and norms, clipping and the update are one graph, with the same bits") {
  auto const train = batches(60, 8);
  std::vector<std::size_t> outside;
  for (auto const& how : {Automatic{}, Automatic{.clip = ClipNorm{0.1}}, Automatic{.clip = ClipValue{0.01}}}) {
    Graphed strategy{OnFake{Accelerator{"fake"}}};
    auto const report = strategy.report();
    auto const plain = fitted(OnFake{Accelerator{"fake"}}, train, how), graphed = fitted(strategy, train, how),
               apart = fitted(Graphed{OnFake{Accelerator{"fake"}}}, train, how, false);
    INFO(all_of(report->reasons) << report->update_apart);
    CHECK(report->replayed > 100);
    CHECK(report->updated == report->replayed);
    CHECK(gpu::same(graphed.weights, plain.weights));
    CHECK(gpu::same(graphed.losses, plain.losses));
    CHECK(gpu::same(apart.weights, plain.weights));
    INFO(graphed.operators << " operators a step outside of the graph, " << apart.operators
                           << " with the update apart");
    CHECK(graphed.operators + 50 < apart.operators);
    outside.push_back(graphed.operators);
  }
  CHECK(outside[1] == outside[0]);  // clipping adds none
  CHECK(outside[2] == outside[0]);
}

TEST_CASE("on a device the last batch of a window looks at its norm, clips and updates in its graph") {
  auto const train = batches(120, 8);
  Automatic const how{.accumulate_grad_batches = 2, .clip = ClipNorm{0.1}};
  Graphed strategy{OnFake{Accelerator{"fake"}}};
  auto const report = strategy.report();
  auto const plain = fitted(OnFake{Accelerator{"fake"}}, train, how), graphed = fitted(strategy, train, how),
             apart = fitted(Graphed{OnFake{Accelerator{"fake"}}}, train, how, false);
  INFO(all_of(report->reasons) << report->update_apart);
  CHECK(report->updated > 100);
  CHECK(2 * report->updated <= report->replayed + 10);
  CHECK(gpu::same(graphed.weights, plain.weights));
  CHECK(gpu::same(graphed.losses, plain.losses));
  INFO(graphed.all << " operators outside of graphs, " << apart.all << " with the updates apart");
  CHECK(graphed.all + static_cast<std::size_t>(50 * report->updated) < apart.all);
}

TEST_CASE("on a device a loss or a norm that is not finite in a graph ends the fit at the cadence of the log") {
  for (auto const& how : {Automatic{}, Automatic{.clip = ClipNorm{0.1}}}) {
    auto train = batches(60, 8);
    train[40].data[3][2] = NAN;
    CHECK_THROWS_WITH(fitted(Graphed{OnFake{Accelerator{"fake"}}}, train, how),
                      Catch::Matchers::StartsWith("[fulgurite.loop.non_finite]"));
  }
}
