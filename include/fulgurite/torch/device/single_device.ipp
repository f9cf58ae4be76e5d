#pragma once
// The bodies of torch/device/single_device.hpp.

#include <ATen/core/grad_mode.h>

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

FULGURITE_BODY void relocate(torch::nn::Module const* model, at::Device device, std::optional<at::ScalarType> type) {
  if (model == nullptr) return;
  at::NoGradGuard const no_graph;
  for (auto& parameter : model->parameters()) relocate(parameter, device, type);
  for (auto& buffer : model->buffers()) relocate(buffer, device, type);
}

FULGURITE_BODY void require_device(at::Device device) {
  if (device.is_cuda()) {
    auto const wanted = "SingleDevice{cuda}: GPU " + std::to_string(int(device.index()));
    if (!torch::cuda::is_available())
      throw Error("fulgurite.strategy.cuda_absent",
                  wanted +
                      " was asked for, but LibTorch sees no CUDA device: install a driver and a LibTorch "
                      "built with CUDA, link the program with torch_cuda and c10_cuda, as tools/dev flags does, or "
                      "use SingleDevice{cpu} or SingleDevice{automatic}");
    if (device.index() < 0 || device.index() >= torch::cuda::device_count())
      throw Error("fulgurite.strategy.cuda_index",
                  wanted + " was asked for, but there are " + std::to_string(int(torch::cuda::device_count())) +
                      ", counted from 0: choose one of them, or see CUDA_VISIBLE_DEVICES");
  }
}

}  // namespace fulgurite::libtorch
