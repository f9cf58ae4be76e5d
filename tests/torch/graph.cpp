// Steps as graphs: what decides when one is recorded, trusted and given up, shown on the CPU with a graph that replays
// operators in fixed memory, as a GPU does. The tests on a real graph are skipped where there is no GPU.

#include "replayed.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/capture/graphs.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/device/backend.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;
namespace graph = libtorch::graph;
namespace capture = libtorch::capture;

using replayed::GraphedCpu;
using replayed::Replayed;

namespace {

/// What the models share: how often the step really ran, logging, the optimizer.
struct Common : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"largest"> largest{.on_epoch = Report::yes};
  using Metrics = MetricList<loss, largest>;
  int ran = 0;
  std::vector<float> losses = {};
  std::vector<torch::Tensor> kept = {};
  auto configure_optimizers() { return fulgurite::optim::Adam(*this, {.lr = 0.01}); }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    kept.push_back(outputs.loss);
    losses.push_back(outputs.loss.template item<float>());
  }
  torch::Tensor classified(torch::Tensor const& scores, torch::Tensor const& target, auto& ctx) {
    ++ran;
    auto value = F::cross_entropy(scores, target);
    ctx.log(loss, value);
    ctx.log(largest, scores.abs().max());
    return value;
  }
};

struct Mlp : Common {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::Tanh(),
                                    torch::nn::Dropout(0.3), torch::nn::Linear(16, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(batch.data), batch.target, ctx);
  }
};

std::vector<data::Batch> batches(int n, int rows, int last) {
  auto generator = at::detail::createCPUGenerator(11);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) {
    int const here = i == n - 1 ? last : rows;
    all.push_back({torch::randn({here, 6}, generator), torch::randint(0, 3, {here}, generator, torch::kLong)});
  }
  return all;
}

struct Result {
  std::vector<torch::Tensor> tensors;
  std::vector<float> losses;
  std::vector<std::optional<double>> values;
  torch::Tensor generator;
};

auto fit(auto strategy, auto& model, std::vector<data::Batch> data, Automatic how, int epochs, auto... callbacks) {
  for (auto& batch : data) batch.data = batch.data.clone();
  Replayed::model = &model;
  torch::manual_seed(5);
  auto trainer = make_trainer<std::remove_cvref_t<decltype(model)>>(
      {.max_epochs = epochs, .log_every_n_steps = 1}, strategy, Float32{}, how, callbacks..., NoDefaults{});
  trainer.fit(model, data);
  Result result{model.parameters(),
                model.losses,
                {trainer.value(Common::loss), trainer.value(Common::largest)},
                at::detail::getDefaultCPUGenerator().get_state()};
  for (auto const& buffer : model.buffers()) result.tensors.push_back(buffer);
  return result;
}

template <class M>
std::unique_ptr<M> fresh() {
  torch::manual_seed(3);
  return std::make_unique<M>();
}

void same(Result const& a, Result const& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i != a.tensors.size(); ++i) CHECK(fixtures::same_bits(a.tensors[i], b.tensors[i]));
  CHECK(a.losses == b.losses);
  for (std::size_t i = 0; i != a.values.size(); ++i) CHECK(bool(a.values[i] == b.values[i]));
  CHECK(fixtures::same_bits(a.generator, b.generator));
}

/// Fits both ways, compares every bit, and returns the report and how often the step's code ran.
template <class M>
std::pair<CaptureReport, int> both(std::vector<data::Batch> const& data, Automatic how = {}, int epochs = 10,
                                   auto... callbacks) {
  auto written = fresh<M>(), graphed = fresh<M>();
  auto const plain = fit(SingleDevice{cpu}, *written, data, how, epochs, callbacks...);
  GraphedCpu strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  same(fit(strategy, *graphed, data, how, epochs, callbacks...), plain);
  for (std::size_t i = 0; i != graphed->kept.size(); ++i)
    CHECK(graphed->kept[i].template item<float>() == graphed->losses[i]);
  return {*report, graphed->ran};
}

struct Knobs {
  ~Knobs() {
    Replayed::fails.clear();
    Replayed::watches = true;
    Replayed::noise = Replayed::offset = 0;
  }
};

}  // namespace

