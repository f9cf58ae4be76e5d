// A captured fit against the same fit as it is written: the same bits, and steps that cannot be replayed are found out.

#include "fixtures.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/captured.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

/// SGD with momentum, whose gradients are views of one buffer and stay where they are.
struct FlatSgd {
  static constexpr bool needs_closure = false, stable_gradients = true;
  static constexpr std::string_view name() { return "FlatSgd"; }
  std::vector<torch::Tensor> list = {}, momenta = {};
  torch::Tensor flat = {};
  double rate = 0.05;

  explicit FlatSgd(std::vector<torch::Tensor> parameters) : list(std::move(parameters)) {
    torch::NoGradGuard const no_graph;
    std::int64_t size = 0, at = 0;
    for (auto const& p : list) size += p.numel();
    flat = torch::zeros({size}, list.front().options().requires_grad(false));
    for (auto& p : list) {
      p.mutable_grad() = flat.narrow(0, at, p.numel()).view(p.sizes()).detach();
      momenta.push_back(torch::zeros_like(p));
      at += p.numel();
    }
  }
  void zero_grad() {
    torch::NoGradGuard const no_graph;
    flat.zero_();
  }
  void step() {
    torch::NoGradGuard const no_graph;
    for (std::size_t i = 0; i != list.size(); ++i) {
      momenta[i].mul_(0.9).add_(list[i].grad());
      list[i].add_(momenta[i], -rate);
    }
  }
  std::vector<torch::Tensor> const& parameters() const { return list; }
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return rate; }
  void set_lr(std::size_t, double value) { rate = value; }
};

/// What all models here share: a count of the steps that really ran, logging, the optimizer.
struct Common : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"accuracy"> accuracy{.on_epoch = Report::yes};
  static constexpr Metric<"twice"> twice{.reduce = Reduce::sum, .on_epoch = Report::yes};
  using Metrics = MetricList<loss, accuracy, twice>;
  int ran = 0;
  std::vector<float> losses = {};
  std::vector<torch::Tensor> kept = {};
  auto configure_optimizers() { return FlatSgd(parameters()); }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    kept.push_back(outputs.loss);
    losses.push_back(outputs.loss.template item<float>());
  }
  torch::Tensor classified(torch::Tensor const& scores, torch::Tensor const& target, auto& ctx) {
    ++ran;
    auto value = F::cross_entropy(scores, target);
    ctx.log(loss, value);
    ctx.log(accuracy, scores.argmax(1).eq(target).to(torch::kFloat).mean());
    ctx.log(twice, value);
    ctx.log(twice, scores.abs().max());
    return value;
  }
};

struct Mlp : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(), torch::nn::Linear(16, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) { return classified(body->forward(batch.data), batch.target, ctx); }
};
struct Dropping : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Dropout(0.3),
                                                                             torch::nn::Linear(16, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(batch.data + 0.1 * torch::randn_like(batch.data)), batch.target, ctx);
  }
};
struct Norming : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::GELU(),
                                                                             torch::nn::Linear(16, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) { return classified(body->forward(batch.data), batch.target, ctx); }
};
struct Conv : Common {
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)), torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                                    torch::nn::MaxPool2d(2), torch::nn::Conv2d(4, 6, 2), torch::nn::Flatten(), torch::nn::Linear(6, 3)));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(body->forward(F::pad(batch.data, F::PadFuncOptions({0, 3})).view({-1, 1, 3, 3}).repeat({1, 1, 2, 2}).narrow(2, 0, 4).narrow(3, 0, 4)),
                      batch.target, ctx);
  }
};

std::vector<data::Batch> batches(int n, int size, int last = 0) {
  auto generator = at::detail::createCPUGenerator(11);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) {
    int const rows = i == n - 1 && last != 0 ? last : size;
    all.push_back({torch::randn({rows, 6}, generator), torch::randint(0, 3, {rows}, generator, torch::kLong)});
  }
  return all;
}

struct Result {
  std::vector<torch::Tensor> tensors;
  std::vector<float> losses;
  std::vector<std::optional<double>> values;
  torch::Tensor generator;
  int ran;
};

