// What a captured step takes from outside of its operators: hooks on tensors, the parts and numbers of the model,
// memory that operators fill, LibTorch's switches, sizes that a batch states itself, other threads.

#include "captured_fits.hpp"

#include <atomic>
#include <thread>

#include <catch2/catch_template_test_macros.hpp>

using namespace captured_fits;
using namespace std::chrono_literals;

namespace {

constexpr long changes_at = 30;
void halve(Given& net) {
  net.parameters()[0].register_hook([](torch::Tensor const& gradient) { return gradient * 0.5; });
}
void second_hook(Given& net, long batch) {
  if (batch == 0 || batch == changes_at) halve(net);
}
void hook_removed(Given& net, long batch) {
  if (batch == 0) halve(net);
  if (batch == changes_at) net.parameters()[0].remove_hook(0);
}
/// A buffer that the first step registers.
torch::Tensor late(Given& net, data::Batch const& batch) {
  if (!net.named_buffers().contains("late")) net.register_buffer("late", torch::full({}, 0.5));
  return plain_loss(net.body, batch) * net.named_buffers()["late"];
}

/// A factory that fills a buffer of the model, to which the step adds.
torch::Tensor fills_buffer(Given& net, data::Batch const& batch) {
  torch::zeros_out(net.counter, {1});
  auto const value = plain_loss(net.body, batch);
  net.counter.add_(value.detach());
  return (value * (1 + net.counter)).sum();
}

/// Operators fill memory that was not set before: the noise of a layer, random numbers.
torch::Tensor leaks(Given& net, data::Batch const& batch) {
  return F::cross_entropy(torch::rrelu(net.body->forward(batch.data), 0.1, 0.3, true), batch.target);
}
template <class Fill>
torch::Tensor draws(Given& net, data::Batch const& batch, Fill fill) {
  auto const numbers = torch::empty({4});
  fill(numbers);
  return plain_loss(net.body, batch) * (1 + 0.1 * numbers.clamp(-1, 1).mean());
}
torch::Tensor log_normal(Given& net, data::Batch const& batch) {
  return draws(net, batch, [](torch::Tensor const& to) { to.log_normal_(); });
}
torch::Tensor cauchy(Given& net, data::Batch const& batch) {
  return draws(net, batch, [](torch::Tensor const& to) { to.cauchy_(); });
}
torch::Tensor geometric(Given& net, data::Batch const& batch) {
  return draws(net, batch, [](torch::Tensor const& to) { to.geometric_(0.5); });
}

/// A clock by which a check takes four times as long as a replay.
struct Checks {
  using Stateless = ByChoice;
  static inline TrainerOptions::Clock::time_point now{};
  std::shared_ptr<CaptureReport const> report;
  long seen = 0;
  void on_train_batch_end(Context&) { now += std::exchange(seen, report->checked) == report->checked ? 1ms : 4ms; }
};

/// Its hooks append to no vector. The end of one that grows in place changes in a byte that no step has changed before
/// now and then, at steps that depend on its address, and each is checked at once.
struct Quiet : Given {
  void on_train_batch_end() {}
};

/// A hook changes numbers that would be low addresses.
struct Numbers : Common {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  float share = 1;
  long most = 5000, now = 0;
  void on_train_batch_start() {
    if (now++ != changes_at) return;
    share = 0.5;
    most = 6000;
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    return classified(layer->forward(batch.data) * share, batch.target, ctx);
  }
};

/// A batch that states how many of its rows count.
struct Counted {
  torch::Tensor data, target, rows;
  std::int64_t batch_size() const { return rows.item<std::int64_t>(); }
};
/// It returns a parameter beside the loss; what a hook sees of it is what the update has made of it.
struct Shows : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  struct Output {
    torch::Tensor loss, scale;
  };
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor scale = register_parameter("scale", torch::ones({}));
  std::vector<float> seen = {};
  Output training_step(data::Batch const& batch, auto& ctx) {
    auto value = F::cross_entropy(layer->forward(batch.data) * scale, batch.target);
    ctx.log(loss, value);
    return {value, scale.detach()};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { seen.push_back(outputs.scale.template item<float>()); }
  auto configure_optimizers() { return FlatSgd(parameters()); }
};
/// The same, said by a function beside it.
struct CountedElsewhere {
  torch::Tensor data, target, rows;
};
std::int64_t batch_size(CountedElsewhere const& batch) { return batch.rows.item<std::int64_t>(); }
template <class Batch>
struct Weighs : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(Batch const& batch, auto& ctx) {
    auto value = F::cross_entropy(layer->forward(batch.data), batch.target);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() { return FlatSgd(parameters()); }
};
/// It returns a tensor whose elements share memory, and sees how often that lies where the last one did.
struct ReturnsExpanded : torch::nn::Module {
  struct Output {
    torch::Tensor loss, wide;
  };
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  void const* last = nullptr;
  long again = 0;
  Output training_step(data::Batch const& batch) {
    auto const value = F::cross_entropy(layer->forward(batch.data), batch.target);
    return {value, value.detach().expand({3})};
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    void const* const now = outputs.wide.const_data_ptr();
    again += now == std::exchange(last, now);
  }
  auto configure_optimizers() { return FlatSgd(parameters()); }
};

template <class Model, class Strategy, class Batch>
double mean_loss(Strategy strategy, Model& model, std::vector<Batch> data) {
  auto trainer = make_trainer<Model>({.max_epochs = 10}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, data);
  return *trainer.value(Model::loss);
}

}  // namespace

