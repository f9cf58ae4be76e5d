#pragma once
// The bodies of torch/optim/optimizer_state.hpp.

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

}  // namespace fulgurite::libtorch
