#pragma once
// Moves the parameters and buffers of a module to a device and to a floating type. Module::to would convert buffers of
// whole numbers as well.

#include <concepts>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch {

/// The tensors are changed in place and keep their identity, which optimizers and users hold on to. A tensor that is as
/// it should be is not touched.
FULGURITE_BULK void relocate(at::Tensor& tensor, at::Device device, std::optional<at::ScalarType> type) {
  if (!tensor.defined()) return;
  auto const wanted = type && tensor.is_floating_point() ? *type : tensor.scalar_type();
  if (tensor.device() == device && tensor.scalar_type() == wanted) return;
  auto options = tensor.options().device(device).dtype(wanted).requires_grad(false);
  auto const gradient = tensor.grad();
  if (gradient.defined()) tensor.mutable_grad().reset();  // LibTorch would compare the new data with it
  tensor.set_data(tensor.detach().to(options));
  if (gradient.defined()) tensor.mutable_grad() = gradient.to(options);
}

/// A model that is no torch::nn::Module has nothing that could be moved for it.
template <class Model>
void relocate(Model& model, at::Device device, std::optional<at::ScalarType> type) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    at::NoGradGuard const no_graph;
    for (auto& parameter : model.parameters()) relocate(parameter, device, type);
    for (auto& buffer : model.buffers()) relocate(buffer, device, type);
  }
}

}  // namespace fulgurite::libtorch
