#pragma once
// modules::Linear: torch::nn::Linear as PyTorch computes it in Python.

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::modules {

/// The module that `modules::Linear` holds.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  explicit LinearImpl(torch::nn::LinearImpl const& other) : torch::nn::LinearImpl(other) {}

  at::Tensor forward(at::Tensor const& input);

  /// LibTorch's own would make a torch::nn::Linear, since that is the class that it was written for.
  std::shared_ptr<torch::nn::Module> clone(std::optional<at::Device> const& device = std::nullopt) const override;
};

/// A torch::nn::Linear that calls at::linear, as torch.nn.Linear does in Python. LibTorch's own class multiplies and
/// then adds the bias wherever the input is not a matrix: another pass over the whole result, forward and backward,
/// which a transformer pays for in each of its layers. at::linear makes one matrix of a contiguous input of any
/// dimensions, and adds the bias inside the product.
///
/// Options, initial weights to the bit, names of parameters, checkpoints and `as<torch::nn::Linear>()` are those of
/// torch::nn::Linear, so one may take the place of the other:
///
///     modules::Linear head = register_module("head", modules::Linear(128, 10));
///
/// Results for matrices have the same bits; those for more dimensions may differ in the last ones.
TORCH_MODULE(Linear);

}  // namespace fulgurite::modules

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/linear.ipp>
#endif