auto fit(auto strategy, auto& model, std::vector<data::Batch> data, Automatic how, int epochs, auto... callbacks) {
  for (auto& batch : data) batch.data = batch.data.clone();  // a step may write into it
  torch::manual_seed(5);
  auto trainer = make_trainer<std::remove_cvref_t<decltype(model)>>({.max_epochs = epochs, .log_every_n_steps = 1}, strategy, Float32{}, how, callbacks...);
  trainer.fit(model, data);
  Result result{model.parameters(), model.losses, {trainer.value(Common::loss), trainer.value(Common::accuracy), trainer.value(Common::twice)},
                at::detail::getDefaultCPUGenerator().get_state(), model.ran};
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

/// Both fits, with the same bits; returns what the captured one reports, and how many steps of it really ran.
template <class M>
std::pair<CaptureReport, int> twice(std::vector<data::Batch> const& data, Automatic how = {}, int epochs = 8, auto... callbacks) {
  auto written = fresh<M>(), captured = fresh<M>();
  auto const plain = fit(SingleDevice{cpu}, *written, data, how, epochs, callbacks...);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const replayed = fit(strategy, *captured, data, how, epochs, callbacks...);
  same(replayed, plain);
  CHECK(written->ran == int(data.size()) * epochs);
  // Outputs that a hook has kept are its own: no replay writes into them.
  for (std::size_t i = 0; i != captured->kept.size(); ++i) CHECK(captured->kept[i].template item<float>() == captured->losses[i]);
  CHECK(captured->ran + report->replayed == long(data.size()) * epochs);
  return {*report, captured->ran};
}

}  // namespace

TEST_CASE("captured MLP: the same weights, losses, metrics and generator; after five steps of a shape most are replays") {
  auto const [report, ran] = twice<Mlp>(batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 40);
  CHECK(report.tapes.size() == 1);
  CHECK(report.tapes[0].replayed < report.tapes[0].recorded);
}

TEST_CASE("captured dropout and noise: random numbers are drawn anew in each replay, the generator ends where it would") {
  auto const [report, ran] = twice<Dropping>(batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 40);
}

TEST_CASE("captured BatchNorm: running statistics move as they would") {
  auto const [report, ran] = twice<Norming>(batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 40);
}

TEST_CASE("captured convolutions") {
  auto const [report, ran] = twice<Conv>(batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 40);
}

TEST_CASE("captured accumulation, clipping and a short last batch: one tape for each kind and shape") {
  auto const [report, ran] = twice<Dropping>(batches(8, 8, 5), Automatic{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}}, 12);
  CHECK(report.reasons.empty());
  // First, middle and last of 3; first of 2; last of 2, which is the short one.
  CHECK(report.tapes.size() == 5);
  CHECK(report.replayed > 12);
}

TEST_CASE("a seed of backward that is made in the first recorded step does not keep the step from being captured") {
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto model = fresh<Mlp>(), other = fresh<Mlp>();
  Automatic const how{.accumulate_grad_batches = 7};  // 1/7 is used nowhere else in this program
  auto const replayed = fit(strategy, *model, batches(7, 8), how, 10);
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 7);
  same(replayed, fit(SingleDevice{cpu}, *other, batches(7, 8), how, 10));
}

namespace {

torch::Tensor plain_loss(torch::nn::Sequential& body, auto const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }

/// A net whose step is given by the test.
template <class Step>
struct With : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)));
  torch::Tensor weights = torch::tensor({1.0F, 2.0F, 0.5F});
  torch::Tensor counter = register_buffer("counter", torch::zeros({1}));
  torch::Tensor memory = {};
  double factor = 1.0;
  long now = 0;
  void on_train_batch_start(auto&, auto&) {
    if constexpr (requires { Step::before(*this, now); }) Step::before(*this, now);
    ++now;
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    ++ran;
    auto value = Step{}(*this, batch);
    ctx.log(loss, value);
    return value;
  }
};

/// The steps stay eager, the bits are right, and the reason names what it is.
template <class Step>
void stays_eager(std::string const& word) {
  auto const [report, ran] = twice<With<Step>>(batches(7, 8), {}, 4);
  CHECK(report.replayed == 0);
  CHECK(ran == 28);
  REQUIRE_FALSE(report.reasons.empty());
  INFO(report.reasons.front());
  CHECK(report.reasons.front().find(word) != std::string::npos);
  CHECK(report.reasons.size() == 1);
}

