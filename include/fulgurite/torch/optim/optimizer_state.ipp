#pragma once
// The bodies of torch/optim/optimizer_state.hpp.

#if defined(FULGURITE_COMPILED)
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#endif

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/optimizer_state.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY SavedTensor archived(at::Tensor const& value) {
  if (value.defined() && value.layout() != at::kStrided)
    throw Error("fulgurite.optimizer.state", "an optimizer keeps a sparse tensor, as SGD with momentum does of sparse "
                                             "gradients, which no file can hold: use dense gradients or no momentum");
  return TensorState<at::Tensor>::save(value);
}

FULGURITE_BULK_BODY std::optional<std::vector<SavedTensor>>
archived(std::optional<std::vector<at::Tensor>> const& values) {
  if (!values) return std::nullopt;
  return archived(*values);
}

FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, Adagrad);
FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, Adam);
FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, AdamW);
FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, LBFGS);
FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, RMSprop);
FULGURITE_OPTIMIZER_STATE(FULGURITE_INSTANTIATE, SGD);

}  // namespace fulgurite::libtorch
