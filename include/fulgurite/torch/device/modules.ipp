#pragma once
// The bodies of torch/device/modules.hpp.

#include <ATen/ops/linear.h>

#include <fulgurite/torch/device/modules.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY AutocastAsNow::AutocastAsNow(at::DeviceType device) : device_(device) {
  if (at::autocast::is_autocast_enabled(device)) type_ = at::autocast::get_autocast_dtype(device);
}

FULGURITE_BULK_BODY AutocastAsNow::Scope::Scope(AutocastAsNow const& then) : device_(then.device_) {
  if (then.type_) {
    on_.emplace(device_, *then.type_);
  } else if (at::autocast::is_autocast_enabled(device_)) {
    at::autocast::set_autocast_enabled(device_, false);
    switched_off_ = true;
  }
}

FULGURITE_BULK_BODY AutocastAsNow::Scope::~Scope() {
  if (switched_off_) at::autocast::set_autocast_enabled(device_, true);
}

FULGURITE_BODY std::vector<at::Tensor> with_undefined(std::vector<bool> const& defined, at::TensorList given) {
  std::vector<at::Tensor> all(defined.size());
  auto next = given.begin();
  for (std::size_t i = 0; i != all.size(); ++i)
    if (defined[i]) all[i] = *next++;
  return all;
}

}  // namespace fulgurite::libtorch

namespace fulgurite::modules {

FULGURITE_BULK_BODY at::Tensor LinearImpl::forward(at::Tensor const& input) { return at::linear(input, weight, bias); }

FULGURITE_BODY std::shared_ptr<torch::nn::Module> LinearImpl::clone(std::optional<at::Device> const& device) const {
  auto const copy = torch::nn::LinearImpl::clone(device);
  return std::make_shared<LinearImpl>(static_cast<torch::nn::LinearImpl const&>(*copy));
}

}  // namespace fulgurite::modules