TEST_CASE("the guard of each step: a second hook on a tensor, and one that is removed") {
  for (auto* const before : {second_hook, hook_removed}) {
    auto const report = twice({usual_step, before}, batches(7, 8), {}, 10).first;
    CHECK(report.reasons.empty());
    CHECK(report.tapes.size() == 2);
    CHECK(report.replayed > 30);
  }
}

TEST_CASE("an open fit knows which step will be checked, and leaves it to a call whose budget has room for it") {
  Given::does = {usual_step};
  auto model = fresh<Quiet>();
  auto const data = batches(500, 8);
  Captured strategy{SingleDevice{cpu}};
  Checks const checks{.report = strategy.report()};
  auto trainer = make_trainer<Quiet>({.max_epochs = 1, .now = [] { return Checks::now; }}, strategy, Float32{},
                                     Automatic{}, checks, NoDefaults{});
  auto fit = trainer.open(*model, data);
  for (int i = 0; i != 8; ++i) fit.advance();  // recorded, and checked until replays are trusted
  auto const before = checks.report->checked;
  int over = 0;
  for (auto began = Checks::now; trainer.progress().global_step < 450; began = Checks::now) {
    fit.advance_for(4ms);
    over += Checks::now - began > 4ms;
  }
  CHECK(checks.report->checked > before + 3);
  // How long the first one takes is not known, and a change of the model's members is checked at once.
  CHECK(over <= 2);
  fit.close();
}

