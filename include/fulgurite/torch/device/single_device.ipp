#pragma once
// The bodies of torch/device/single_device.hpp.

#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void relocate(at::Tensor& tensor, at::Device device, std::optional<at::ScalarType> type) {
  if (!tensor.defined()) return;
  auto const wanted = type && tensor.is_floating_point() ? *type : tensor.scalar_type();
  if (tensor.device() == device && tensor.scalar_type() == wanted) return;
  auto options = tensor.options().device(device).dtype(wanted).requires_grad(false);
  auto const gradient = tensor.grad();
  if (gradient.defined()) tensor.mutable_grad().reset();  // LibTorch would compare the new data with it
  tensor.set_data(tensor.detach().to(options));
  if (gradient.defined()) tensor.mutable_grad() = gradient.to(options);
}

}  // namespace fulgurite::libtorch
