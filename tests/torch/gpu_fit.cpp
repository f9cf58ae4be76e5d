// Fits on a GPU: the bits of the loop by hand, devices by name, evaluation, and how often the host waits.

#include "gpu.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace gpu;

namespace {

using Torchs = Net<torch::optim::AdamW>;

struct Gan : torch::nn::Module {
  torch::nn::Linear g = register_module("g", torch::nn::Linear(2, 6));
  torch::nn::Linear d = register_module("d", torch::nn::Linear(6, 1));
  auto configure_optimizers() {
    return optimizers(optim::Adam(g->parameters(), 0.01), optim::SGD(d->parameters(), 0.1));
  }
  torch::Tensor fake(torch::Tensor const& x) { return g->forward(torch::randn({x.size(0), 2}, x.options())); }
  torch::Tensor d_loss(torch::Tensor const& x, torch::Tensor const& made) {
    return F::softplus(-d->forward(x)).mean() + F::softplus(d->forward(made.detach())).mean();
  }
  torch::Tensor g_loss(torch::Tensor const& made) { return F::softplus(-d->forward(made)).mean(); }
  void training_step(data::Batch const& batch, auto& ctx) {
    auto& [opt_g, opt_d] = ctx.optimizers();
    auto const made = fake(batch.data);
    ctx.minimize(opt_d, d_loss(batch.data, made));
    ctx.minimize(opt_g, g_loss(made));
  }
};

/// No batch norm, which a bad batch would spoil.
struct Line : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(6, 3));
  torch::Tensor training_step(data::Batch const& batch) {
    return F::cross_entropy(layer->forward(batch.data), batch.target);
  }
  auto configure_optimizers() { return optim::SGD(*this, {.lr = 0.1}); }
};

/// The model, trained by hand on the GPU.
template <class Optimizer>
Torchs by_hand(Optimizer&& make, int epochs, std::vector<data::Batch> const& train) {
  auto model = fresh<Torchs>();
  torch::manual_seed(5);
  model.to(torch::kCUDA);
  auto optimizer = make(model);
  for (int epoch = 0; epoch != epochs; ++epoch)
    for (auto const& batch : train) {
      optimizer.zero_grad();
      model.loss_of({batch.data.cuda(), batch.target.cuda()}).backward();
      optimizer.step();
    }
  return model;
}

}  // namespace

TEST_CASE("on a GPU a fit has the bits of the loop by hand, dropout included, and its model is on the CPU afterwards") {
  if (absent()) SKIP(none);
  auto const train = batches(7, 8, 5);
  auto const expected = by_hand([](auto& net) { return torch::optim::AdamW(net.parameters(), 0.01); }, 3, train);
  auto const fit = [&](auto strategy) {
    auto model = fresh<Torchs>();
    torch::manual_seed(5);
    auto trainer =
        make_trainer<Torchs>(TrainerOptions{.max_epochs = 3}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    for (auto const& parameter : model.parameters()) CHECK(parameter.is_cpu());
    for (auto const& buffer : model.buffers()) CHECK(buffer.is_cpu());
    CHECK(model.losses.back().is_cuda());
    CHECK(same(model, expected));
  };
  fit(SingleDevice{cuda});
  fit(SingleDevice{automatic});
  fit(SingleDevice{NamedDevice{"cuda:0"}});
  fit(SingleDevice{NamedDevice{"auto"}});
}

TEST_CASE("on a GPU our optimizers have the bits of LibTorch's") {
  if (absent()) SKIP(none);
  auto const train = batches(9, 8);
  auto const theirs = by_hand(
      [](auto& net) { return torch::optim::Adam(net.parameters(), torch::optim::AdamOptions(0.01)); }, 2, train);
  auto const ours = by_hand([](auto& net) { return optim::Adam(net, {.lr = 0.01}); }, 2, train);
  CHECK(same(theirs, ours));
  auto const sgd = by_hand(
      [](auto& net) { return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)); }, 2,
      train);
  CHECK(same(sgd, by_hand([](auto& net) { return optim::SGD(net, {.lr = 0.1, .momentum = 0.9}); }, 2, train)));
}

TEST_CASE("a GPU that is not there is an error before anything is touched") {
  if (absent()) SKIP(none);
  auto model = fresh<Ours>();
  auto const train = batches(2, 8);
  auto trainer = make_trainer<Ours>({.max_epochs = 1}, SingleDevice{Cuda{99}}, Float32{}, Automatic{}, NoDefaults{});
  CHECK_THROWS_WITH(trainer.fit(model, train, NoValidation{}),
                    Catch::Matchers::StartsWith("[fulgurite.strategy.cuda_index]"));
  CHECK(model.ran == 0);
  CHECK(model.parameters().front().is_cpu());
}

