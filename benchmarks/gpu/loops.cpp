// Microseconds a step on one GPU: the loop by hand, the trainer as it is written, with our optimizer, with captured
// steps, and with these and kernels::fastest. compare.py runs it beside PyTorch and JAX.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

#include "nets.hpp"

namespace {

using namespace fulgurite;
using bench::Batch;
using bench::Workload;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 2;
constexpr double rate = 1e-3;

/// When the GPU is done.
Clock::time_point now() {
  torch::cuda::synchronize();
  return Clock::now();
}

/// A loop's least time, and the first losses of its last round.
struct Measured {
  double least = std::numeric_limits<double>::infinity();
  std::vector<torch::Tensor> losses = {};
  std::string note = {};

  void take(Workload const& of, Clock::time_point from, Clock::time_point to) {
    auto const steps = static_cast<double>(of.steps);
    least = std::min(least, std::chrono::duration<double, std::micro>(to - from).count() / steps);
  }
};

/// Eight batches that are on the GPU already, over and over.
std::vector<Batch> batches_of(Workload const& of) {
  torch::manual_seed(2);
  std::vector<Batch> some, all;
  for (int i = 0; i != 8; ++i) some.push_back(of.batch());
  for (long i = 0; i != of.warm_up + of.steps; ++i) all.push_back(some[static_cast<std::size_t>(i) % some.size()]);
  return all;
}

enum class Set { theirs, ours };

template <Set Of>
struct Model : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_epoch = true};
  using Metrics = MetricList<loss>;
  std::shared_ptr<bench::Net> net;

  explicit Model(Workload const& workload) : net(register_module("net", workload.net())) {}
  torch::Tensor training_step(Batch const& batch, auto& ctx) {
    auto value = net->loss(batch);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    if constexpr (Of == Set::theirs) return torch::optim::Adam(parameters(), torch::optim::AdamOptions(rate));
    else return optim::Adam(*this, {.lr = rate});
  }
};

/// Of one fit. Where steps are joined the first and the last of those that are timed may run a few steps later.
struct Times {
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  Workload const* of;
  Measured* into;
  long done = 0;  ///< steps
  Clock::time_point began = {};

  void on_train_batch_end() {
    if (++done == of->warm_up) began = now();
    if (done == of->warm_up + of->steps) into->take(*of, began, now());
  }
};
struct FirstLosses {
  using Stateless = ByChoice;
  Workload const* of;
  std::vector<torch::Tensor>* losses;

  void on_train_batch_end(auto& outputs, auto&, auto&) {
    if (std::ssize(*losses) < of->warm_up) losses->push_back(outputs.loss);
  }
};

template <Set Of>
void fit(Measured& into, Workload const& of, std::vector<Batch>& batches, auto strategy, auto precision, auto... more) {
  torch::manual_seed(1);
  Model<Of> model(of);
  auto trainer = make_trainer<Model<Of>>(TrainerOptions{.max_epochs = 1}, strategy, precision, Automatic{},
                                         Times{&of, &into}, more..., NoDefaults{});
  trainer.fit(model, batches, NoValidation{});
  if constexpr (requires { strategy.report(); }) {
    for (auto const& reason : strategy.report()->reasons) into.note = "; eager: " + reason;
    if (!strategy.report()->single.empty()) into.note += "; one by one: " + strategy.report()->single;
  }
}

/// The same steps without a trainer.
void by_hand(Measured& into, Workload const& of, std::vector<Batch>& batches) {
  torch::manual_seed(1);
  auto const net = of.net();
  net->to(torch::kCUDA);
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(rate));
  Clock::time_point from;
  for (long i = 0; i != of.warm_up + of.steps; ++i) {
    auto const& batch = batches[static_cast<std::size_t>(i)];
    if (i == of.warm_up) from = now();
    adam.zero_grad();
    torch::Tensor loss;
    if (of.bf16) {
      at::autocast::set_autocast_enabled(at::kCUDA, true);
      at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
      at::autocast::increment_nesting();
      loss = net->loss(batch);
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCUDA, false);
    } else {
      loss = net->loss(batch);
    }
    loss.backward();
    adam.step();
    if (i < of.warm_up) into.losses.push_back(loss.detach());
  }
  into.take(of, from, now());
}

void measure(Workload const& of, auto precision) {
  // Replays are short, and their checks become rare in the course of a fit.
  auto longer = of;
  longer.warm_up *= of.more;
  longer.steps *= of.more;
  auto batches = batches_of(of), many = batches_of(longer);
  std::array const names{"by hand", "trainer", "fast", "captured", "captured fastest", "captured, 8 a replay"};
  std::array<Measured, names.size()> all;
  for (std::size_t turn = 0; turn != rounds * names.size(); ++turn) {
    auto const loop = (turn + turn / names.size()) % names.size();  // each round begins with another one
    auto& into = all[loop];
    into.losses.clear();
    FirstLosses const few{&of, &into.losses}, more{&longer, &into.losses};
    switch (loop) {
    case 0: by_hand(into, of, batches); break;
    case 1: fit<Set::theirs>(into, of, batches, SingleDevice{cuda}, precision, few); break;
    case 2: fit<Set::ours>(into, of, batches, SingleDevice{cuda}, precision, few); break;
    case 3: fit<Set::ours>(into, longer, many, Captured{SingleDevice{cuda}}, precision, more); break;
    case 4:
      at::globalContext().setFloat32MatmulPrecision("high");  // TF32, as JAX multiplies by default
      fit<Set::ours>(into, longer, many, Captured{SingleDevice{cuda}, kernels::fastest}, precision, more);
      at::globalContext().setFloat32MatmulPrecision("highest");
      break;
    default: fit<Set::ours>(into, longer, many, Captured{SingleDevice{cuda}, {.steps_a_replay = 8}}, precision);
    }
  }
  for (std::size_t i = 0; i != all.size(); ++i) {
    auto const& losses = all[i].losses;
    double apart = 0;
    for (std::size_t j = 0; j != std::min(losses.size(), all[0].losses.size()); ++j)
      apart = std::max(apart, std::abs(losses[j].item<double>() - all[0].losses[j].item<double>()));
    auto const said = losses.empty()
                          ? "losses are not compared"
                          : "first " + std::to_string(all[0].losses.size()) + " losses " +
                                (apart == 0 ? "are" : "up to " + std::to_string(apart) + " from") + " those by hand";
    std::printf("%s\t%s\t%.2f\t%s%s\n", of.name.c_str(), names[i], all[i].least, said.c_str(), all[i].note.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

/// The words are names of workloads; without them all are measured.
int main(int count, char** words) {
  if (!torch::cuda::is_available()) {
    std::puts("nothing was measured: LibTorch sees no GPU");
    return 77;
  }
  for (auto const& workload : bench::workloads()) {
    if (count > 1 && std::find(words + 1, words + count, workload.name) == words + count) continue;
    if (workload.bf16) measure(workload, Bf16Mixed{});
    else measure(workload, Float32{});
  }
}
