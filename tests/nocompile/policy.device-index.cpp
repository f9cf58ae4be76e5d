// refused: [fulgurite.policy.device] SingleDevice takes cpu, cuda, cuda(1), Accelerator{"xpu"} or automatic, which are types that rules can see; a device that is named at run time is SingleDevice{NamedDevice{"cuda:1"}}
// needs: LibTorch
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/device/single_device.hpp>

using namespace fulgurite;

struct Net : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::zeros(1));
  torch::Tensor training_step(torch::Tensor const& batch) { return (batch * weight).sum(); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

int main() {
  Net net;
#ifdef LEGAL
  SingleDevice device{cuda(0)};
#else
  SingleDevice device{cuda, 0};
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, device, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(net, std::vector<torch::Tensor>{torch::ones(1)});
}