struct Item {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto value = plain_loss(net.body, batch);
    return value.template item<float>() > 1.1F ? value * 2 : value;
  }
};
struct Equal {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto value = plain_loss(net.body, batch);
    return torch::equal(batch.data, batch.data) ? value : value * 2;
  }
};
struct Anneals {
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch) * (1.0 / net.ran); }
};
struct ReadsMemory {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return plain_loss(net.body, batch) * double(batch.data.template data_ptr<float>()[0]);
  }
};
struct MakesTensor {
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch) * torch::tensor(1.0F / float(net.ran)); }
};
struct FillsTensor {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto by = torch::empty({1});
    by.template data_ptr<float>()[0] = 1.0F / float(net.ran);
    return (plain_loss(net.body, batch) * by).sum();
  }
};
struct PartlyFills {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto by = torch::empty({2});
    by.narrow(0, 0, 1).fill_(0.5);
    by.template data_ptr<float>()[1] = 0.25F;
    return (plain_loss(net.body, batch) * by).sum();
  }
};
struct FromBlob {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    static float number = 0.5F;
    return plain_loss(net.body, batch) * torch::from_blob(&number, {});
  }
};
struct Unregistered {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return F::cross_entropy(net.body->forward(batch.data), batch.target, F::CrossEntropyFuncOptions().weight(net.weights));
  }
};
struct Keeps {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto scores = net.body->forward(batch.data);
    net.memory = scores.detach();
    return F::cross_entropy(scores, batch.target);
  }
};
struct Carries {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto value = plain_loss(net.body, batch);
    auto sum = net.memory.defined() ? value + 0.1 * net.memory : value;
    net.memory = value.detach();
    return sum;
  }
};
struct Masks {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto scores = net.body->forward(batch.data);
    return F::cross_entropy(scores, batch.target) + scores.index({batch.target > 0}).pow(2).mean();
  }
};
struct WritesBatch {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    batch.data.add_(0.01);
    return plain_loss(net.body, batch);
  }
};
struct Resizes {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto x = batch.data.clone();
    x.t_();
    return plain_loss(net.body, batch) + x.pow(2).mean();
  }
};
struct HiddenState {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    net.counter.template data_ptr<float>()[0] += 1.0F;
    return (plain_loss(net.body, batch) * net.counter).sum();
  }
};
struct Threads {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    torch::Tensor by;
    std::thread([&] { by = batch.data.pow(2).mean(); }).join();
    return plain_loss(net.body, batch) * by;
  }
};
struct Complex {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return plain_loss(net.body, batch) + torch::real(torch::fft_fft(net.body->forward(batch.data))).pow(2).mean();
  }
};
struct Sparse {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return plain_loss(net.body, batch) + batch.data.detach().to_sparse().sum() * 0.0;
  }
};

}  // namespace

TEST_CASE("a step that reads a value on the host stays eager") {
  stays_eager<Item>("aten::_local_scalar_dense reads a value on the host");
  stays_eager<Equal>("aten::equal");
  stays_eager<Masks>("aten::index has a result whose shape depends on values");
}
TEST_CASE("a number of the host that changes each step: two recordings differ") {
  stays_eager<Anneals>("not the same each time: aten::mul");
  stays_eager<ReadsMemory>("not the same each time: aten::mul");
  stays_eager<MakesTensor>("not the same each time: aten::scalar_tensor");
}
TEST_CASE("a tensor that the host fills stays eager, even where an operator has set a part of it") {
  stays_eager<FillsTensor>("the host has filled");
  stays_eager<PartlyFills>("a replay does not give the same bits");
}
TEST_CASE("closed world: a tensor that is not the model's stays eager") {
  stays_eager<FromBlob>("register it as a buffer");
  stays_eager<Unregistered>("register it as a buffer");
  stays_eager<Carries>("register it as a buffer");
  stays_eager<Threads>("register it as a buffer");
}
TEST_CASE("a result of the step that the model keeps would not change: it stays eager") { stays_eager<Keeps>("aten::addmm is kept after the step"); }
TEST_CASE("a step that writes into its batch, or changes shapes in place, stays eager") {
  stays_eager<WritesBatch>("aten::add_ writes into the batch");
  stays_eager<Resizes>("aten::t_ changes the shape");
}
TEST_CASE("memory that changes without an operator: replay and step differ in their bits") { stays_eager<HiddenState>("the same bits"); }
TEST_CASE("complex and sparse tensors stay eager") {
  stays_eager<Complex>("dense real");
  stays_eager<Sparse>("dense real");
}

