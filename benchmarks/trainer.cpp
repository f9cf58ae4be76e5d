// Through fulgurite's trainer with LibTorch's own optimizers and LibTorch's loader: what the loop itself costs (P3).

#include <fulgurite/torch/data/torch_loader.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

#include "fitted.hpp"
#include "torch_digits.hpp"

namespace bench {

namespace {

using Strategy = decltype(fulgurite::SingleDevice{fulgurite::cpu});

struct LibTorchs {
  static auto sgd(std::vector<torch::Tensor> parameters) {
    return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(sgd_rate).momentum(sgd_momentum));
  }
  static auto adam(std::vector<torch::Tensor> parameters) {
    return torch::optim::Adam(std::move(parameters), torch::optim::AdamOptions(adam_rate));
  }
};

}  // namespace

Loops trainer_loops(fulgurite::Matmul products) {
  using namespace fulgurite;
  auto const loader = [](long) {
    data::TorchLoader made{torch_digits(), data::ReadAhead{}};  // it stacks samples
    return std::make_unique<decltype(made)>(std::move(made));
  };
  return fitted_loops<LibTorchs, Strategy>([=] { return SingleDevice{cpu, products}; }, loader);
}

}  // namespace bench
