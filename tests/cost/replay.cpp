// What a captured step of a small net pays for being watched. replay.py counts the functions `counted`, each of which
// makes one fit.

#include <memory>
#include <utility>
#include <vector>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

namespace {

using Batch = std::pair<torch::Tensor, torch::Tensor>;

struct Net : torch::nn::Module {
  torch::nn::Sequential layers = register_module(
      "layers", torch::nn::Sequential(torch::nn::Linear(20, 32), torch::nn::ReLU(), torch::nn::Linear(32, 2)));
  torch::Tensor training_step(Batch const& batch) {
    return torch::nn::functional::cross_entropy(layers->forward(batch.first), batch.second);
  }
  auto configure_optimizers() { return fulgurite::optim::Adam(*this, {.lr = 1e-3}); }
};

/// The number stands for the case; see replay.py.
template <int number>
[[gnu::noinline]] void counted(std::vector<Batch> const& batches, int epochs, fulgurite::NonFinite non_finite) {
  asm volatile("" : : "i"(number));  // else g++ makes one function of all of them
  using namespace fulgurite;
  torch::manual_seed(1);
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = epochs, .non_finite = non_finite},
                                   Captured{SingleDevice{cpu}}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(net, batches);
}

/// What is asked before each replay, asked a thousand times.
template <int number>
[[gnu::noinline]] long counted(fulgurite::libtorch::capture::World const& world) {
  asm volatile("" : : "i"(number));
  long same = 0;
  for (int i = 0; i != 1000; ++i) same += world.unchanged();
  return same;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  std::vector<Batch> batches;
  for (int i = 0; i != 1600; ++i) {
    if (i < 16) batches.emplace_back(torch::randn({32, 20}), torch::randint(0, 2, {32}));
    else batches.push_back(batches[static_cast<std::size_t>(i % 16)]);
  }
  std::vector<Batch> const half(batches.begin(), batches.begin() + 800);
  using enum fulgurite::NonFinite;
  counted<99>(half, 1, stop);  // what only the first fit does
  counted<0>(half, 1, stop);
  counted<1>(batches, 1, stop);
  counted<2>(batches, 1, ignore);
  counted<3>(half, 2, stop);

  Net net;
  net.training_step(half.front()).backward();
  fulgurite::libtorch::capture::World const world(net);
  return counted<4>(world) == 1000 ? 0 : 1;
}
