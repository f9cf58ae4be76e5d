// Steps as CUDA graphs on a real GPU: the bits of the fit as it is written, or the bound and why.

#include "gpu.hpp"

#include <string>
#include <tuple>
#include <vector>

#if defined(FULGURITE_HAS_CUDA_RUNTIME)

using namespace gpu;

namespace {

/// Images, for convolutions.
std::vector<data::Batch> images(int n, int rows) {
  auto generator = at::detail::createCPUGenerator(9);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i)
    all.push_back({torch::randn({rows, 1, 12, 12}, generator), torch::randint(0, 3, {rows}, generator, torch::kLong)});
  return all;
}

template <class Body>
struct Of : torch::nn::Module {
  Body body = {};
  int ran = 0;
  std::vector<torch::Tensor> losses = {};
  Of() { body.add_to(*this); }
  torch::Tensor training_step(data::Batch const& batch) {
    ++ran;
    return F::cross_entropy(body.scores(batch.data), batch.target);
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) { losses.push_back(outputs.loss); }
  auto configure_optimizers() { return optim::Adam(*this, {.lr = 0.01}); }
};

struct Convolutions {
  torch::nn::Conv2d one{torch::nn::Conv2dOptions(1, 8, 3)}, two{torch::nn::Conv2dOptions(8, 8, 3)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::Linear out{8 * 4 * 4, 3};
  void add_to(torch::nn::Module& net) {
    net.register_module("one", one);
    net.register_module("two", two);
    net.register_module("norm", norm);
    net.register_module("out", out);
  }
  torch::Tensor scores(torch::Tensor const& x) {
    auto const y = torch::max_pool2d(torch::relu(norm(two(torch::relu(one(x))))), 2);
    return out(y.flatten(1));
  }
};
/// Each number of a row is a step in time.
struct Lstm {
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(1, 12).num_layers(2).dropout(0.3).batch_first(true)};
  torch::nn::Linear out{12, 3};
  void add_to(torch::nn::Module& net) {
    net.register_module("lstm", lstm);
    net.register_module("out", out);
  }
  torch::Tensor scores(torch::Tensor const& x) {
    return out(std::get<0>(lstm->forward(x.unsqueeze(2))).select(1, x.size(1) - 1));
  }
};
struct Attentive {
  torch::nn::Linear in{1, 16}, qkv{16, 48}, out{16, 3};
  void add_to(torch::nn::Module& net) {
    net.register_module("in", in);
    net.register_module("qkv", qkv);
    net.register_module("out", out);
  }
  torch::Tensor scores(torch::Tensor const& x) {
    auto const parts =
        qkv(in(x.unsqueeze(2))).reshape({x.size(0), x.size(1), 3, 2, 8}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto const mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.2, true);
    return out(mixed.transpose(1, 2).flatten(2).mean(1));
  }
};

/// No hook is called with each of its batches, so several of its steps may be one replay.
struct Unheard : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::Sequential body = register_module(
      "body", torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::Tanh(),
                                    torch::nn::Dropout(0.3), torch::nn::Linear(16, 3)));
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    auto value = F::cross_entropy(body->forward(batch.data), batch.target);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    return scheduled(optim::AdamW(*this, {.lr = 0.01}), schedule::Cosine{.total = 300},
                     ScheduleOptions{.interval = Interval::step});
  }
};

/// The factor of its loss is another from batch 30 on, which nobody can see.
struct Unseen : Net<optim::AdamW> {
  static inline double factor = 1;
  void on_train_batch_start(auto&, auto& ctx) { factor = ctx.global_step() < 30 ? 1.0 : 0.5; }
  torch::Tensor training_step(data::Batch const& rows, auto& ctx) {
    ++ran;
    auto value = loss_of(rows) * factor;
    ctx.log(loss, value);
    return value;
  }
};

/// Its first layer is frozen in the second epoch.
struct Thaws : Net<optim::AdamW> {
  void on_train_epoch_start(auto& ctx) {
    for (auto& weight : body[0]->parameters()) weight.set_requires_grad(ctx.current_epoch() != 1);
  }
};

