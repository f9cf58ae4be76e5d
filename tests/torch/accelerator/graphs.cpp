// Steps in a stand-in for a graph on the fake accelerator: what a fit on a GPU looks at without waiting is part of the
// graph, together with clipping and the optimizer's update.

#include "fake_device.hpp"

#include "../gpu.hpp"
#include "../replayed.hpp"

#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <c10/core/AutogradState.h>

using namespace gpu;
using replayed::Replayed;

namespace {

using OnFake = SingleDevice<Accelerator>;
using Graphed = replayed::capture::Capturing<OnFake, replayed::graph::Graphs<Replayed>>;

/// Without random numbers, whose state only a real GPU's graphs restore.
struct Small : torch::nn::Module {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)));
  std::vector<torch::Tensor> losses = {}, states = {};
  std::vector<long> steps = {};
  torch::Tensor training_step(data::Batch const& batch) {
    return F::cross_entropy(body->forward(batch.data).to(torch::kFloat), batch.target);
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters()) {
        auto const state = optimizer.state(parameter);
        steps.push_back(state.step);
        for (auto const& [name, tensor] : state.tensors) states.push_back(tensor.clone());
      }
    });
  }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 0.01}); }
};
/// Each step has a rate of its own, a skipped one too.
struct PerStep : Small {
  auto configure_optimizers() {
    return scheduled(Small::configure_optimizers(), schedule::Cosine{.total = 400},
                     ScheduleOptions{.interval = Interval::step});
  }
};
/// Its first update computes otherwise than all others.
struct Momentum : Small {
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.01, .momentum = 0.9}); }
};
/// Its loss alone is infinite where a number of the batch is large, and its gradients alone where one is very negative.
struct Unbounded : PerStep {
  torch::Tensor training_step(data::Batch const& batch) {
    auto const usual = batch.data.min().gt(-50).to(torch::kFloat);
    auto const rooted = (body->parameters()[1].square().sum() + 1) * usual;
    return Small::training_step(batch) - batch.data.max().lt(50).to(torch::kFloat).log() + rooted.sqrt();
  }
};

/// Counts how often the host waits in each batch.
struct CountsWaits {
  using Stateless = ByChoice;
  std::shared_ptr<std::map<long, int>> counts = std::make_shared<std::map<long, int>>();
  long before = 0;
  void on_train_batch_start() { before = fake::counts.waits; }
  void on_train_batch_end() { ++(*counts)[fake::counts.waits - before]; }
  /// The waits in most batches.
  long most() const {
    return std::ranges::max_element(*counts, {}, [](auto const& one) { return one.second; })->first;
  }
};

struct Fitted {
  std::vector<torch::Tensor> weights = {}, losses = {}, states = {};
  std::size_t operators = 0, all = 0;  ///< of most batches, and of all batches together
  long waits = 0;                      ///< in most batches
  std::vector<long> counts = {};       ///< steps, those that were skipped, and those of each parameter
  std::string scaler = {}, warnings = {};
};
template <class Model = Small, class Precision = Float32>
Fitted fitted(auto strategy, std::vector<data::Batch> const& train, Automatic how, bool in_graph = true,
              Precision precision = {}, TrainerOptions options = {}, auto... callbacks) {
  // Backward on this thread, since the stand-in records no other.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  auto model = fresh<Model>();
  Replayed::model = &model;
  Replayed::has_kernels = in_graph;
  replayed::CountsOperators counts;
  CountsWaits waits;
  if (!options.max_epochs) options.max_epochs = 3;
  options.log_every_n_steps = 25;
  auto trainer = make_trainer<Model>(options, strategy, precision, how, callbacks..., counts, waits, NoDefaults{});
  trainer.fit(model, train, NoValidation{});
  Replayed::has_kernels = true;
  Fitted all{
      fixtures::copied_weights(model), model.losses, model.states, counts.most().first, counts.sum(), waits.most()};
  all.counts = {trainer.progress().global_step, trainer.progress().skipped_steps};
  all.counts.insert(all.counts.end(), model.steps.begin(), model.steps.end());
  for (auto const& warning : trainer.warnings()) all.warnings += warning + "\n";
  if constexpr (Precision::scales_loss) {
    auto const file = std::filesystem::temp_directory_path() / ("fulgurite_graphs_" + std::to_string(::getpid()));
    trainer.save_checkpoint(file);
    std::ifstream read(file, std::ios::binary);
    std::string const text{std::istreambuf_iterator<char>(read), {}};
    auto const at = text.find("good_steps");
    REQUIRE(at != std::string::npos);
    all.scaler = text.substr(at - 60, 120);
    std::filesystem::remove_all(file);
  }
  return all;
}
void same(Fitted const& a, Fitted const& b) {
  CHECK(gpu::same(a.weights, b.weights));
  CHECK(gpu::same(a.losses, b.losses));
  CHECK(gpu::same(a.states, b.states));
  CHECK(a.counts == b.counts);
  CHECK(a.scaler == b.scaler);
  CHECK(a.warnings == b.warnings);
}

