#pragma once
// Tensors as they were when an operator was called, and arguments of operators that hold tensors.

#include <cstdint>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::capture {

using c10::IValue;
using Storage = c10::StorageImpl*;

inline Storage storage_of(at::Tensor const& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

/// Whether this is a dense real tensor of the device: the only kind that a recording knows.
FULGURITE_BULK bool is_plain(at::Tensor const& tensor, at::Device device = at::kCPU) {
  return tensor.layout() == at::kStrided && tensor.device() == device && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.is_quantized() && !tensor.is_nested() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor() && !tensor.is_complex();
}

/// A device as warnings name it.
inline std::string name_of(at::Device device) { return device.is_cpu() ? "the CPU" : device.str(); }

/// A handle on the same memory, without a graph.
inline at::Tensor detached(at::Tensor const& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}

/// The same, but it still says whether it needs a gradient, since kernels may ask.
FULGURITE_BULK at::Tensor frozen(at::Tensor const& tensor) {
  auto copy = detached(tensor);
  if (tensor.requires_grad()) copy.unsafeGetTensorImpl()->set_requires_grad(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

/// f(tensor) for each defined tensor of an argument or a result.
template <class F>
void each_tensor_in(IValue const& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isList()) {
    for (IValue const& element : value.toListRef()) each_tensor_in(element, f);
  }
}
template <class Values, class F>
void each_tensor_of(Values const& values, F&& f) {
  for (IValue const& value : values) each_tensor_in(value, f);
}

/// The argument, with change(tensor) in place of every tensor in it. Lists are copied.
template <class F>
IValue with_tensors(IValue const& value, F&& change) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(change(value.toTensor())) : value;
  if (!value.isList()) return value;
  bool any = false;
  each_tensor_in(value, [&](at::Tensor const&) { any = true; });
  if (!any) return value;
  auto list = value.toList().copy();
  for (std::size_t i = 0; i != list.size(); ++i) list.set(i, with_tensors(list.get(i), change));
  return list;
}

/// Whether the two are equal in everything but their values and their memory.
FULGURITE_BULK bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

/// The bytes of its storage that a tensor reaches, from its first element to behind its last.
struct Span {
  std::int64_t begin, end;
  friend bool operator==(Span const&, Span const&) = default;
};
FULGURITE_BULK Span span_of(at::Tensor const& tensor) {
  auto const item = static_cast<std::int64_t>(tensor.itemsize());
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset() * item, tensor.numel() == 0 ? tensor.storage_offset() * item : (last + 1) * item};
}

}  // namespace fulgurite::libtorch::capture
