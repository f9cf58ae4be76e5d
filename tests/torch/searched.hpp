#pragma once
// What the units about searches share: a model whose steps depend on everything before them, all bits of a run, and
// how many kinds of searches leave a trace in them.

#include "fixtures.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace searched {

using namespace fulgurite;
namespace F = torch::nn::functional;
namespace fs = std::filesystem;

/// Ours are AdamW, but where they are named; LibTorch's Adam, SGD with momentum, and those that are named.
enum class Optimizer {
  ours,
  our_groups,
  our_adam,
  our_sgd,
  our_rmsprop,
  our_adagrad,
  torch,
  groups,
  momentum,
  adamw,
  rmsprop,
  adagrad,
  lbfgs,
  torch_lbfgs
};

/// Batch norm, dropout and a schedule: buffers, random numbers and rates move in each step.
template <Optimizer Which>
struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(6, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
  double lr = 0.02;
  std::function<void()> act = nullptr;

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    if (act && ctx.rehearsing()) act();
    auto hidden = drop->forward(torch::relu(norm->forward(in->forward(batch.data))));
    auto value = F::cross_entropy(out->forward(hidden), batch.target);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    ScheduleOptions const each_step{.interval = Interval::step};
    auto const cosine = schedule::Cosine{.total = 30};
    if constexpr (Which == Optimizer::lbfgs)
      return scheduled(optim::LBFGS(*this, {.lr = lr, .max_iter = 3}), cosine, each_step);
    else if constexpr (Which == Optimizer::torch_lbfgs)
      return scheduled(torch::optim::LBFGS(parameters(), torch::optim::LBFGSOptions(lr).max_iter(3)), cosine,
                       each_step);
    else if constexpr (Which == Optimizer::ours) return scheduled(optim::AdamW(*this, {.lr = lr}), cosine, each_step);
    else if constexpr (Which == Optimizer::our_groups)
      return scheduled(optim::AdamW({{in->parameters(), {.lr = lr}}, {out->parameters(), {.lr = lr * 0.1}}}), cosine,
                       each_step);
    else if constexpr (Which == Optimizer::our_adam)
      return scheduled(optim::Adam(*this, {.lr = lr, .amsgrad = true}), cosine, each_step);
    else if constexpr (Which == Optimizer::our_sgd)
      return scheduled(optim::SGD(*this, {.lr = lr, .momentum = 0.9}), cosine, each_step);
    else if constexpr (Which == Optimizer::our_rmsprop)
      return scheduled(optim::RMSprop(*this, {.lr = lr, .momentum = 0.5, .centered = true}), cosine, each_step);
    else if constexpr (Which == Optimizer::our_adagrad)
      return scheduled(optim::Adagrad(*this, {.lr = lr, .lr_decay = 0.1}), cosine, each_step);
    else if constexpr (Which == Optimizer::adamw)
      return scheduled(torch::optim::AdamW(parameters(), torch::optim::AdamWOptions(lr).amsgrad(true)), cosine,
                       each_step);
    else if constexpr (Which == Optimizer::rmsprop)
      return scheduled(
          torch::optim::RMSprop(parameters(), torch::optim::RMSpropOptions(lr).momentum(0.5).centered(true)), cosine,
          each_step);
    else if constexpr (Which == Optimizer::adagrad)
      return scheduled(torch::optim::Adagrad(parameters(), torch::optim::AdagradOptions(lr).lr_decay(0.1)), cosine,
                       each_step);
    else if constexpr (Which == Optimizer::momentum)
      return scheduled(torch::optim::SGD(parameters(), torch::optim::SGDOptions(lr).momentum(0.9)), cosine, each_step);
    else if constexpr (Which == Optimizer::torch)
      return scheduled(torch::optim::Adam(parameters(), torch::optim::AdamOptions(lr)), cosine, each_step);
    else {
      std::vector<torch::optim::OptimizerParamGroup> groups;
      groups.emplace_back(in->parameters(), std::make_unique<torch::optim::AdamOptions>(lr));
      groups.emplace_back(out->parameters(), std::make_unique<torch::optim::AdamOptions>(lr * 0.1));
      return scheduled(torch::optim::Adam(std::move(groups), torch::optim::AdamOptions(lr)), cosine, each_step);
    }
  }
};

auto const inputs = torch::linspace(-2, 2, 33 * 6).reshape({33, 6}).sin();
auto const targets = torch::arange(33) % 3;
inline auto shuffled() { return data::TensorLoader{inputs, targets, {.batch_size = 5, .shuffle = true, .seed = 3}}; }
struct Rows {
  std::size_t size() const { return 33; }
  torch::data::Example<> get(std::size_t i) const {
    auto const at = static_cast<std::int64_t>(i);
    return {inputs[at], targets[at]};
  }
};
inline auto with_workers() {
  return data::Loader{Rows{}, {.batch_size = 5, .shuffle = true, .seed = 3, .workers = 2}, data::Stack{}};
}

inline TrainerOptions options(int epochs) { return {.max_epochs = epochs, .log_every_n_steps = 1}; }

/// All bits of a trainer and its model: weights, gradients, buffers, moments, counters, results, random numbers.
template <class Trainer, class Model>
std::string bits(Trainer& trainer, Model& net) {
  auto const path = fs::temp_directory_path() / ("fulgurite_tuner_" + std::to_string(::getpid()) + ".safetensors");
  trainer.save_checkpoint(path);
  std::string text;
  {
    SafetensorsFile const file(path);
    auto const state = run_state(file);
    for (auto const* part : {"progress", "optimizers", "schedulers", "callbacks", "random", "results"})
      text += to_text(*state.find(part));
  }
  fs::remove(path);
  auto const add = [&text](torch::Tensor const& one) {
    if (!one.defined()) return void(text += "none");
    auto const host = one.detach().cpu().contiguous();
    text.append(static_cast<char const*>(host.const_data_ptr()), host.nbytes());
  };
  for (auto const& parameter : net.parameters()) add(parameter), add(parameter.grad());
  for (auto const& buffer : net.buffers()) add(buffer);
  add(torch::rand({4}));
  return text;
}