/// Fits without graphs, with them, and with graphs that do not update, all with the same bits; what the graphs report.
template <class Model = PerStep, class Precision = Float32>
CaptureReport both(std::vector<data::Batch> const& train, Automatic how, NonFinite non_finite, Precision precision = {},
                   auto... callbacks) {
  TrainerOptions const options{.max_epochs = 4, .non_finite = non_finite};
  Graphed strategy{OnFake{Accelerator{"fake"}}};
  auto const report = strategy.report();
  auto const plain = fitted<Model>(OnFake{Accelerator{"fake"}}, train, how, true, precision, options, callbacks...),
             graphed = fitted<Model>(strategy, train, how, true, precision, options, callbacks...),
             apart = fitted<Model>(Graphed{OnFake{Accelerator{"fake"}}}, train, how, false, precision, options,
                                   callbacks...);
  INFO(all_of(report->reasons) << report->update_apart << " " << report->updated << " of " << report->replayed);
  same(graphed, plain);
  same(apart, plain);
  CHECK(report->replayed > 40);
  CHECK(plain.counts[1] > 5);
  if (report->updated == report->replayed) {
    INFO(graphed.operators << " operators a step outside of the graph, " << apart.operators
                           << " with the update apart");
    CHECK(graphed.operators + 40 < apart.operators);
    CHECK(graphed.waits <= apart.waits + 1);  // the stand-in itself waits for what the kernels read from the table
  }
  return *report;
}

/// Windows of one and of two batches, whose seeds follow one scale.
struct ChangesWindow {
  using Stateless = ByChoice;
  void on_train_epoch_start(auto& ctx) { ctx.accumulate(1 + ctx.current_epoch() % 2); }
};

constexpr Fp16Mixed overflows{.growth_factor = 8, .growth_interval = 7};

}  // namespace

TEST_CASE("on a device unscaling, the skipped update and the scale are part of the graph, with the same bits") {
  for (auto const& how : {Automatic{}, Automatic{.clip = ClipNorm{0.1}}, Automatic{.clip = ClipValue{0.01}}}) {
    auto const report = both(batches(20, 8), how, NonFinite::stop, overflows);
    CHECK(report.update_apart.empty());
    CHECK(report.updated == report.replayed);
  }
  // Without a schedule, so that the table of numbers is not written again in each step.
  CHECK(both<Small>(batches(20, 8), {}, NonFinite::ignore, overflows).update_apart.empty());
  auto const windows = both(batches(40, 8), {.accumulate_grad_batches = 2}, NonFinite::stop, overflows);
  CHECK(windows.update_apart.empty());
  CHECK(windows.updated > 30);
  CHECK(both(batches(40, 8), {}, NonFinite::stop, overflows, ChangesWindow{}).updated > 30);
  // Its first updates are skipped, so that the graph is recorded before any.
  auto const late = both<Momentum>(batches(20, 8), {}, NonFinite::ignore, Fp16Mixed{.init_scale = 1e9});
  CHECK(late.update_apart == "no update was made before it was recorded, and the first one computes otherwise");
  CHECK(late.updated == 0);
}

TEST_CASE("on a device a step whose loss or gradients are not finite is skipped in the graph") {
  auto train = batches(20, 8);
  train[11].data[3][2] = 60;
  train[12].data[0][0] = -60;
  train[18].data[7][5] = NAN;
  for (auto const& how : {Automatic{}, Automatic{.clip = ClipNorm{0.1}}, Automatic{.clip = ClipValue{0.01}}}) {
    auto const report = both<Unbounded>(train, how, NonFinite::skip);
    CHECK(report.update_apart.empty());
    CHECK(report.updated == report.replayed);
  }
  auto const scaled = both<Unbounded>(train, {}, NonFinite::skip, overflows);
  CHECK(scaled.update_apart.empty());
  CHECK(scaled.updated == scaled.replayed);
  // A search inside of the fit makes the updates that the fit leaves out, so its weights are lost and it ends.
  auto gradients = batches(20, 8);
  for (std::size_t const at : {8u, 14u}) gradients[at].data[0][0] = -60;
  LearningRateFinder<Unbounded> const finder{
      {.search = {.num_training = 18, .skip_begin = 1, .skip_end = 1, .update = nullptr}, .milestones = {2}}};
  CHECK(both<Unbounded>(gradients, {}, NonFinite::skip, Float32{}, finder).updated > 30);
  // An average follows a skipped update, too.
  CHECK(both<Unbounded>(train, {}, NonFinite::skip, Float32{}, EMAWeightAveraging{{.decay = 0.9}}).updated > 30);
}

TEST_CASE("on a device the update of a window is skipped in the graph where a loss of any of its batches is infinite") {
  auto train = batches(40, 8);
  for (std::size_t const last : {13u, 17u, 33u}) train[last].data[3][2] = 60;
  for (std::size_t const first : {16u, 20u, 30u}) train[first].data[3][2] = 60;
  train[24].data[7][5] = NAN;  // the loss and the gradients of the first one
  train[27].data[0][0] = -60;  // the gradients alone
  for (auto const& how : {Automatic{.accumulate_grad_batches = 2}, Automatic{.accumulate_grad_batches = 3},
                          Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{0.1}},
                          Automatic{.accumulate_grad_batches = 2, .clip = ClipValue{0.01}}}) {
    auto const report = both<Unbounded>(train, how, NonFinite::skip);
    CHECK(report.update_apart.empty());
    CHECK(report.updated > 30);
  }
  auto const scaled = both<Unbounded>(train, {.accumulate_grad_batches = 2}, NonFinite::skip, overflows);
  CHECK(scaled.update_apart.empty());
  CHECK(scaled.updated > 30);
  CHECK(both<Unbounded>(train, {}, NonFinite::skip, Float32{}, ChangesWindow{}).updated > 30);
}

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