TEST_CASE(
    "a fit with graphs has the bits of the fit as it is written, the short last batch and accumulation included") {
  auto const [report, ran] = both<Mlp>(batches(7, 8, 5));
  CHECK(report.reasons.empty());
  CHECK(report.unproven == 0);
  CHECK(report.recorded == 2);   // two shapes
  CHECK(report.eager == 2 * 3);  // what prepares them
  CHECK(report.checked >= 2 * 3);
  // Code of the model runs in every step that is not a replay, and no step runs twice.
  CHECK(ran == report.eager + report.checked + report.recorded + report.confirmed);
  CHECK(ran + report.replayed == 10 * 7 + report.recorded + report.confirmed);
  CHECK(Replayed::alive == 0);

  auto const windows = both<Mlp>(batches(7, 8, 5), {.accumulate_grad_batches = 2, .clip = ClipNorm{0.1}});
  CHECK(windows.first.reasons.empty());
  CHECK(windows.first.replayed > 20);
}

TEST_CASE("a graph adds all gradients of a step in one call, also of a window's later batches") {
  Replayed::captures = Replayed::sums = Replayed::additions = 0;
  both<Mlp>(batches(7, 8, 5), {.accumulate_grad_batches = 2});
  CHECK(Replayed::captures > 2);
  CHECK(Replayed::sums == Replayed::captures);
  CHECK(Replayed::additions == 0);
}

namespace {

/// Short batches go through one head, long ones through the other.
struct TwoHeads : Common {
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 8)),
                    even = register_module("even", torch::nn::Linear(8, 3)),
                    odd = register_module("odd", torch::nn::Linear(8, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const hidden = torch::tanh(body->forward(batch.data));
    return classified(batch.data.size(0) == 8 ? even->forward(hidden) : odd->forward(hidden), batch.target, ctx);
  }
};

/// The loss is read on the way.
struct Reading : Mlp {
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = Mlp::training_step(batch, ctx);
    return value.template item<float>() > 100 ? value * 0.5 : value;
  }
};

/// A number of the host goes into the loss: another in each step, or after 100 steps another in every third.
struct Annealed : Mlp {
  static inline bool seldom = false;
  void state(auto& archive) {
    archive("losses", losses);
    kept.resize(losses.size());
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = Mlp::training_step(batch, ctx);
    auto const step = losses.size();
    return seldom ? value * (step > 100 && step % 3 == 0 ? 0.5 : 1.0) : value / double(step + 1);
  }
};

/// A layer is frozen after some epochs, and later unfrozen.
struct Freezing : Mlp {
  int epoch = 0;
  void on_train_epoch_start() {
    ++epoch;
    body[0]->as<torch::nn::Linear>()->weight.set_requires_grad(epoch < 4 || epoch > 7);
    body[1]->train(epoch < 6);
  }
};

/// Another thread draws while the step runs, as a loader's does.
struct DrawsElsewhere : Common {
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    std::thread([] { torch::rand({}); }).join();
    return classified(body->forward(batch.data), batch.target, ctx);
  }
};

struct Spoiling : Mlp {
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto data = batch.data;
    data.mul_(0.5);
    return Mlp::training_step(batch, ctx);
  }
};

/// The last scores are kept for others to look at.
struct Keeping : Common {
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 3));
  torch::Tensor scores = {};
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto all = body->forward(batch.data);
    scores = all.detach();
    return classified(all, batch.target, ctx);
  }
};

/// Something is kept from step to step that is no buffer.
struct Remembering : Mlp {
  torch::Tensor mean = torch::zeros({6});
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    mean = mean * 0.9 + batch.data.mean(0) * 0.1;
    ++ran;
    auto value = F::cross_entropy(body->forward(batch.data - mean), batch.target);
    ctx.log(loss, value);
    ctx.log(largest, value);
    return value;
  }
};

bool mentions(CaptureReport const& report, std::string const& text) {
  for (auto const& reason : report.reasons)
    if (reason.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a parameter that a replayed step does not reach is left alone by the optimizer") {
  auto data = batches(6, 8, 8);
  for (std::size_t i = 0; i != data.size(); ++i)
    if (i % 3 == 1) data[i] = {data[i].data.narrow(0, 0, 5), data[i].target.narrow(0, 0, 5)};
  auto const report = both<TwoHeads>(data, {}, 14).first;
  CHECK(report.reasons.empty());
  CHECK(report.recorded == 2);
  CHECK(report.replayed > 20);
}

TEST_CASE("graphs: a step that draws nothing on the CPU leaves the draws of other threads alone") {
  auto model = fresh<DrawsElsewhere>();
  GraphedCpu strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  fit(strategy, *model, batches(7, 8, 8), {}, 10);
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 30);
}

