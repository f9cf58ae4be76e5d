// What each recipe of docs/building.md builds: a line through the origin is learnt, and its slope printed.
#include <cstdio>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <fulgurite/trainer.hpp>

struct Line : torch::nn::Module {
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
  torch::Tensor training_step(torch::Tensor const& x) { return (line(x) - 2 * x).square().mean(); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.5); }
};

int main() {
  using namespace fulgurite;
  Line model;
  std::vector<torch::Tensor> batches(8, torch::linspace(-1, 1, 8).unsqueeze(1));
  auto trainer =
      make_trainer<Line>(TrainerOptions{.max_epochs = 25}, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(model, batches);
  std::printf("slope %.2f\n", model.line->weight.item<double>());
}
