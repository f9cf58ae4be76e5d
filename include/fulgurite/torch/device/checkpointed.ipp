#pragma once
// The bodies of torch/device/checkpointed.hpp.

#include <fulgurite/torch/device/checkpointed.hpp>

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

FULGURITE_BULK_BODY BuffersKept::~BuffersKept() {
  at::NoGradGuard const no_graph;
  for (auto& [buffer, copy] : kept_) buffer.copy_(copy);
}

FULGURITE_BULK_BODY void BuffersKept::keep(std::vector<at::Tensor> buffers) {
  at::NoGradGuard const no_graph;
  for (auto& buffer : buffers)
    if (buffer.defined()) kept_.emplace_back(buffer, buffer.clone());
}

}  // namespace fulgurite::libtorch