TEST_CASE("a buffer that the first step registers is the model's") {
  auto const [report, ran] = twice({late}, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}

TEST_CASE("replays before a float or an integer of the model changes are checked as the model was then") {
  auto const report = twice<Numbers>(batches(50, 8), {}, 1).first;
  CHECK(report.reasons.empty());
  CHECK(report.tapes.size() == 2);
  CHECK(report.unproven == 0);
}

TEST_CASE("operators that fill memory with random numbers are replayed") {
  for (auto* const step : {leaks, log_normal, cauchy, geometric}) {
    auto const [report, ran] = twice({step}, batches(7, 8));
    CHECK(report.reasons.empty());
    CHECK(report.replayed > 30);
  }
}

TEST_CASE("the guard of each step knows LibTorch's switches of products, convolutions and attention") {
  auto& context = at::globalContext();
  auto const knows = [](at::DeviceType type, auto set, auto value, auto usual) {
    libtorch::capture::Modes const before(type);
    set(value);
    bool const same = libtorch::capture::Modes(type) == before;
    set(usual);
    return !same;
  };
  context.setFloat32MatmulPrecision("highest");
  for (auto const type : {at::kCPU, at::kCUDA})
    CHECK(knows(type, [&](bool on) { context.setSDPUseMath(on); }, false, true));
  CHECK(knows(at::kCUDA, [&](char const* how) { context.setFloat32MatmulPrecision(how); }, "high", "highest"));
  CHECK(knows(at::kCUDA, [&](bool on) { context.setSDPUseCuDNN(on); }, false, true));
  CHECK(knows(at::kCUDA, [&](bool on) { context.setDeterministicCuDNN(on); }, true, false));
  CHECK(knows(at::kCUDA, [&](bool on) { context.setBenchmarkCuDNN(on); }, true, false));
  CHECK(knows(at::kCUDA, [&](bool on) { context.setAllowTF32CuDNN(on); }, false, true));
  for (auto const operation : {at::Float32Op::CONV, at::Float32Op::RNN}) {
    auto const set = [&](at::Float32Precision how) {
      context.setFloat32Precision(at::Float32Backend::CUDA, operation, how);
    };
    CHECK(knows(at::kCUDA, set, at::Float32Precision::IEEE, at::Float32Precision::TF32));
  }
}

TEST_CASE("a factory that fills a buffer of the model does so in each replay") {
  auto const [report, ran] = twice({fills_buffer}, batches(7, 8));
  CHECK(report.reasons.empty());
  CHECK(report.replayed > 30);
}

TEST_CASE("what a replay returns takes the memory of the one before, also where its elements share memory") {
  auto const model = fresh<ReturnsExpanded>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto trainer = make_trainer<ReturnsExpanded>({.max_epochs = 2}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(*model, batches(100, 8));
  CHECK(report->replayed > 100);
  CHECK(model->again > report->replayed / 2);
}

TEST_CASE("weights that change with each batch keep steps as written, and the warning names batch_size") {
  std::vector<CountedElsewhere> data;
  for (auto const& batch : batches(12, 8))
    data.push_back({batch.data, batch.target, torch::tensor(1 + static_cast<std::int64_t>(data.size()))});
  auto written = fresh<Weighs<CountedElsewhere>>(), captured = fresh<Weighs<CountedElsewhere>>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  CHECK(mean_loss(SingleDevice{cpu}, *written, data) == mean_loss(strategy, *captured, data));
  CHECK(report->tapes.size() <= 4);
  REQUIRE(report->reasons.size() == 1);
  CHECK(report->reasons[0] == "the batch's batch_size, which weights what is logged, changes too often");
}

TEMPLATE_TEST_CASE("metrics have the weights that batches state themselves, one tape for each", "", Counted,
                   CountedElsewhere) {
  std::vector<TestType> data;
  for (auto const& batch : batches(6, 8))
    data.push_back({batch.data, batch.target, torch::tensor(8 - static_cast<std::int64_t>(data.size()) % 3)});
  auto written = fresh<Weighs<TestType>>(), captured = fresh<Weighs<TestType>>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  CHECK(mean_loss(SingleDevice{cpu}, *written, data) == mean_loss(strategy, *captured, data));
  CHECK(report->tapes.size() == 3);
  CHECK(report->replayed > 10);
}

TEST_CASE("a parameter that the step returns is the parameter, also in a replay") {
  auto written = fresh<Shows>(), captured = fresh<Shows>();
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  CHECK(mean_loss(SingleDevice{cpu}, *written, batches(6, 8)) == mean_loss(strategy, *captured, batches(6, 8)));
  CHECK(written->seen == captured->seen);
  CHECK(report->replayed > 30);
}

TEST_CASE("a captured fit that draws nothing leaves the draws of other threads alone") {
  auto const draws = [] {
    torch::Tensor sum = torch::zeros({});
    for (int i = 0; i != 20000; ++i) sum += torch::rand({});
    return sum.item<float>();
  };
  torch::manual_seed(7);
  auto const expected = draws();
  auto model = fresh({usual_step});
  std::atomic<bool> over = false;
  torch::manual_seed(7);
  std::thread other([&] {
    while (!over)
      make_trainer<Given>({.max_epochs = 1}, Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{})
          .fit(*model, batches(9, 8));
  });
  auto const drawn = draws();
  over = true;
  other.join();
  CHECK(drawn == expected);
}
