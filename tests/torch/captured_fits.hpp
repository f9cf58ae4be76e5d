#pragma once
// What the units about captured steps share: nets that count what really ran, a fit under Captured against the same fit
// without.

#include "fixtures.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace captured_fits {

using namespace fulgurite;
namespace F = torch::nn::functional;

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
  void state(auto& archive) { archive("rate", rate)("momenta", momenta); }
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
    return compared(scores, target, ctx);
  }
  torch::Tensor compared(torch::Tensor const& scores, torch::Tensor const& target, auto& ctx) {
    auto value = F::cross_entropy(scores, target);
    ctx.log(loss, value);
    ctx.log(accuracy, scores.argmax(1).eq(target).to(torch::kFloat).mean());
    ctx.log(twice, value);
    ctx.log(twice, scores.abs().max());
    return value;
  }
};

inline std::vector<data::Batch> batches(int n, int size, int last = 0) {
  auto generator = at::detail::createCPUGenerator(11);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) {
    int const rows = i == n - 1 && last != 0 ? last : size;
    all.push_back({torch::randn({rows, 6}, generator), torch::randint(0, 3, {rows}, generator, torch::kLong)});
  }
  return all;
}

/// What the optimizers keep, when training ends.
struct Momenta {
  using Stateless = ByChoice;
  std::vector<torch::Tensor>* to;
  void on_train_end(auto& ctx) {
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (auto const& momentum : optimizer.momenta) to->push_back(momentum.clone());
    });
  }
};

struct Result {
  std::vector<torch::Tensor> tensors;  ///< parameters, buffers, momenta
  std::vector<float> losses;
  std::vector<std::optional<double>> values;
  torch::Tensor generator;
  int ran;
};

auto fit(auto strategy, auto& model, std::vector<data::Batch> data, Automatic how, int epochs, auto... callbacks) {
  for (auto& batch : data) batch.data = batch.data.clone();  // a step may write into it
  torch::manual_seed(5);
  std::vector<torch::Tensor> momenta;
  auto trainer =
      make_trainer<std::remove_cvref_t<decltype(model)>>({.max_epochs = epochs, .log_every_n_steps = 1}, strategy,
                                                         Float32{}, how, callbacks..., Momenta{&momenta}, NoDefaults{});
  trainer.fit(model, data);
  Result result{model.parameters(),
                model.losses,
                {trainer.value(Common::loss), trainer.value(Common::accuracy), trainer.value(Common::twice)},
                at::detail::getDefaultCPUGenerator().get_state(),
                model.ran};
  for (auto const& buffer : model.buffers()) result.tensors.push_back(buffer);
  for (auto const& momentum : momenta) result.tensors.push_back(momentum);
  return result;
}

template <class M>
std::unique_ptr<M> fresh() {
  torch::manual_seed(3);
  return std::make_unique<M>();
}

inline void same(Result const& a, Result const& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i != a.tensors.size(); ++i) CHECK(fixtures::same_bits(a.tensors[i], b.tensors[i]));
  CHECK(a.losses == b.losses);
  for (std::size_t i = 0; i != a.values.size(); ++i) CHECK(bool(a.values[i] == b.values[i]));
  CHECK(fixtures::same_bits(a.generator, b.generator));
}

/// Both fits, with the same bits; returns what the captured one reports, and how many steps of it really ran.
template <class M>
std::pair<CaptureReport, int> twice(std::vector<data::Batch> const& data, Automatic how = {}, int epochs = 8,
                                    auto... callbacks) {
  auto written = fresh<M>(), captured = fresh<M>();
  auto const plain = fit(SingleDevice{cpu}, *written, data, how, epochs, callbacks...);
  Captured strategy{SingleDevice{cpu}};
  auto const report = strategy.report();
  auto const replayed = fit(strategy, *captured, data, how, epochs, callbacks...);
  same(replayed, plain);
  CHECK(written->ran == int(data.size()) * epochs);
  // Outputs that a hook has kept are its own: no replay writes into them.
  for (std::size_t i = 0; i != captured->kept.size(); ++i)
    CHECK(captured->kept[i].template item<float>() == captured->losses[i]);
  CHECK(captured->ran + report->replayed == long(data.size()) * epochs + report->confirmed);
  return {*report, captured->ran};
}

inline torch::Tensor plain_loss(torch::nn::Sequential& body, auto const& batch) {
  return F::cross_entropy(body->forward(batch.data), batch.target);
}

struct Given;
/// What a test gives to a net: a step that returns its loss or the scores of its rows, what a hook does before each
/// batch, and the layers.
struct Does {
  torch::Tensor (*step)(Given&, data::Batch const&) = nullptr;
  void (*before)(Given&, long batch) = nullptr;
  torch::nn::Sequential (*layers)() = [] {
    return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3));
  };
};

/// One net for all of them, so that their fits are of one type.
struct Given : Common {
  static inline Does does = {};
  static inline long stops_at = -1;  ///< after so many steps it asks for a stop
  torch::nn::Sequential body = register_module("body", does.layers());
  torch::Tensor weights = torch::tensor({1.0F, 2.0F, 0.5F});
  torch::Tensor counter = register_buffer("counter", torch::zeros({1}));
  torch::Tensor lengths = register_buffer("lengths", torch::full({8}, 3, torch::kLong));
  torch::Tensor memory = {};
  double factor = 1.0;
  long now = 0;
  /// What a fit that goes back puts back.
  void state(auto& archive) {
    archive("now", now)("factor", factor)("losses", losses)("ran", ran);
    kept.resize(losses.size());
  }
  void on_train_batch_start(auto&, auto&) {
    if (does.before != nullptr) does.before(*this, now);
    ++now;
  }
  void on_train_batch_end(auto& outputs, auto& batch, auto& ctx) {
    Common::on_train_batch_end(outputs, batch, ctx);
    if (ctx.global_step() == stops_at) ctx.request_stop();
  }
  torch::Tensor training_step(data::Batch const& batch, auto& ctx) {
    ++ran;
    auto value = does.step(*this, batch);
    if (value.dim() == 2) return compared(value, batch.target, ctx);
    ctx.log(loss, value);
    return value;
  }
};
inline torch::Tensor usual_step(Given& net, data::Batch const& batch) { return plain_loss(net.body, batch); }
inline torch::Tensor usual_scores(Given& net, data::Batch const& batch) { return net.body->forward(batch.data); }

inline std::pair<CaptureReport, int> twice(Does does, std::vector<data::Batch> const& data, Automatic how = {},
                                           int epochs = 8) {
  Given::does = does;
  return twice<Given>(data, how, epochs);
}
inline std::unique_ptr<Given> fresh(Does does) {
  Given::does = does;
  return fresh<Given>();
}

/// The steps stay eager, the bits are right, and the reason names what it is.
inline void stays_eager(Does does, std::string const& word) {
  auto const [report, ran] = twice(does, batches(7, 8), {}, 4);
  CHECK(report.replayed == 0);
  CHECK(ran == 28);
  REQUIRE_FALSE(report.reasons.empty());
  INFO(report.reasons.front());
  CHECK(report.reasons.front().find(word) != std::string::npos);
  CHECK(report.reasons.size() == 1);
}

}  // namespace captured_fits
