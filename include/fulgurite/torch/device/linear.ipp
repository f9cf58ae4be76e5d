#pragma once
// The bodies of torch/device/linear.hpp.

#include <ATen/ops/linear.h>

#include <fulgurite/torch/device/linear.hpp>

namespace fulgurite::modules {

FULGURITE_BULK_BODY at::Tensor LinearImpl::forward(at::Tensor const& input) { return at::linear(input, weight, bias); }

FULGURITE_BODY std::shared_ptr<torch::nn::Module> LinearImpl::clone(std::optional<at::Device> const& device) const {
  auto const copy = torch::nn::LinearImpl::clone(device);
  return std::make_shared<LinearImpl>(static_cast<torch::nn::LinearImpl const&>(*copy));
}

}  // namespace fulgurite::modules