/// A fit as it is written, and captured.
struct Totals {
  Left plain, graphs;
  CaptureReport report;
};
template <class Model, class Strategy = SingleDevice<Cuda>, class Precision = Float32>
Totals both(std::vector<data::Batch> const& train, Automatic how = {}, int epochs = 6,
            Strategy strategy = Strategy{cuda}, Precision precision = {}, auto... callbacks) {
  Captured captured{strategy};
  Totals totals;
  totals.plain = left_by<Model>(strategy, train, how, epochs, precision, callbacks...);
  totals.graphs = left_by<Model>(captured, train, how, epochs, precision, callbacks...);
  totals.report = *captured.report();
  return totals;
}

}  // namespace

TEST_CASE("CUDA graphs: windows, a short last batch, clipping, schedules, averages and dropout keep every bit") {
  if (absent()) SKIP(none);
  auto const check = [](Totals const& totals) {
    INFO(all_of(totals.report.reasons));
    CHECK(totals.report.reasons.empty());
    CHECK(totals.report.unproven == 0);
    CHECK(totals.report.replayed > 20);
    CHECK(totals.graphs.ran < totals.plain.ran);
    CHECK(same(totals.graphs, totals.plain));
  };
  auto const train = batches(16, 8, 5);
  auto const whole = both<Ours>(train), clipped = both<Ours>(train, {.clip = ClipNorm{0.5}});
  check(whole);
  CHECK(whole.report.update_apart.empty());
  CHECK(whole.report.updated == whole.report.replayed);
  check(clipped);
  CHECK(clipped.report.update_apart.empty());
  CHECK(clipped.report.updated == clipped.report.replayed);
  auto const windows = both<Ours>(train, {.accumulate_grad_batches = 3, .clip = ClipValue{0.1}}, 12, SingleDevice{cuda},
                                  Float32{}, EMAWeightAveraging());
  check(windows);
  CHECK(windows.report.update_apart.empty());
  CHECK(windows.report.updated > 10);
  check(both<Ours>(train, {}, 6, SingleDevice{automatic}));
  check(both<Ours>(train, {}, 6, SingleDevice{NamedDevice{"cuda:0"}}, Bf16Mixed{},
                   StochasticWeightAveraging{{.swa_lrs = 0.02}}));
  check(both<Ours>(on_gpu(train)));
}

TEST_CASE("CUDA graphs: convolutions, recurrent layers and attention") {
  if (absent()) SKIP(none);
  auto const check = [](std::string const& name, Totals const& totals) {
    INFO(name << ": losses " << apart(totals.graphs.losses, totals.plain.losses) << " apart\n"
              << all_of(totals.report.reasons));
    CHECK(totals.report.replayed > 20);
    CHECK(same(totals.graphs, totals.plain));
  };
  // cuDNN's convolutions do not repeat their bits, unless they are asked to, and small differences grow in training.
  auto const noisy = both<Of<Convolutions>>(images(40, 16), {}, 8);
  INFO(all_of(noisy.report.reasons));
  CHECK(noisy.report.reasons.empty());
  CHECK(noisy.report.replayed > 200);
  auto const first = [](Left const& left) {
    return std::vector<torch::Tensor>(left.losses.begin(), left.losses.begin() + 20);
  };
  CHECK(apart(first(noisy.graphs), first(noisy.plain)) < 1e-3);
  at::globalContext().setDeterministicCuDNN(true);
  check("convolutions", both<Of<Convolutions>>(images(40, 16), {}, 8));
  at::globalContext().setDeterministicCuDNN(false);
  // cuDNN's recurrent layers move their weights about in each step.
  auto const recurrent = both<Of<Lstm>>(batches(8, 8), {}, 8);
  CHECK(all_of(recurrent.report.reasons).find("aten::set_ changes the shape") != std::string::npos);
  CHECK(same(recurrent.graphs, recurrent.plain));
  check("attention", both<Of<Attentive>>(batches(8, 8), {}, 8));
  check("attention, bf16", both<Of<Attentive>>(batches(8, 8), {}, 8, SingleDevice{cuda}, Bf16Mixed{}));
}

