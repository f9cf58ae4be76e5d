// Several steps as one replay, in a stand-in for a graph on the fake accelerator: the bits of a fit without graphs,
// whatever looks at what the steps compute, and by name where each step stays a replay of its own.

#include "fake_device.hpp"

#include "../gpu.hpp"
#include "../replayed.hpp"

#include <fulgurite/tuner/learning_rate_finder.hpp>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/AutogradState.h>

using namespace gpu;
using Catch::Matchers::ContainsSubstring;
using replayed::Replayed;

namespace {

using OnFake = SingleDevice<Accelerator>;
using Graphed = replayed::capture::Capturing<OnFake, replayed::graph::Graphs<Replayed>>;

inline long runs = 0, other_from = -1, other_to = -1;  ///< of training_step; between the last two it computes otherwise
inline int logs = 1;                                   ///< how often it logs its loss

/// Buffers, a schedule of each step, and a loss that is logged by step and by epoch.
struct Logs : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16),
                                                    torch::nn::Tanh(), torch::nn::Linear(16, 3)));
  std::vector<torch::Tensor> states = {};

  torch::Tensor loss_of(data::Batch const& batch) { return F::cross_entropy(body->forward(batch.data), batch.target); }
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    auto value = loss_of(batch);
    if (++runs; runs > other_from && runs <= other_to) value = value * 2;
    for (int i = 0; i != logs; ++i) ctx.log(loss, value);
    return value;
  }
  void validation_step(data::Batch const& batch, auto& ctx) { ctx.log(val_loss, loss_of(batch)); }
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& parameter : optimizer.parameters())
        for (auto const& [name, tensor] : optimizer.state(parameter).tensors) states.push_back(tensor.clone());
    });
  }
  auto configure_optimizers() {
    return scheduled(optim::Adam(*this, {.lr = 0.01}), schedule::Cosine{.total = 400},
                     ScheduleOptions{.interval = Interval::step});
  }
};

/// A logger that keeps its rows.
struct Rows {
  using Stateless = ByChoice;
  std::shared_ptr<std::vector<std::pair<std::string, double>>> all =
      std::make_shared<std::vector<std::pair<std::string, double>>>();
  void log_metrics(std::span<Scalar const> row, long step) {
    for (auto const& [name, value] : row) all->emplace_back(std::string(name) + " at " + std::to_string(step), value);
  }
};
/// Reads the weights where it may: before each validation.
struct Looks {
  using Stateless = ByChoice;
  std::shared_ptr<std::vector<torch::Tensor>> seen = std::make_shared<std::vector<torch::Tensor>>();
  void on_validation_start(auto& ctx) {
    for (auto const& weight : ctx.model().parameters()) seen->push_back(weight.detach().cpu());
  }
};
/// Reads a logged value now and then, of which the context takes care.
struct ReadsLoss {
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  std::shared_ptr<std::vector<torch::Tensor>> seen = std::make_shared<std::vector<torch::Tensor>>();
  void on_train_batch_end(Context& ctx) {
    if (ctx.batch_idx() % 7 == 5) seen->push_back(torch::tensor(ctx.value("loss").value()));
  }
};
/// Hears each batch, and reads no tensor.
struct Counts {
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  long fails_at = -1, batches = 0;
  void on_train_batch_end() {
    if (++batches == fails_at) throw std::runtime_error("the callback fails");
  }
};
struct HearsBatches {
  using Stateless = ByChoice;
  std::shared_ptr<std::vector<torch::Tensor>> seen = std::make_shared<std::vector<torch::Tensor>>();
  void on_train_batch_end(auto& ctx) { seen->push_back(ctx.model().parameters().front().detach().cpu()); }
};

