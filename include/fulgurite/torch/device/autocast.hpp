#pragma once
// The scope in which a step runs in its precision: autocast for the mixed precisions, on this thread alone. LibTorch
// itself has no such guard. Float64, Bf16True and Fp16True need none: the parameters and the batches are converted, and
// a tensor that a step makes from nothing has the type that the step names.

#include <ATen/core/Tensor.h>

#include <fulgurite/torch/device/dtype.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch {

/// Until the scope ends, operators of this thread run in `type` where LibTorch deems that safe. Scopes nest. LibTorch
/// keeps the parameters that it has cast, for reuse; the outermost scope makes it forget them.
class AutocastScope {
 public:
  AutocastScope(at::DeviceType device, at::ScalarType type)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        type_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, type_);
  }
  AutocastScope(AutocastScope const&) = delete;
  AutocastScope& operator=(AutocastScope const&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_;
  at::ScalarType type_;
};

struct NoScope {};

template <class Precision>
auto autocast(Precision const&, at::Device device) {
  if constexpr (Precision::autocasts) return AutocastScope(device.type(), scalar_type(Precision::compute));
  else return NoScope{};
}

}  // namespace fulgurite::libtorch