namespace {

struct Normal {
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch); }
};
constexpr long changes_at = 30;
struct SetsData : Normal {
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.parameters()[0].set_data(net.parameters()[0].detach().clone() * 0.5);
  }
};
struct Freezes : Normal {
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.parameters()[0].set_requires_grad(false);
  }
};
struct Hooks : Normal {
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.parameters()[0].register_hook([](torch::Tensor const& gradient) { return gradient * 0.5; });
  }
};
struct NewGradient : Normal {
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.parameters()[0].mutable_grad() = torch::ones_like(net.parameters()[0].detach());
  }
};
struct NewBuffer {
  torch::Tensor operator()(auto& net, auto const& batch) const { return (plain_loss(net.body, batch) * (1 + net.counter)).sum(); }
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.counter.set_data(torch::ones({1}));
  }
};
struct Evaluates {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    return F::cross_entropy(torch::dropout(net.body->forward(batch.data), 0.3, net.body->is_training()), batch.target);
  }
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.body->eval();
  }
};
struct Deterministic : Normal {
  static void before(auto&, long batch) { at::globalContext().setDeterministicAlgorithms(batch >= changes_at && batch < 50, true); }
};
/// A buffer that is written between steps is read by the next replay.
struct WritesBuffer : NewBuffer {
  static void before(auto& net, long batch) { net.counter.fill_(double(batch % 3)); }
};
struct Toggles : Normal {
  static void before(auto& net, long batch) { batch % 2 == 0 ? net.body->eval() : net.body->train(); }
};
/// The number is the same for long, and then another.
struct Later {
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch) * net.factor; }
  static void before(auto& net, long batch) {
    if (batch == changes_at) net.factor = 0.5;
  }
};
struct Indexes {
  torch::Tensor operator()(auto& net, auto const& batch) const { return plain_loss(net.body, batch) + net.body->forward(batch.data).index({batch.target}).pow(2).mean(); }
};
struct Smooth {
  torch::Tensor operator()(auto& net, auto const& batch) const {
    auto const x = batch.data.detach().clone().set_requires_grad(true);
    auto const scores = net.body->forward(x);
    auto const slope = torch::autograd::grad({scores.sum()}, {x}, {}, true, true)[0];
    return F::cross_entropy(scores, batch.target) + 0.1 * slope.pow(2).mean();
  }
};

struct Sequence : Common {
  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(5, 8));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 8).num_layers(2).dropout(0.2).batch_first(true)));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const letters = batch.data.mul(2).remainder(5).to(torch::kLong);
    auto const hidden = norm->forward(std::get<0>(lstm->forward(words->forward(letters))).select(1, 5));
    auto const mixed = at::scaled_dot_product_attention(hidden.view({1, 1, -1, 8}), hidden.view({1, 1, -1, 8}), hidden.view({1, 1, -1, 8}));
    return classified(out->forward(mixed.view({-1, 8})), batch.target, ctx);
  }
};

/// It changes at one step: the step is recorded anew, and the bits stay right.
template <class Step>
void recorded_anew() {
  auto const [report, ran] = twice<With<Step>>(batches(7, 8), {}, 10);
  CHECK(report.reasons.empty());
  CHECK(report.tapes.size() == (std::is_same_v<Step, Deterministic> ? 3 : 2));
  CHECK(report.replayed > 30);
}

}  // namespace