struct Fitted {
  std::vector<torch::Tensor> weights = {}, states = {}, seen = {};
  std::vector<std::pair<std::string, double>> rows = {};
  std::vector<long> counts = {};
  long launches = 0;
  std::string error = {}, warnings = {};
};
/// Its batches are made from the weights, in the same memory.
auto of_weights() {
  return data::Stream{[](long epoch) {
    auto memory = torch::zeros({8, 6}, torch::TensorOptions(fake::device()));
    auto target = torch::arange(8, torch::kLong).remainder(3).to(fake::device());
    return [=, k = 0]() mutable -> std::optional<data::Batch> {
      if (k++ == 41) return std::nullopt;
      auto const weight = Replayed::model->parameters().front().detach().cpu().abs().mean();
      memory.copy_(torch::arange(48, torch::kFloat).reshape({8, 6}).mul(epoch + k).sin().add(weight));
      return data::Batch{memory, target};
    };
  }};
}
/// Its hook reads the weights.
struct Augments {
  std::vector<data::Batch> train = batches(41, 8), val = batches(3, 8);
  auto& train_dataloader() { return train; }
  auto& val_dataloader() { return val; }
  data::Batch on_after_batch_transfer(data::Batch& batch) {
    return {batch.data + Replayed::model->parameters().front().detach().mean(), batch.target};
  }
};

inline constexpr auto stored = [] { return batches(41, 8); };
template <auto train = stored, class Strategy, class... Callbacks>
Fitted fitted(Strategy strategy, TrainerOptions options, Automatic how, Callbacks... callbacks) {
  // Backward on this thread, since the stand-in records no other.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  auto model = fresh<Logs>();
  Replayed::model = &model;
  runs = 0;
  Rows rows;
  Looks looks;
  if (!options.max_epochs) options.max_epochs = 4;
  if (options.log_every_n_steps == 50) options.log_every_n_steps = 10;
  auto trainer = make_trainer<Logs>(options, strategy, how, rows, looks, callbacks..., NoDefaults{});
  int const before = Replayed::launches;
  Fitted all;
  auto data = train();
  try {
    if constexpr (requires { data.train_dataloader(); }) trainer.fit(model, data);
    else trainer.fit(model, data, batches(3, 8));
  } catch (std::exception const& error) { all.error = error.what(); }
  all.launches = Replayed::launches - before;
  all.weights = fixtures::copied_weights(model);
  all.states = model.states;
  all.seen = *looks.seen;
  all.rows = *rows.all;
  all.counts = {trainer.progress().global_step, trainer.progress().total_batches};
  for (auto const& warning : trainer.warnings()) all.warnings += warning + "\n";
  return all;
}
OnFake plain() { return OnFake{Accelerator{"fake"}}; }

void same(Fitted const& a, Fitted const& b) {
  CHECK(gpu::same(a.weights, b.weights));
  CHECK(gpu::same(a.states, b.states));
  CHECK(gpu::same(a.seen, b.seen));
  CHECK((a.rows == b.rows));  // not expanded: Catch2 takes minutes to wrap as many numbers
  CHECK(a.counts == b.counts);
  CHECK(a.error == b.error);
}

/// Fits as written, with graphs of a step, and with graphs of `steps`, all with the same bits.
template <auto train = stored, class... Callbacks>
CaptureReport joined(int steps, TrainerOptions options, Automatic how, Callbacks... callbacks) {
  Graphed strategy{plain(), {.steps_a_replay = steps}};
  auto const report = strategy.report();
  auto const written = fitted<train>(plain(), options, how, callbacks...),
             single = fitted<train>(Graphed{plain()}, options, how, callbacks...),
             several = fitted<train>(strategy, options, how, callbacks...);
  INFO(all_of(report->reasons) << report->update_apart << report->single << " " << report->joined << " joined of "
                               << report->replayed << "; " << several.launches << " launches, one by one "
                               << single.launches);
  CHECK(report->replayed > 40);
  same(single, written);
  same(several, written);
  // A group that ends early is launched one by one.
  if (report->joined != 0) CHECK(several.launches < single.launches);
  else CHECK(several.launches == single.launches);
  CHECK(report->joined % steps == 0);
  return *report;
}

}  // namespace

TEST_CASE("several steps are one replay with the bits of each of its own") {
  for (int const steps : {2, 3, 8}) {
    auto const report = joined(steps, {}, {}, Counts{});
    CHECK(report.single.empty());
    CHECK(report.joined > 50);
    CHECK(report.updated == report.replayed);
  }
  CHECK(joined(4, {}, {.clip = ClipNorm{0.1}}).joined > 80);
  CHECK(joined(4, {.non_finite = NonFinite::ignore}, {.clip = ClipValue{0.01}}).joined > 80);
}

