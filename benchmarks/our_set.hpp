#pragma once
// Fulgurite's optimizers over flat buffers, and its loader that gathers a batch at once.

#include <memory>
#include <utility>
#include <vector>

#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

#include "nets.hpp"

namespace bench {

struct Ours {
  static auto sgd(std::vector<torch::Tensor> const& parameters) {
    return fulgurite::optim::SGD(parameters, {.lr = sgd_rate, .momentum = sgd_momentum});
  }
  static auto adam(std::vector<torch::Tensor> const& parameters) {
    return fulgurite::optim::Adam(parameters, {.lr = adam_rate});
  }
};

inline auto our_digits(long) {
  using namespace fulgurite;
  return std::make_unique<data::TensorLoader<>>(
      digits().images, digits().labels,
      data::TensorLoaderOptions{.batch_size = loader_batch, .shuffle = true, .seed = shuffle_seed, .drop_last = true});
}

}  // namespace bench
