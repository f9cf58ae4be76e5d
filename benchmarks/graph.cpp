// P13: steps as CUDA graphs against the same trainer without them, and both beside the loop by hand, on nets of MNIST's
// size. Built where LibTorch has CUDA.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

namespace {

namespace nn = torch::nn;
using namespace fulgurite;
using Batch = torch::data::Example<>;

constexpr long warm_up = 200, steps = 2000;
constexpr int rounds = 3;
constexpr double bar = 4;

struct Mlp : nn::Module {
  nn::Linear one = register_module("one", nn::Linear(784, 128)), two = register_module("two", nn::Linear(128, 128)),
             three = register_module("three", nn::Linear(128, 10));
  torch::Tensor scores(torch::Tensor const& x) { return three(torch::relu(two(torch::relu(one(x.flatten(1)))))); }
};
struct Cnn : nn::Module {
  nn::Conv2d one = register_module("one", nn::Conv2d(1, 16, 3)), two = register_module("two", nn::Conv2d(16, 32, 3));
  nn::Linear three = register_module("three", nn::Linear(32 * 5 * 5, 64)),
             four = register_module("four", nn::Linear(64, 10));
  torch::Tensor scores(torch::Tensor const& images) {
    auto x = torch::max_pool2d(torch::relu(one(images)), 2);
    x = torch::max_pool2d(torch::relu(two(x)), 2);
    return four(torch::relu(three(x.flatten(1))));
  }
};

struct Sgd {
  static auto make(nn::Module const& net) { return optim::SGD(net, {.lr = 1e-2, .momentum = 0.9}); }
};
struct Adam {
  static auto make(nn::Module const& net) { return optim::Adam(net, {.lr = 1e-3}); }
};

template <class Net, class Optimizer>
struct Trained : Net {
  static constexpr Metric<"loss"> loss{.on_epoch = true};
  using Metrics = MetricList<loss>;
  std::vector<torch::Tensor> losses = {};
  long done = 0;  ///< steps
  std::chrono::steady_clock::time_point began = {}, ended = {};
  torch::Tensor training_step(Batch const& batch, auto& ctx) {
    auto value = torch::nn::functional::cross_entropy(this->scores(batch.data), batch.target);
    ctx.log(loss, value);
    return value;
  }
  void on_train_batch_end(auto& outputs, auto&, auto&) {
    if (losses.size() < warm_up) losses.push_back(outputs.loss);
    if (++done == warm_up) began = now();
    if (done == warm_up + steps) ended = now();
  }
  /// When the GPU is done.
  static std::chrono::steady_clock::time_point now() {
    torch::cuda::synchronize();
    return std::chrono::steady_clock::now();
  }
  double microseconds() const { return std::chrono::duration<double, std::micro>(ended - began).count() / steps; }
  auto configure_optimizers() { return Optimizer::make(*this); }
};

/// Batches that are on the GPU already, over and over.
std::vector<Batch> repeated(std::vector<Batch> const& batches) {
  std::vector<Batch> all;
  for (std::size_t i = 0; i != warm_up + steps; ++i) all.push_back(batches[i % batches.size()]);
  return all;
}

struct Measured {
  double least = std::numeric_limits<double>::infinity();
  std::vector<torch::Tensor> losses = {};
  std::string note = {};
};

template <class Model>
void once(Measured& into, std::vector<Batch>& batches, auto strategy) {
  torch::manual_seed(1);
  Model model;
  auto trainer = make_trainer<Model>(TrainerOptions{.max_epochs = 1}, strategy, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, batches);
  into.least = std::min(into.least, model.microseconds());
  into.losses = model.losses;
  if constexpr (requires { strategy.report(); })
    for (auto const& reason : strategy.report()->reasons) into.note = ", eager: " + reason;
}

/// The same steps without a trainer.
template <class Model>
void by_hand(Measured& into, std::vector<Batch>& batches) {
  torch::manual_seed(1);
  Model model;
  model.to(torch::kCUDA);
  auto optimizer = model.configure_optimizers();
  std::chrono::steady_clock::time_point from;
  for (std::size_t i = 0; i != batches.size(); ++i) {
    if (i == warm_up) from = model.now();
    optimizer.zero_grad();
    auto const loss = torch::nn::functional::cross_entropy(model.scores(batches[i].data), batches[i].target);
    loss.backward();
    optimizer.step();
  }
  double const taken = std::chrono::duration<double, std::micro>(model.now() - from).count() / steps;
  into.least = std::min(into.least, taken);
}

template <class Net, class Optimizer>
bool met(char const* name, std::int64_t rows) {
  using Model = Trained<Net, Optimizer>;
  torch::manual_seed(2);
  std::vector<Batch> batches;
  for (int i = 0; i != 32; ++i)
    batches.push_back({torch::randn({rows, 1, 28, 28}).cuda(), torch::randint(10, {rows}, torch::kLong).cuda()});
  batches = repeated(batches);
  Measured hand, written, graphs;
  for (int round = 0; round != rounds; ++round) {
    by_hand<Model>(hand, batches);
    once<Model>(written, batches, SingleDevice{cuda});
    once<Model>(graphs, batches, Captured<SingleDevice<Cuda>>{SingleDevice{cuda}});
  }
  double apart = 0;
  for (std::size_t i = 0; i != written.losses.size(); ++i)
    apart = std::max(apart, std::abs(written.losses[i].item<double>() - graphs.losses[i].item<double>()));
  double const ratio = written.least / graphs.least;
  std::printf("P13 %-16s by hand %6.1f us, trainer %6.1f us -> %6.1f us: %.2f >= %.0f %s, first %ld losses %s%s\n",
              name, hand.least, written.least, graphs.least, ratio, bar, ratio >= bar ? "met" : "missed", warm_up,
              apart == 0 ? "equal" : ("up to " + std::to_string(apart) + " apart").c_str(), graphs.note.c_str());
  return ratio >= bar;
}

}  // namespace

int main() {
  if (!torch::cuda::is_available()) {
    std::puts("P13 was not measured: LibTorch sees no GPU");
    return 0;
  }
  bool good = met<Mlp, Sgd>("mnist-mlp-sgd", 64);
  good = met<Mlp, Adam>("mnist-mlp-adam", 64) && good;
  good = met<Cnn, Adam>("mnist-cnn-adam", 16) && good;
  return good ? 0 : 1;
}
