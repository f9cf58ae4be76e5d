#pragma once
// The bodies of torch/data/walk.hpp.

#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY at::Tensor to_device(at::Tensor const& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  bool const overlaps = !device.is_cpu() && tensor.device().is_cpu() && tensor.is_pinned();
  return tensor.to(tensor.options().device(device), overlaps);
}

}  // namespace fulgurite::libtorch
