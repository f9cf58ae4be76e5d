// A whole fit under Captured against the same fit without: an arena's optimizers, and what a trainer does around the
// steps. Everything that a run leaves behind is equal in every bit.

#include "fixtures.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;

namespace {

struct UsesSgd {
  static auto of(auto& net) { return optim::SGD(net, {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}); }
};
struct UsesAdam {
  static auto of(auto& net) { return optim::Adam(net, {.lr = 0.01, .weight_decay = 0.01}); }
};
struct UsesRmsprop {
  static auto of(auto& net) { return optim::RMSprop(net, {.lr = 0.01}); }
};
struct UsesAdagrad {
  static auto of(auto& net) { return optim::Adagrad(net, {.lr = 0.05}); }
};
struct UsesSchedule {
  static auto of(auto& net) {
    return scheduled(optim::AdamW(net, {.lr = 0.01}), schedule::Cosine{60}, {.interval = Interval::step});
  }
};
/// What trains from the start: the backbone becomes a group of its own later.
struct UsesHead {
  static auto of(auto& net) { return optim::SGD(net.head->parameters(), {.lr = 0.05, .momentum = 0.5}); }
};

template <class Uses>
struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_epoch = Report::yes};
  static constexpr Metric<"norm"> norm{};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, norm, val_loss>;
  torch::nn::Sequential backbone =
      register_module("backbone", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16),
                                                        torch::nn::ReLU(), torch::nn::Dropout(0.2)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 3));
  torch::nn::Linear small = register_module("small", torch::nn::Linear(16, 3));
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
  int ran = 0;
  std::vector<torch::Tensor> left = {};  ///< gradients, optimizer state, random numbers, at the end
  std::vector<long> steps = {};

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    ++ran;
    // Small batches go another way, which reaches other parameters.
    auto const hidden = backbone->forward(batch.data);
    auto const scores = batch.data.size(0) == 4 ? small->forward(hidden) : head->forward(hidden);
    auto value = F::cross_entropy(scores, batch.target);
    ctx.log(loss, value);
    ctx.log(norm, scores.norm());
    return value;
  }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_loss, F::cross_entropy(head->forward(backbone->forward(batch.data)), batch.target));
  }
  auto configure_optimizers() { return Uses::of(*this); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters()) {
        if (parameter.grad().defined()) left.push_back(parameter.grad().clone());
        auto const state = optimizer.state(parameter);
        steps.push_back(state.step);
        for (auto const& [name, tensor] : state.tensors) left.push_back(tensor.clone());
      }
    });
    left.push_back(at::detail::getDefaultCPUGenerator().get_state());
  }
};

