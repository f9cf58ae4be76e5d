// refused: [fulgurite.optim.options] an optimizer takes a module or its parameters, then a learning rate, or options of its own by their names: optim::SGD(*this, 0.1), or optim::SGD(*this, {.lr = 0.1, .momentum = 0.9})
// g++: [with fulgurite_optim_options_are = fulgurite::optim::AdamOptions]
// needs: LibTorch
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <fulgurite/torch/optim/first_order.hpp>

using namespace fulgurite;

struct Net : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::zeros(1));
};

int main() {
  Net net;
#ifdef LEGAL
  optim::Adam optimizer(net, {.lr = 1e-3});
#else
  optim::Adam optimizer(net, {.learning_rate = 1e-3});
#endif
  optimizer.zero_grad();
}
