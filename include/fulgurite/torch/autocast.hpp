#pragma once
// The scope of a step's precision: autocast for the mixed ones, the default type for the "true" ones. LibTorch has no
// such guard.

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include <fulgurite/torch/dtype.hpp>

// Seven functions of <ATen/autocast_mode.h>, which itself would bring in the operator library.
namespace at::autocast {
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API void set_autocast_enabled(at::DeviceType device_type, bool enabled);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API void set_autocast_dtype(at::DeviceType device_type, at::ScalarType dtype);
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
}  // namespace at::autocast

namespace fulgurite::libtorch {

/// Operators run in `type` where LibTorch deems that safe, on this thread, until the scope ends. Scopes nest; the
/// outermost forgets the casts of parameters that were kept for reuse.
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

/// Tensors that a step creates without naming a type have the precision's. LibTorch keeps the default type per process,
/// so a thread that creates tensors meanwhile (a loader's) must name its types.
class DefaultTypeScope {
 public:
  explicit DefaultTypeScope(at::ScalarType type) : before_(c10::get_default_dtype_as_scalartype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~DefaultTypeScope() { c10::set_default_dtype(c10::scalarTypeToTypeMeta(before_)); }
  DefaultTypeScope(DefaultTypeScope const&) = delete;
  DefaultTypeScope& operator=(DefaultTypeScope const&) = delete;

 private:
  at::ScalarType before_;
};

struct NoScope {};

template <class Precision>
auto autocast(Precision const&, at::Device device) {
  if constexpr (Precision::autocasts) return AutocastScope(device.type(), scalar_type(Precision::compute));
  else if constexpr (converts_inputs<Precision>) return DefaultTypeScope(scalar_type(Precision::parameters));
  else return NoScope{};
}

}  // namespace fulgurite::libtorch