TEST_CASE("on a GPU validate, test and predict have the CPU's results to rounding") {
  if (absent()) SKIP(none);
  auto const data = batches(4, 8, 3);
  auto model = fresh<Ours>();
  auto const all = [&](auto strategy) {
    auto trainer = make_trainer<Ours>({.max_epochs = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
    std::vector<torch::Tensor> results;
    results.push_back(torch::tensor(trainer.validate(model, data)[0][0].value));
    results.push_back(torch::tensor(trainer.test(model, data)[0][0].value));
    auto const predictions = trainer.predict(model, data);
    for (auto const& one : predictions.front()) results.push_back(one);
    return results;
  };
  auto const here = all(SingleDevice{cpu}), there = all(SingleDevice{cuda});
  CHECK(there.back().is_cuda());
  CHECK(apart(here, there) < 1e-5);
}

TEST_CASE("on a GPU a GAN by hand has the bits of the loop without a trainer") {
  if (absent()) SKIP(none);
  auto const train = batches(4, 5);
  auto expected = fresh<Gan>();
  expected.to(torch::kCUDA);
  optim::Adam opt_g(expected.g->parameters(), 0.01);
  optim::SGD opt_d(expected.d->parameters(), 0.1);
  torch::manual_seed(5);
  for (auto const& batch : train) {
    auto const x = batch.data.cuda(), made = expected.fake(x);
    opt_d.zero_grad();
    expected.d_loss(x, made).backward();
    opt_d.step();
    opt_g.zero_grad();
    expected.g_loss(made).backward();
    opt_g.step();
  }
  auto model = fresh<Gan>();
  torch::manual_seed(5);
  auto trainer = make_trainer<Gan>({.max_epochs = 1}, SingleDevice{cuda}, Float32{}, Manual{}, NoDefaults{});
  trainer.fit(model, train);
  CHECK(trainer.progress().global_step == 8);
  CHECK(same(model, expected));
}

TEST_CASE("on a GPU a loss that is not finite is found at the cadence of the logs, or skipped in its step") {
  if (absent()) SKIP(none);
  auto train = batches(12, 8);
  train[7].data[3][1] = std::numeric_limits<float>::infinity();
  auto const fit = [&](auto strategy, NonFinite policy, auto const& data) {
    auto line = fresh<Line>();
    auto trainer = make_trainer<Line>({.max_epochs = 1, .log_every_n_steps = 2, .non_finite = policy}, strategy,
                                      Float32{}, Automatic{}, NoDefaults{});
    std::string said;
    try {
      trainer.fit(line, data, NoValidation{});
    } catch (Error const& error) { said = error.what(); }
    if (said.empty() && !trainer.warnings().empty()) said = trainer.warnings().front();
    return std::pair(said, line.parameters());
  };
  auto const stopped = fit(SingleDevice{cuda}, NonFinite::stop, train).first;
  CHECK(stopped.find("[fulgurite.loop.non_finite] a loss or a weight is not finite since one of the steps") == 0);
  auto const [said, skipped] = fit(SingleDevice{cuda}, NonFinite::skip, train);
  CHECK(said.find("[fulgurite.loop.non_finite_skipped]") == 0);
  auto without = train;
  without.erase(without.begin() + 7);
  CHECK(same(skipped, fit(SingleDevice{cuda}, NonFinite::skip, without).second));
  CHECK(same(skipped, fit(Captured{SingleDevice{cuda}}, NonFinite::skip, train).second));
}

// Run by the case below in a process that has multiplied nothing before.
TEST_CASE("a deterministic fit on a GPU", "[.deterministic]") {
  auto const train = batches(30, 8);
  auto const fit = [&](auto strategy) {
    auto model = fresh<Ours>();
    torch::manual_seed(5);
    auto trainer =
        make_trainer<Ours>({.max_epochs = 1, .deterministic = true}, strategy, Float32{}, Automatic{}, NoDefaults{});
    trainer.fit(model, train, NoValidation{});
    return model;
  };
  auto const first = fit(SingleDevice{cuda});
  CHECK(same(first, fit(SingleDevice{cuda})));
  CHECK(same(first, fit(Captured{SingleDevice{cuda}})));
}
TEST_CASE("on a GPU a deterministic fit needs no variable of the environment") {
  if (absent()) SKIP(none);
  CHECK(fixtures::status_alone("[.deterministic]", [] { ::unsetenv("CUBLAS_WORKSPACE_CONFIG"); }) == 0);
}

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
TEST_CASE("on a GPU no step waits for it: not with clipping, windows, schedules, averages or a watch for nan") {
  if (absent()) SKIP(none);
  auto const waits = [](int n, auto strategy, auto precision, Automatic how, int every, auto... callbacks) {
    auto const train = on_gpu(batches(n, 8));
    auto model = fresh<Ours>();
    auto trainer = make_trainer<Ours>({.max_epochs = 1, .log_every_n_steps = every}, strategy, precision, how,
                                      callbacks..., NoDefaults{});
    Waits const counted;
    trainer.fit(model, train, NoValidation{});
    return counted.count;
  };
  Automatic const all{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}};
  auto const more = [&](auto... what) { return waits(72, what...) - waits(24, what...); };
  CHECK(more(SingleDevice{cuda}, Float32{}, Automatic{}, 0) == 0);
  CHECK(more(SingleDevice{cuda}, Float32{}, all, 1000, EMAWeightAveraging()) == 0);
  CHECK(more(SingleDevice{automatic}, Bf16Mixed{}, Automatic{.clip = ClipValue{0.1}}, 0) == 0);
  CHECK(more(SingleDevice{cuda}, Float32{}, Automatic{}, 8) == 48 / 8);           // a row of the log
  CHECK(more(SingleDevice{cuda}, Fp16Mixed{}, Automatic{}, 0) == 48);             // the scaler
  CHECK(more(SingleDevice{cuda}, Fp16Mixed{.init_scale = 1}, all, 0) == 48 / 2);  // once a window
}
#endif