/// Every row that a logger is given.
struct Rows {
  using Stateless = ByChoice;
  std::vector<std::pair<long, std::map<std::string, double>>> rows = {};
  void log_metrics(std::span<Scalar const> row, long step) {
    auto& last = rows.emplace_back(step, std::map<std::string, double>{}).second;
    for (auto const& cell : row) last.emplace(cell.name, cell.value);
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

struct Left {
  std::vector<torch::Tensor> tensors;
  std::vector<long> steps;
  std::vector<std::pair<long, std::map<std::string, double>>> rows;
  int epochs = 0;
};

/// One fit.
template <class M, class Precision>
Left run(auto strategy, M& model, TrainerOptions options, Precision precision, Automatic how,
         std::vector<data::Batch> const& data, auto... callbacks) {
  torch::manual_seed(5);
  options.log_every_n_steps = 1;
  auto trainer = make_trainer<M>(options, strategy, precision, how, Rows{}, callbacks..., NoDefaults{});
  trainer.fit(model, data, batches(2, 4));
  Left left{model.left, model.steps, trainer.template callback<Rows>().rows};
  for (auto const& p : model.parameters()) left.tensors.push_back(p.detach().clone());
  for (auto const& b : model.buffers()) left.tensors.push_back(b.clone());
  return left;
}

/// Both fits, with the same bits; returns the report of the captured one, whose model is `model` afterwards.
template <class M, class Precision = Float32>
CaptureReport equal(M& model, TrainerOptions options, Automatic how, std::vector<data::Batch> const& data,
                    auto... callbacks) {
  torch::manual_seed(3);
  M other;
  torch::manual_seed(3);
  model = M();
  auto const plain = run(SingleDevice{cpu}, other, options, Precision{}, how, data, callbacks...);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const replayed = run(strategy, model, options, Precision{}, how, data, callbacks...);
  REQUIRE(plain.tensors.size() == replayed.tensors.size());
  for (std::size_t i = 0; i != plain.tensors.size(); ++i)
    CHECK(fixtures::same_bits(plain.tensors[i], replayed.tensors[i]));
  CHECK(plain.steps == replayed.steps);
  CHECK(plain.rows.size() > 2);
  CHECK(bool(plain.rows == replayed.rows));
  CHECK(model.ran + report->replayed == other.ran + report->confirmed);
  INFO((report->reasons.empty() ? std::string("no reason") : report->reasons.front()));
  CHECK(report->reasons.empty());
  return *report;
}

}  // namespace

TEST_CASE("captured fit with each optimizer on an arena: weights, state, gradients, buffers, generator and rows are "
          "those of the plain fit") {
  Net<UsesSgd> sgd;
  auto const report = equal(sgd, {.max_epochs = 10}, {}, batches(7, 8, 5));
  CHECK(report.replayed > 40);
  CHECK(report.tapes[0].direct ==
        7);  // the clearing, four gradients that are written where they belong, two that a batch norm makes in one call
  Net<UsesAdam> adam;
  CHECK(equal(adam, {.max_epochs = 10}, {}, batches(7, 8, 5)).replayed > 40);
  Net<UsesRmsprop> rmsprop;
  CHECK(equal(rmsprop, {.max_epochs = 10}, {}, batches(7, 8)).replayed > 40);
  Net<UsesAdagrad> adagrad;
  CHECK(equal(adagrad, {.max_epochs = 10}, {}, batches(7, 8)).replayed > 40);
}
TEST_CASE("a replay tells the arena which parameters it reached: an unused one stays, weight decay included") {
  Net<UsesSgd> model;
  equal(model, {.max_epochs = 10}, {}, batches(7, 8));
  torch::manual_seed(3);
  Net<UsesSgd> const fresh;
  CHECK(fixtures::same_bits(model.unused->weight, fresh.unused->weight));
  CHECK_FALSE(fixtures::same_bits(model.head->weight, fresh.head->weight));
  CHECK(model.steps == std::vector<long>{70, 70, 70, 70, 70, 70, 0, 0, 0, 0});
}
TEST_CASE("two shapes of batch that reach different parameters, replayed in turn: each step updates those it reached") {
  auto data = batches(8, 8);
  for (std::size_t i = 1; i < 8; i += 2) data[i] = batches(1, 4)[0];
  Net<UsesSgd> model;
  auto const report = equal(model, {.max_epochs = 10}, {}, data);
  CHECK(report.tapes.size() == 2);
  CHECK(report.replayed > 30);
  CHECK(model.steps == std::vector<long>{80, 80, 80, 80, 40, 40, 40, 40, 0, 0});
}
TEST_CASE("captured fit with windows of 2 and 3 and short last ones, clipping by norm and by value, schedules") {
  Net<UsesSchedule> model;
  CHECK(equal(model, {.max_epochs = 12}, {.accumulate_grad_batches = 2, .clip = ClipNorm{0.3}}, batches(7, 8, 5))
            .replayed > 20);
  CHECK(equal(model, {.max_epochs = 14}, {.accumulate_grad_batches = 3, .clip = ClipValue{0.02}}, batches(8, 8))
            .replayed > 20);
}
TEST_CASE("captured fit with averages: EMA and SWA with its pass over the batch norms, its annealed rates") {
  Net<UsesAdam> ema;
  CHECK(equal(ema, {.max_epochs = 10}, {}, batches(7, 8), EMAWeightAveraging{{.decay = 0.9}}).replayed > 30);
  Net<UsesSgd> swa;
  CHECK(equal(swa, {.max_epochs = 10}, {}, batches(7, 8),
              StochasticWeightAveraging{{.swa_lrs = 0.1, .swa_epoch_start = 5, .annealing_epochs = 3}})
            .replayed > 30);
}
TEST_CASE("captured fit in bfloat16 by autocast, accumulated") {
  Net<UsesAdam> model;
  CHECK(equal<Net<UsesAdam>, Bf16Mixed>(model, {.max_epochs = 12}, {.accumulate_grad_batches = 2}, batches(6, 8))
            .replayed > 20);
}
namespace {

/// The bytes of each file of a folder, by its name.
std::map<std::string, std::string> files_of(std::filesystem::path const& folder) {
  std::map<std::string, std::string> files;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return files;
}

}  // namespace

TEST_CASE("captured fit with validation within epochs, early stopping and checkpoints: it stops where the plain one "
          "stops, the files are equal") {
  auto const folder = std::filesystem::temp_directory_path() / "fulgurite_captured_fit";
  std::filesystem::remove_all(folder);
  Net<UsesAdam> model;
  using M = Net<UsesAdam>;
  // Files hold the time that has passed: here it stands still.
  TrainerOptions const options{
      .max_epochs = 40, .val_check_interval = 3, .now = [] { return TrainerOptions::Clock::time_point(); }};
  EarlyStopping const stops{M::val_loss, {.min_delta = 0.02, .patience = 4}};
  ModelCheckpoint const saves{M::val_loss, {.dirpath = folder, .enable_version_counter = false}};
  auto const report = equal(model, options, {}, batches(7, 8), stops, saves);
  CHECK(report.replayed > 5);
  CHECK(model.steps.front() < 280);  // it did stop early
  auto const captured = files_of(folder);
  std::filesystem::remove_all(folder);
  torch::manual_seed(3);
  M plain;
  run(SingleDevice{cpu}, plain, options, Float32{}, {}, batches(7, 8), stops, saves);
  auto const written = files_of(folder);
  std::filesystem::remove_all(folder);
  REQUIRE_FALSE(captured.empty());
  REQUIRE(captured.size() == written.size());
  for (auto const& [name, bytes] : captured) {
    INFO(name);
    REQUIRE(written.contains(name));
    CHECK(bool(bytes == written.at(name)));
  }
}
TEST_CASE("captured fit while a backbone is frozen, and after it was unfrozen into a group of its own") {
  Net<UsesHead> model;
  auto const report = equal(model, {.max_epochs = 12}, {}, batches(7, 8),
                            BackboneFinetuning{{.unfreeze_backbone_at_epoch = 5, .train_bn = false}});
  CHECK(report.tapes.size() == 2);
  CHECK(report.replayed > 40);
  torch::manual_seed(3);
  Net<UsesHead> fresh;
  CHECK_FALSE(fixtures::same_bits(model.backbone[0]->as<torch::nn::Linear>()->weight,
                                  fresh.backbone[0]->as<torch::nn::Linear>()->weight));
}
namespace {

/// Counts in its steps: sums, samples, the last values, one metric twice; one in a hook, where nothing is replayed.
struct Counting : Net<UsesAdam> {
  static constexpr Metric<"train/accuracy", metric::Accuracy> accuracy{.how = {.num_classes = 3}};
  static constexpr Metric<"train/f1", metric::F1> f1{.how = {.num_classes = 3}};
  static constexpr Metric<"train/auroc", metric::AUROC> auroc{.how = {.num_classes = 3}};
  static constexpr Metric<"train/bins", metric::BinnedAUROC> bins{.how = {.num_classes = 3}};
  static constexpr Metric<"train/perplexity", metric::Perplexity> perplexity{};
  static constexpr Metric<"train/last", metric::MeanOfLast> last{.how = {.window = 5}};
  static constexpr Metric<"train/range", metric::MinMax> range{};
  static constexpr Metric<"train/hook", metric::MeanMetric> hook{};
  using Metrics = MetricList<val_loss, accuracy, f1, auroc, bins, perplexity, last, range, hook>;
  /// Where it wanders, its scores are of another scale from batch 38 on, by a global that no guard sees.
  static inline bool wanders = false;
  static inline double scale = 1;