TEST_CASE("the guard of each step: set_data, freezing, a new hook, gradient or buffer, eval() and switches of LibTorch are noticed at once") {
  recorded_anew<SetsData>();
  recorded_anew<Freezes>();
  recorded_anew<Hooks>();
  recorded_anew<NewGradient>();
  recorded_anew<NewBuffer>();
  recorded_anew<Evaluates>();
  recorded_anew<Deterministic>();
}
TEST_CASE("a model that changes all the time stays eager in the end") {
  auto const [report, ran] = twice<With<Toggles>>(batches(7, 8), {}, 10);
  CHECK(report.replayed == 0);
  REQUIRE(report.reasons.size() == 1);
  CHECK(report.reasons[0].find("again and again") != std::string::npos);
}
TEST_CASE("a buffer that is written between steps is what the next replay reads") {
  auto const [report, ran] = twice<With<WritesBuffer>>(batches(7, 8), {}, 10);
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 40);
}
TEST_CASE("a number of the host that changes later is found by a later check, which says that steps may be wrong") {
  auto model = fresh<With<Later>>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  fit(strategy, *model, batches(7, 8), {}, 20);
  REQUIRE(report->reasons.size() == 1);
  CHECK(report->reasons[0].find("steps replayed before may be wrong") != std::string::npos);
  CHECK(report->eager > 0);
}
TEST_CASE("numbers as indices, double backward, an LSTM with dropout and attention are captured") {
  for (auto const& report : {twice<With<Indexes>>(batches(7, 8)).first, twice<With<Smooth>>(batches(7, 8)).first, twice<Sequence>(batches(7, 8)).first}) {
    CHECK(report.reasons.empty());
    CHECK(report.replayed > 40);
  }
}
TEST_CASE("tapes die in setup: the same strategy on another model") {
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto first = fresh<Mlp>(), second = fresh<Mlp>();
  auto trainer = make_trainer<Mlp>({.max_epochs = 8}, strategy, Float32{}, Automatic{});
  trainer.fit(*first, batches(7, 8));
  auto again = make_trainer<Mlp>({.max_epochs = 8}, strategy, Float32{}, Automatic{});
  again.fit(*second, batches(7, 8));
  CHECK(report->tapes.size() == 2);
  auto const a = first->parameters(), b = second->parameters();
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
}
TEST_CASE("a checked step runs the model's code once, and what it draws is drawn once") {
  auto model = fresh<Dropping>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  fit(strategy, *model, batches(5, 8), {}, 1);
  CHECK(model->ran == 5);
  CHECK(report->recorded == 5);
  CHECK(report->checked == 3);
  CHECK(report->replayed == 0);
}

namespace {

struct Counted {
  torch::Tensor data, target;
  double scale;
};
struct Numbered : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  torch::Tensor training_step(Counted const& batch) { return plain_loss(body, batch) * batch.scale; }
};
struct Outputs {
  torch::Tensor loss, scores;
};
struct Answers : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  std::vector<torch::Tensor> scores = {};
  Outputs training_step(auto const& batch) {
    ++ran;
    auto const y = body->forward(batch.data);
    return {F::cross_entropy(y, batch.target), y};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.scores.sum().template item<float>()); kept.push_back(outputs.scores.sum()); }
};
struct WithNumber {
  torch::Tensor loss;
  int right = 0;
};
struct AnswersNumber : Common {
  torch::nn::Sequential body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 3)));
  WithNumber training_step(auto const& batch) {
    ++ran;
    return {plain_loss(body, batch), ran};
  }
};

}  // namespace

TEST_CASE("a batch or a result that holds more than tensors stays eager; a struct of tensors is replayed") {
  std::vector<Counted> numbered;
  for (auto const& batch : batches(7, 8)) numbered.push_back({batch.data, batch.target, 0.5});
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  Numbered model;
  auto trainer = make_trainer<Numbered>({.max_epochs = 2}, strategy, Float32{}, Automatic{});
  trainer.fit(model, numbered);
  REQUIRE(report->reasons.size() == 1);
  CHECK(report->reasons[0].find("the batch holds more than tensors") == 0);
  CHECK(report->eager == 14);

  auto const [answers, some] = twice<Answers>(batches(7, 8));
  CHECK(answers.reasons.empty());
  CHECK(answers.replayed > 40);
  auto const [number, all] = twice<AnswersNumber>(batches(7, 8));
  CHECK(number.replayed == 0);
  CHECK(number.reasons.size() == 1);
}
TEST_CASE("captured Bf16Mixed: the casts of autocast are on the tape") {
  auto written = fresh<Mlp>(), captured = fresh<Mlp>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto plain = make_trainer<Mlp>({.max_epochs = 8}, SingleDevice{cpu}, Bf16Mixed{}, Automatic{});
  auto replayed = make_trainer<Mlp>({.max_epochs = 8}, strategy, Bf16Mixed{}, Automatic{});
  plain.fit(*written, batches(7, 8));
  replayed.fit(*captured, batches(7, 8));
  CHECK(report->reasons.empty());
  CHECK(report->replayed > 40);
  auto const a = written->parameters(), b = captured->parameters();
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
  CHECK(written->losses == captured->losses);
}