/// Asks for steps to be tried out when the fit starts and before these epochs.
struct Tries {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  static constexpr Order order = Order::tuner;
  bool at_start = false;
  std::vector<int> epochs = {};
  RehearsalPlan plan = {};
  void on_fit_start(auto& ctx) {
    if (at_start) ask(ctx);
  }
  void on_train_epoch_start(auto& ctx) {
    if (std::find(epochs.begin(), epochs.end(), ctx.current_epoch()) != epochs.end()) ask(ctx);
  }
  void ask(auto& ctx) {
    ctx.request_search([this](auto& rehearser) { rehearser.rehearse(plan); });
  }
};

enum class What { nothing, rate, size };
/// Searches when the fit starts and before these epochs, and goes on with what it had. Leaves a file after a step.
struct Searches {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  static constexpr Order order = Order::tuner;
  What what = What::nothing;
  std::vector<int> epochs = {};
  long file_after = 0;
  std::filesystem::path file = {};
  int points = 0;

  void on_fit_start(auto& ctx) { ask(ctx); }
  void on_train_epoch_start(auto& ctx) {
    if (std::find(epochs.begin(), epochs.end(), ctx.current_epoch()) != epochs.end()) ask(ctx);
  }
  void on_train_batch_end(auto& ctx) {
    if (file_after != 0 && ctx.global_step() == file_after) ctx.request_checkpoint(file);
  }
  void ask(auto& ctx) {
    if (what == What::nothing) return;
    ctx.request_search([this]<class R>(Rehearser<R>& rehearser) {
      using Model = typename R::Model;
      if (what == What::rate) {
        tune::RateSearch<Model> const search{.min_lr = 1e-4, .num_training = 4, .update = nullptr};
        points += static_cast<int>(tune::find_rate(rehearser, search).lr.size());
      } else {
        tune::BatchSizeSearch<Model> const search{.init_val = 3, .max_trials = 3, .steps_per_trial = 2, .show = false};
        tune::SizeTrials<R, Model, NoModule> trials(rehearser, search);
        long const before = trials.size();
        points += static_cast<int>(trials.run().trials.size());
        trials.put(before);
      }
    });
  }
};

/// Windows of several batches; LBFGS takes each as it comes.
template <Optimizer Which>
Automatic windows() {
  if constexpr (Which == Optimizer::lbfgs || Which == Optimizer::torch_lbfgs) return {};
  else return {.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}};
}

template <Optimizer Which, class Strategy, class P>
auto trainer_of(Strategy strategy, P precision, int epochs, Tries tries = {}) {
  return make_trainer<Net<Which>>(options(epochs), std::move(strategy), precision, windows<Which>(),
                                  EMAWeightAveraging(), std::move(tries), NoDefaults{});
}

/// Two fits, with `between` before each of them.
template <Optimizer Which, class Make, class P, class Loader, class Between>
std::string run(Make make, P precision, Loader loader, Tries tries, Between&& between) {
  torch::manual_seed(7);
  Net<Which> net;
  auto trainer = trainer_of<Which>(make(), precision, 2, std::move(tries));
  between(trainer, net, loader);
  trainer.fit(net, loader);
  trainer.set_options(options(3));
  between(trainer, net, loader);
  trainer.fit(net, loader);
  return bits(trainer, net);
}

/// How many of these searches leave a trace.
template <Optimizer Which, class Make, class P, class Loader>
int traces(Make make, P precision, Loader const& loader) {
  auto const nothing = [](auto&...) {};
  auto const never = run<Which>(make, precision, loader(), {}, nothing);
  int found = 0, steps = 0;
  std::vector<double> set;
  RehearsalPlan const plan{.steps = 12,
                           .before_step =
                               [&](RehearsedStep& step) {
                                 auto rates = step.rates().initial();
                                 for (double& rate : rates) rate *= static_cast<double>(step.number());
                                 step.rates().set(rates);
                                 set = rates;
                                 ++steps;
                               },
                           // What the optimizer has stepped with is what was set, to the bit.
                           .after_step = [&](RehearsedStep& step) { REQUIRE(step.rates().now() == set); }};
  found += run<Which>(make, precision, loader(), {true, {1, 2}, plan}, nothing) != never;
  int const windows_of_epoch = windows<Which>().accumulate_grad_batches == 3 ? 3 : 7;
  REQUIRE(steps == std::min(12, 2 * windows_of_epoch) + 3 * windows_of_epoch);  // as many as max_epochs leaves
  found += run<Which>(make, precision, loader(), {}, [](auto& trainer, auto& net, auto& data) {
             auto const results = tune::lr_find(
                 trainer, net, data, {.min_lr = 1e-4, .num_training = 4, .skip_begin = 0, .update = nullptr});
             REQUIRE(results.lr.size() >= 3);
           }) != never;
  found += run<Which>(make, precision, loader(), {}, [](auto& trainer, auto& net, auto& data) {
             auto const size = data.batch_size();
             auto const results = tune::scale_batch_size(
                 trainer, net, data, {.init_val = 3, .max_trials = 3, .steps_per_trial = 2, .show = false});
             REQUIRE(results.trials.size() == 3);
             data.set_batch_size(size);
           }) != never;
  return found;
}
auto const eager = [] { return SingleDevice{cpu}; };
auto const captured = [] { return Captured{SingleDevice{cpu}}; };

}  // namespace searched