  void on_train_batch_start(auto&, auto& ctx) { scale = ctx.current_epoch() * 7 + ctx.batch_idx() < 38 ? 1.0 : -0.5; }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    ++ran;
    auto scores = head->forward(backbone->forward(batch.data));
    if (wanders) scores = scores * scale;
    auto value = F::cross_entropy(scores, batch.target);
    ctx.update(accuracy, scores, batch.target);
    ctx.update(accuracy, scores.detach() * batch.data.slice(1, 0, 3), batch.target);
    ctx.update(f1, scores, batch.target);
    auto const chances = scores.softmax(1);
    ctx.update(auroc, chances, batch.target);
    ctx.update(bins, chances, batch.target);
    ctx.update(perplexity, scores, batch.target);
    ctx.update(last, value);
    ctx.update(range, scores);
    return value;
  }
  void on_train_batch_end(auto& outputs, auto&, auto& ctx) { ctx.update(hook, outputs.loss); }
};

}  // namespace

TEST_CASE(
    "captured fit whose steps count for metrics: each replay counts, and the epochs' values are the plain fit's") {
  Counting model;
  auto const report = equal(model, {.max_epochs = 10}, {.accumulate_grad_batches = 2}, batches(7, 8, 5));
  CHECK(report.replayed > 20);
  auto const folder = std::filesystem::temp_directory_path() / "fulgurite_captured_counts";
  std::filesystem::remove_all(folder);
  auto const data = batches(7, 8);
  auto const fit = [&](auto strategy, long steps, auto const&... from) {
    torch::manual_seed(3);
    Counting net;
    torch::manual_seed(5);
    auto trainer = make_trainer<Counting>({.max_epochs = 10, .max_steps = steps, .log_every_n_steps = 1}, strategy,
                                          Float32{}, Automatic{}, Rows{}, NoDefaults{});
    trainer.fit(net, data, batches(2, 4), from...);
    trainer.save_checkpoint(folder / "cut");
    return trainer.template callback<Rows>().rows.back();
  };
  auto const whole = fit(SingleDevice{cpu}, -1);
  CHECK(whole.second.contains("train/range.max"));
  CHECK(whole.second.size() == 9 + 1);
  // Stopped inside of the last epoch, and gone on with: the counts of both parts.
  for (auto const& rest : {fit(SingleDevice{cpu}, 66), fit(Captured{SingleDevice{cpu}}, 66)}) CHECK(!(rest == whole));
  CHECK(fit(Captured{SingleDevice{cpu}}, -1, CkptPath{folder / "cut"}) == whole);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what wrong replays have counted is taken back with their steps") {
  Counting::wanders = true;
  auto const data = batches(7, 8);
  auto const rows = [&](auto strategy, bool goes) {
    torch::manual_seed(3);
    Counting net;
    torch::manual_seed(5);
    auto trainer = make_trainer<Counting>({.max_epochs = 8, .log_every_n_steps = 1}, strategy, Float32{}, Automatic{},
                                          Rows{}, NoDefaults{});
    trainer.fit(net, data, batches(2, 4));
    CHECK(trainer.warnings().size() == (goes ? 1 : 0));
    for (auto const& warning : trainer.warnings()) CHECK(warning.starts_with("[fulgurite.capture.gone_back]"));
    return trainer.template callback<Rows>().rows;
  };
  auto const plain = rows(SingleDevice{cpu}, false);
  REQUIRE(plain.size() > 8);
  CHECK(bool(rows(Captured{SingleDevice{cpu}}, true) == plain));
  Counting::wanders = false;
}