TEST_CASE("a step in which the host waits is not even recorded") {
  Knobs const knobs;
  Replayed::captures = 0;
  auto const [report, ran] = both<Reading>(batches(7, 8, 8));
  CHECK(mentions(report, "the host waits"));
  CHECK(report.replayed == 0);
  CHECK(Replayed::captures == 0);
  CHECK(ran == 70);
}

TEST_CASE("a step whose recording fails runs as it is written, with one warning that names the reason") {
  Knobs const knobs;
  Replayed::fails = "operation not permitted when stream is capturing\nand much more";
  auto const [report, ran] = both<Mlp>(batches(7, 8, 5));
  REQUIRE(report.reasons.size() == 1);
  CHECK(report.reasons.front() == "it cannot be recorded: operation not permitted when stream is capturing");
  CHECK(report.replayed == 0);
  CHECK(ran == 70 + 2);  // for each shape, the code ran once in vain
  CHECK(Replayed::alive == 0);
}

TEST_CASE("a number of the host that changes is noticed, at once or in a later check") {
  Annealed::seldom = false;
  auto const always = both<Annealed>(batches(7, 8, 8)).first;
  CHECK(mentions(always, "a replay does not give the same bits"));
  CHECK(always.replayed == 1);  // the recorded step itself, after whose check the fit goes back

  // What happens seldom is met by a check sooner or later; the fit goes back, and the warning says what may have
  // changed.
  Annealed::seldom = true;
  auto model = fresh<Annealed>();
  GraphedCpu strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  fit(strategy, *model, batches(7, 8, 8), {}, 120);
  CHECK((mentions(*report, "a member of the model that changes all the time") ||
         mentions(*report, "some of the steps replayed before may be wrong")));
  CHECK(report->replayed > 50);
}

namespace {

/// What a hook changes before batch 40: a member, an option of a layer, or, where nobody sees it, a global.
template <int What>
struct ChangesLater : Mlp {
  static inline double unseen = 1;
  double factor = 1;
  long now = 0;
  void state(auto& archive) {
    archive("now", now)("losses", losses);
    kept.resize(losses.size());
  }
  void on_train_batch_start(auto&, auto&) {
    bool const later = now++ >= 40;
    if (What == 0 && later) factor = 0.5;
    if (What == 1 && later) body[3]->template as<torch::nn::Dropout>()->options.p(0.1);
    if (What == 2) unseen = later ? 0.5 : 1;
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(batch.data) * factor * unseen, batch.target, ctx);
  }
};
struct AsksTheEpoch : Mlp {
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = Mlp::training_step(batch, ctx);
    return ctx.current_epoch() >= 1 ? value * 2 : value;
  }
};
struct AsksTheStep : Mlp {
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return Mlp::training_step(batch, ctx) * (1.0 + double(ctx.global_step()));
  }
};

}  // namespace

TEST_CASE("graphs: answers of the context and what the model keeps on the host are compared before each replay, the "
          "rest is found before it counts") {
  auto const epoch = both<AsksTheEpoch>(batches(20, 8, 8), {}, 2).first;
  CHECK(epoch.reasons.empty());
  CHECK(epoch.recorded == 2);
  auto const step = both<AsksTheStep>(batches(20, 8, 8), {}, 2).first;
  CHECK(step.recorded == 0);
  CHECK(mentions(step, "training_step reads ctx.global_step(), which changes too often"));
  auto const member = both<ChangesLater<0>>(batches(60, 8, 8), {}, 1).first;
  CHECK(member.reasons.empty());
  CHECK(member.recorded == 2);
  auto const option = both<ChangesLater<1>>(batches(60, 8, 8), {}, 1).first;
  CHECK(option.reasons.empty());
  CHECK(option.recorded == 2);
  auto const global = both<ChangesLater<2>>(batches(60, 8, 8), {}, 1).first;
  CHECK(mentions(global, "a global"));
  CHECK(global.replayed > 20);

  auto model = fresh<ChangesLater<2>>();
  CHECK_THROWS_WITH(
      fit(GraphedCpu{SingleDevice{cpu}, CaptureOptions{.go_back = false}}, *model, batches(60, 8, 8), {}, 1),
      Catch::Matchers::StartsWith("[fulgurite.capture.wrong_replay]"));
}

TEST_CASE("freezing and switching layers make graphs anew, with the same bits") {
  auto const report = both<Freezing>(batches(7, 8, 8), {}, 12).first;
  CHECK(report.reasons.empty());
  CHECK(report.recorded == 4);
}