TEST_CASE("CUDA graphs: what nobody can see change is found by a check, and the fit goes back to the bits as written") {
  if (absent()) SKIP(none);
  auto const run = [](auto strategy) {
    auto model = fresh<Unseen>();
    torch::manual_seed(5);
    auto const train = batches(80, 8);
    auto trainer =
        make_trainer<Unseen>({.max_epochs = 1, .log_every_n_steps = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    return std::tuple(model.parameters(), all_of(trainer.warnings()), torch::rand({4}, torch::kCUDA));
  };
  auto const [expected, quiet, next] = run(SingleDevice{cuda});
  auto const [weights, said, drawn] = run(Captured{SingleDevice{cuda}});
  CHECK(said.find("[fulgurite.capture.gone_back]") != std::string::npos);
  CHECK(quiet.empty());
  CHECK(same(weights, expected));
  CHECK(fixtures::same_bits(next, drawn));
}

TEST_CASE("CUDA graphs: steps whose recordings were all dropped are recorded anew") {
  if (absent()) SKIP(none);
  auto const totals = both<Thaws>(batches(20, 8), {}, 3);
  INFO(all_of(totals.report.reasons));
  CHECK(totals.report.reasons.empty());
  CHECK(totals.report.dropped == 2);
  CHECK(totals.report.replayed > 20);
  CHECK(totals.report.updated == totals.report.replayed);
  CHECK(same(totals.graphs, totals.plain));
}

TEST_CASE("CUDA graphs: each of our optimizers updates in the graph, where no rate changes, too") {
  if (absent()) SKIP(none);
  auto const check = [](Totals const& totals) {
    INFO(totals.report.update_apart);
    CHECK(totals.report.updated == totals.report.replayed);
    CHECK(same(totals.graphs, totals.plain));
  };
  auto const train = batches(100, 8);  // the table of numbers is used up and written again
  check(both<Of<Attentive>>(train));
  check(both<Net<optim::SGD>>(train));
  check(both<Net<optim::Adam>>(train));
  check(both<Net<optim::RMSprop>>(train));
  check(both<Net<optim::Adagrad>>(train));
}

TEST_CASE("CUDA graphs: several steps in one replay keep every bit") {
  if (absent()) SKIP(none);
  auto const fit = [](auto strategy, Automatic how) {
    auto model = fresh<Unheard>();
    torch::manual_seed(5);
    auto trainer = make_trainer<Unheard>({.max_epochs = 6, .log_every_n_steps = 10}, strategy, how, NoDefaults{});
    trainer.fit(model, batches(41, 8, 5), NoValidation{});
    Left left{model.parameters(), {}, {torch::rand({4}), torch::rand({4}, torch::kCUDA)}};
    for (auto const& buffer : model.buffers()) left.weights.push_back(buffer);
    left.losses.push_back(torch::tensor(*trainer.value(Unheard::loss)));
    return left;
  };
  for (auto const& how : {Automatic{}, Automatic{.clip = ClipNorm{0.5}}}) {
    Captured captured{SingleDevice{cuda}, {.steps_a_replay = 4}};
    auto const plain = fit(SingleDevice{cuda}, how), graphs = fit(captured, how);
    auto const& report = *captured.report();
    INFO(all_of(report.reasons) << report.update_apart << report.single);
    CHECK(report.joined > 80);
    CHECK(report.single.empty());
    CHECK(same(graphs, plain));
  }
}

TEST_CASE("CUDA graphs: several fits in turn leave no memory behind") {
  if (absent()) SKIP(none);
  auto const held = [] {
    c10::cuda::CUDACachingAllocator::emptyCache();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  };
  auto const train = batches(12, 64);
  left_by<Ours>(Captured{SingleDevice{cuda}}, train, {}, 3);
  auto const before = held();
  for (int i = 0; i != 3; ++i) left_by<Ours>(Captured{SingleDevice{cuda}}, train, {}, 3);
  CHECK(held() <= before);
}

#endif