TEST_CASE("captured fast_dev_run and overfit_batches") {
  Net<UsesAdam> model;
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  run(strategy, model, {.fast_dev_run = 9}, Float32{}, {}, batches(12, 8));
  CHECK(model.ran + report->replayed == 9 + report->confirmed);
  CHECK(report->replayed > 0);
  CHECK(equal(model, {.max_epochs = 15, .overfit_batches = 3}, {}, batches(7, 8)).replayed > 10);
}

namespace {

/// Its gradient is the batch.
struct Weights : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones({40}));
  int ran = 0;
  torch::Tensor training_step(auto const& batch) {
    ++ran;
    return (weight * batch.data).sum();
  }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.1}); }
};

}  // namespace

TEST_CASE("a gradient of -0 that is written in place is the 0 that clearing and adding makes of it") {
  std::vector<data::Batch> data;
  for (int i = 0; i != 20; ++i) data.push_back({torch::full({40}, -0.0), torch::zeros({1})});
  Weights model;
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto trainer = make_trainer<Weights>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, data);
  CHECK(report->reasons.empty());
  REQUIRE(report->tapes.size() == 1);
  CHECK(report->tapes[0].direct == 2);
  CHECK(report->replayed > 0);
  CHECK(model.ran + report->replayed == 20 + report->confirmed);
  CHECK(fixtures::same_bits(model.weight.grad(), torch::zeros({40})));
}

namespace {

/// Logs what the optimizer, or the step itself, changes after it was logged.
struct LogsState : torch::nn::Module {
  static constexpr Metric<"scale"> scale_seen{.on_epoch = Report::yes};
  static constexpr Metric<"count"> count_seen{.on_epoch = Report::yes};
  using Metrics = MetricList<scale_seen, count_seen>;
  torch::Tensor scale = register_parameter("scale", torch::ones({}));
  torch::Tensor count = register_buffer("count", torch::zeros({}));
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    ctx.log(scale_seen, scale);
    ctx.log(count_seen, count);
    torch::NoGradGuard const no_graph;
    count.add_(1);
    at::AutoGradMode const graph(true);
    return (batch.data * scale).sum();
  }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.125}); }
};

}  // namespace

TEST_CASE(
    "a parameter and a buffer that captured steps log are what they were when they were logged, recorded or replayed") {
  std::vector<data::Batch> const data(8, {torch::ones({1}), torch::zeros({1})});
  LogsState model;
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto trainer = make_trainer<LogsState>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, data);
  CHECK(report->replayed > 0);
  CHECK(report->recorded > 0);
  CHECK(trainer.value(LogsState::scale_seen) == 1 - 0.125 * 3.5);
  CHECK(trainer.value(LogsState::count_seen) == 3.5);
}
