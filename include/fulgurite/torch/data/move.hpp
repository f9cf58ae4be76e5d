#pragma once
// Moves a batch to a device and converts its floating tensors, for every container that the walk knows.

#include <concepts>
#include <type_traits>
#include <utility>

#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/dtype.hpp>

namespace fulgurite::libtorch {

/// A copy from pinned memory overlaps with other work; pageable memory may be used again at once in any case.
inline at::Tensor to_device(at::Tensor const& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  bool const overlaps = !device.is_cpu() && tensor.device().is_cpu() && tensor.is_pinned();
  return tensor.to(tensor.options().device(device), overlaps);
}

/// Replaces every tensor of the object by its copy on the device.
template <class T>
void move_in_place(T& object, at::Device device) {
  static_assert(!std::is_const_v<T> || !holds_tensors<T>,
                "a const member or key of this batch holds a tensor, which cannot be replaced");
  if constexpr (std::is_const_v<T>) {
  } else if constexpr (MovesItself<T>) {
    object = object.to(device);
  } else if constexpr (!holds_tensors<T>) {
  } else if constexpr (TensorLike<T>) {
    object = to_device(object, device);
  } else if constexpr (PackedSequenceLike<T>) {
    object = object.to(device);
  } else {
    each_part(object, [&](auto& part) { move_in_place(part, device); });
  }
}

/// Replaces every floating tensor of the object by one of the given type.
template <class T>
void convert_in_place(T& object, at::ScalarType type) {
  if constexpr (!holds_tensors<T> || std::is_const_v<T>) {
  } else if constexpr (TensorLike<T>) {
    if (object.defined() && object.is_floating_point() && object.scalar_type() != type) object = object.to(type);
  } else if constexpr (PackedSequenceLike<T>) {
    if (object.data().is_floating_point() && object.data().scalar_type() != type) object = object.to(type);
  } else {
    each_part(object, [&](auto& part) { convert_in_place(part, type); });
  }
}

/// The batch to be changed and returned: a value whose handles are copied, so that the loader's batch stays as it is. A
/// batch that cannot be copied is changed in place.
template <class B>
using Changed = std::conditional_t<std::is_constructible_v<std::remove_cvref_t<B>, B>, std::remove_cvref_t<B>, B>;

/// The batch on the device. If its type can hold no tensor, it is returned as the reference that was given.
template <class B>
auto moved(B&& batch, at::Device device) -> std::conditional_t<holds_tensors<B>, Changed<B>, B> {
  if constexpr (!holds_tensors<B>) return std::forward<B>(batch);
  else {
    Changed<B> result(std::forward<B>(batch));
    move_in_place(result, device);
    return result;
  }
}

/// The batch with its floating tensors in the type of the precision. For Float32 and the mixed precisions it is the
/// batch itself, untouched.
template <class B, class Precision>
auto convert_input(B&& batch, Precision const&)
    -> std::conditional_t<converts_inputs<Precision> && holds_tensors<B>, Changed<B>, B> {
  if constexpr (converts_inputs<Precision> && holds_tensors<B>) {
    Changed<B> result(std::forward<B>(batch));
    convert_in_place(result, scalar_type(Precision::parameters));
    return result;
  } else {
    return std::forward<B>(batch);
  }
}

/// The weight of this batch in a mean over batches: `batch.batch_size()`, or `batch_size(batch)` as found in its
/// namespace, else the leading extent of the first tensor (1 for a scalar, the number of sequences for a
/// PackedSequence); 0 if there is no tensor.
template <class B>
long batch_extent(B const& batch) {
  if constexpr (requires {
                  { batch.batch_size() } -> std::convertible_to<long>;
                })
    return static_cast<long>(batch.batch_size());
  else if constexpr (requires {
                       { batch_size(batch) } -> std::convertible_to<long>;
                     })
    return static_cast<long>(batch_size(batch));
  else if constexpr (!holds_tensors<B>) return 0;
  else if constexpr (TensorLike<B>)
    return !batch.defined() ? 0 : batch.dim() == 0 ? 1 : static_cast<long>(batch.size(0));
  else if constexpr (PackedSequenceLike<B>) {
    auto const& sizes = batch.batch_sizes();  // on the CPU by definition
    return sizes.defined() && sizes.numel() != 0
               ? static_cast<long>(*static_cast<std::int64_t const*>(sizes.const_data_ptr()))
               : 0;
  } else {
    long found = 0;
    each_part(batch, [&](auto const& part) {
      if (found == 0) found = batch_extent(part);
    });
    return found;
  }
}

}  // namespace fulgurite::libtorch