TEST_CASE("what a step writes or keeps beside the model is noticed: its batch, a member that is no buffer") {
  auto const spoiling = both<Spoiling>(batches(7, 8, 8), {}, 1).first;
  CHECK(mentions(spoiling, "writes into its batch"));
  CHECK(spoiling.replayed == 0);
  auto const remembering = both<Remembering>(batches(7, 8, 8)).first;
  CHECK(mentions(remembering, "register it as a buffer"));
  CHECK(remembering.recorded == 0);
  auto const keeping = both<Keeping>(batches(7, 8, 8)).first;
  CHECK(mentions(keeping, "is kept after it"));
  CHECK(keeping.recorded == 0);
}

namespace {

/// It returns a parameter beside the loss; what a hook sees of it is what the update has made of it.
struct Shows : Common {
  struct Output {
    torch::Tensor loss, scale;
  };
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 3));
  torch::Tensor scale = register_parameter("scale", torch::ones({}));
  std::vector<float> seen = {};
  Output training_step(auto const& batch, auto& ctx) {
    return {classified(body->forward(batch.data) * scale, batch.target, ctx), scale.detach()};
  }
  void on_train_batch_end(auto& outputs, auto& batch, auto& ctx) {
    Common::on_train_batch_end(outputs, batch, ctx);
    seen.push_back(outputs.scale.template item<float>());
  }
};

/// A hook adds a layer while a recording is prepared.
struct Growing : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  int now = 0;
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(batch.data), batch.target, ctx);
  }
  void on_train_batch_start(auto&, auto&) {
    if (now++ == 1) body->push_back(torch::nn::Dropout(0.3));
  }
};

}  // namespace

TEST_CASE("graphs: a parameter that the step returns is the parameter, also in a replay") {
  auto written = fresh<Shows>(), graphed = fresh<Shows>();
  fit(SingleDevice{cpu}, *written, batches(6, 8, 8), {}, 6);
  GraphedCpu strategy{SingleDevice{cpu}};
  fit(strategy, *graphed, batches(6, 8, 8), {}, 6);
  CHECK(strategy.report()->replayed > 15);
  CHECK(written->seen == graphed->seen);
  REQUIRE_FALSE(strategy.account().empty());
  CHECK(strategy.account().front().starts_with("steps replayed: "));
}

TEST_CASE("graphs: a layer that is added while a recording is prepared is seen, and preparing begins anew") {
  auto const report = both<Growing>(batches(7, 8, 8)).first;
  CHECK(report.reasons.empty());
  CHECK(report.recorded == 1);
  CHECK(report.dropped == 1);
  CHECK(report.replayed > 30);
}

namespace {

struct Numbered {
  torch::Tensor data, target;
  double factor = 1;
};
struct Scaling : Common {
  torch::nn::Linear body = register_module("body", torch::nn::Linear(6, 3));
  torch::Tensor training_step(Numbered const& batch, auto& ctx) {
    return classified(body->forward(batch.data) * batch.factor, batch.target, ctx);
  }
};

}  // namespace