TEST_CASE("steps are launched before a row, a validation, a stop or an error looks at them") {
  CHECK(joined(4, {.log_every_n_steps = 7}, {}).joined > 60);
  CHECK(joined(4, {.log_every_n_steps = 1}, {}).joined == 0);
  CHECK(joined(3, {.val_check_interval = 6}, {}).joined > 50);
  CHECK(joined(4, {.max_steps = 101}, {}).joined > 40);
  CHECK(joined(4, {}, {}, Counts{.fails_at = 109}).joined > 40);
  auto* const file = std::tmpfile();
  CHECK(joined(4, {}, {}, ProgressBar{{.stream = file, .terminal = false}}).joined > 80);
  std::fclose(file);
}

TEST_CASE("steps are launched before the context reads what they have logged") {
  ReadsLoss reads;
  CHECK(joined(3, {.log_every_n_steps = 41}, {}, reads).joined > 80);
  auto const& seen = *reads.seen;
  REQUIRE(seen.size() % 3 == 0);
  auto const third = static_cast<std::ptrdiff_t>(seen.size() / 3);
  CHECK(gpu::same({seen.begin() + third, seen.begin() + 2 * third}, {seen.begin(), seen.begin() + third}));
  CHECK(gpu::same({seen.begin() + 2 * third, seen.end()}, {seen.begin(), seen.begin() + third}));
  logs = 110;  // a board reads 4096 values that wait
  CHECK(joined(8, {.log_every_n_steps = 0}, {}).joined > 20);
  logs = 1;
}

TEST_CASE("steps stay single where somebody may look at each") {
  HearsBatches hears;
  auto const report = joined(4, {}, {}, hears);
  CHECK(report.joined == 0);
  CHECK_THAT(report.single, ContainsSubstring("a callback listens to each batch"));
  CHECK_THAT(fitted(Graphed{plain(), {.steps_a_replay = 4}}, {}, {}, hears).warnings,
             ContainsSubstring("[fulgurite.capture.single_steps] steps_a_replay = 4 has no effect"));
  CHECK_THAT(joined<of_weights>(4, {}, {}).single,
             ContainsSubstring("the loader may use the weights, has a `begin()` that is not const"));
  constexpr auto augmented = [] { return Augments(); };
  CHECK_THAT(joined<augmented>(4, {}, {}).single, ContainsSubstring("a hook that is called with each batch"));
  CHECK_THAT(joined(4, {.non_finite = NonFinite::skip}, {}).single, ContainsSubstring("waits"));
  CHECK_THAT(joined(4, {}, {.accumulate_grad_batches = 2}).single, ContainsSubstring("window"));
}

TEST_CASE("a trial inside of a fit says nothing of its own callbacks") {
  static_assert(judge::ignores_tensors<ProgressBar>() && judge::ignores_tensors<ModelCheckpoint<NoMonitor>>() &&
                judge::ignores_tensors<Timer>() && judge::ignores_tensors<Signals>() &&
                judge::ignores_tensors<LearningRateMonitor>() && judge::ignores_tensors<DeviceStatsMonitor>());
  Graphed strategy{plain(), {.steps_a_replay = 4}};
  auto const report = strategy.report();
  LearningRateFinder<Logs> const finder{{.search = {.num_training = 12, .update = nullptr}, .milestones = {1}}};
  auto const several = fitted(strategy, {}, {}, finder);
  CHECK(several.warnings.find("single_steps") == std::string::npos);
  CHECK(report->single.empty());
  CHECK(report->joined > 40);
}

TEST_CASE("joined steps that do not do what the single ones do are not used") {
  Graphed strategy{plain(), {.steps_a_replay = 4}};
  auto const report = strategy.report();
  auto const written = fitted(plain(), {}, {});
  other_from = 7;  // three runs before a step is recorded, its recording, three checks
  other_to = 7 + 4;
  auto const several = fitted(strategy, {}, {});
  other_from = other_to = -1;
  same(several, written);
  CHECK_THAT(report->single, ContainsSubstring("does not give the bits of the steps one by one"));
  CHECK(report->replayed > 80);
}

TEST_CASE("steps_a_replay is from 1 to 64") {
  CHECK_THROWS_WITH((Captured{SingleDevice{cpu}, {.steps_a_replay = 0}}),
                    "[fulgurite.capture.steps_a_replay] `steps_a_replay` must be from 1 to 64, got 0");
  CHECK_THROWS_WITH((Captured{SingleDevice{cpu}, {.steps_a_replay = 65}}), ContainsSubstring("got 65"));
}