TEST_CASE("a batch with a number in it is recorded, and another number is another kind of step") {
  std::vector<Numbered> data;
  for (auto const& batch : batches(12, 8, 8))
    data.push_back({batch.data, batch.target, data.size() % 2 == 0 ? 0.5 : 2.0});
  auto const trained = [&](auto strategy) {
    auto model = fresh<Scaling>();
    Replayed::model = model.get();
    auto trainer = make_trainer<Scaling>({.max_epochs = 6}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(*model, data);
    return model->parameters();
  };
  GraphedCpu strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const graphed = trained(strategy), plain = trained(SingleDevice{cpu});
  for (std::size_t i = 0; i != plain.size(); ++i) CHECK(fixtures::same_bits(graphed[i], plain[i]));
  CHECK(report->recorded == 2);
  CHECK(report->replayed > 20);
  CHECK(report->reasons.empty());
}

TEST_CASE("kernels that do not repeat their bits are allowed their own spread, and no more") {
  Knobs const knobs;
  auto const reasons = [] {
    auto model = fresh<Mlp>();
    GraphedCpu strategy{SingleDevice{cpu}};
    auto const report = strategy.report();
    fit(strategy, *model, batches(7, 8, 8), {}, 4);
    return report->reasons.size();
  };
  Replayed::noise = 1e-3;
  CHECK(reasons() == 0);
  Replayed::offset = 0.1;
  CHECK(reasons() == 1);
  Replayed::noise = 0;
  Replayed::offset = 1e-3;
  CHECK(reasons() == 1);
}

TEST_CASE("the seed of a scaled loss is one tensor whose value follows the scale: a graph may keep it") {
  libtorch::Scaler<Fp16Mixed> scaler(Fp16Mixed{.init_scale = 8}, at::kCPU);
  auto const loss = torch::ones({});
  auto const half = scaler.seed(loss, 0.5), whole = scaler.seed(loss, 1.0);
  auto weight = torch::ones({2}, torch::requires_grad());
  weight.mutable_grad() = torch::full({2}, INFINITY);
  scaler.unscale(std::vector<torch::Tensor>{weight});
  scaler.update();
  CHECK(scaler.seed(loss, 0.5).is_same(half));
  CHECK(scaler.seed(loss, 1.0).is_same(whole));
  CHECK(half.item<float>() == 2);
  CHECK(whole.item<float>() == 4);
}

TEST_CASE("Captured{SingleDevice{cuda}} is a strategy in every build, whose name says whether it has CUDA graphs") {
  using Strategy = decltype(Captured{SingleDevice{cuda}});
  bool const with_graphs = std::string_view(typeid(Strategy).name()).find("with_cuda_graphs") != std::string_view::npos;
#if defined(FULGURITE_HAS_CUDA_RUNTIME)
  CHECK(with_graphs);
  STATIC_REQUIRE(std::derived_from<Strategy, capture::Capturing<SingleDevice<Cuda>, graph::Graphs<graph::CudaGraph>>>);
#else
  CHECK_FALSE(with_graphs);
  STATIC_REQUIRE(std::derived_from<Strategy, capture::Capturing<SingleDevice<Cuda>, capture::Tapes>>);
#endif
  STATIC_REQUIRE(Strategy::captures);
  STATIC_REQUIRE(Strategy::on_gpu == Known::yes);
  if (torch::cuda::is_available()) SKIP("there is a GPU");
  auto trainer =
      make_trainer<Mlp>({.max_epochs = 1}, Strategy{SingleDevice{cuda}}, Float32{}, Automatic{}, NoDefaults{});
  auto model = fresh<Mlp>();
  auto data = batches(1, 8, 8);
  CHECK_THROWS_WITH(trainer.fit(*model, data), Catch::Matchers::ContainsSubstring("fulgurite.strategy.cuda_absent"));
  CHECK(capture::Tapes::missing(at::kCUDA).find("CUDA") != std::string::npos);
}

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
TEST_CASE("on a GPU, a fit with CUDA graphs has the losses of the fit as it is written") {
  if (!torch::cuda::is_available()) SKIP("there is no GPU");
  auto const run = [](auto strategy) {
    auto model = fresh<Mlp>();
    fit(strategy, *model, batches(7, 8, 5), {.accumulate_grad_batches = 2}, 20);
    return std::pair(model->losses, model->ran);
  };
  Captured strategy{SingleDevice{cuda}};
  auto const report = strategy.report();
  auto const [expected, all] = run(SingleDevice{cuda});
  auto const [losses, ran] = run(strategy);
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 60);
  CHECK(ran < all);
  REQUIRE(losses.size() == expected.size());
  for (std::size_t i = 0; i != losses.size(); ++i)
    CHECK(std::abs(losses[i] - expected[i]) <= 1e-4 * std::abs(expected[i]));
}

TEST_CASE("on a GPU, a step that waits stays eager, and a recording that fails leaves LibTorch usable") {
  if (!torch::cuda::is_available()) SKIP("there is no GPU");
  Captured strategy{SingleDevice{cuda}};
  auto const report = strategy.report();
  auto model = fresh<Reading>();
  fit(strategy, *model, batches(7, 8, 8), {}, 2);
  CHECK(mentions(*report, "the host waits"));

  graph::CudaGraph::Side side{at::Device(at::kCUDA, 0)};
  auto const x = torch::rand({4}, at::kCUDA);
  {
    graph::CudaGraph failing(side);
    CHECK_THROWS(
        failing.capture([&] { return torch::rand({4}, at::kCUDA).sum().item<float>() + x.sum().item<float>(); }));
  }
  CHECK_NOTHROW(torch::rand({4}, at::kCUDA).sum().item<float>());  // the generator draws again
  graph::CudaGraph working(side);
  torch::Tensor y;
  working.capture([&] { y = x * 2; });
  working.replay();
  CHECK(torch::equal(y.cpu(), (x * 2).cpu()));
}
#endif
