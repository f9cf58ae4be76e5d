#pragma once
// Tensors of LibTorch in a saved state: `archive.tensor("average", tensor)`.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/weights/flat_copies.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

namespace libtorch {

inline void keep(std::span<SavedTensor* const> handles);

/// Keeps a handle of the tensor: its bytes are fetched from its device when they are read.
FULGURITE_BULK SavedTensor saved(at::Tensor const& value) {
  return {element_name(value.scalar_type(), "a tensor of the saved state"), value.sizes().vec(),
          [value](auto const& take) {
            at::NoGradGuard const no_graph;
            auto const host = value.detach().cpu().contiguous();
            take({static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()});
          },
          value, &keep};
}

/// Puts handles of copies in the place of handles; the copies lie on the same devices.
inline void keep(std::span<SavedTensor* const> handles) {
  std::vector<at::Tensor> values;
  for (auto const* one : handles) values.push_back(*one->tensor<at::Tensor>());
  auto const copies = clones(values);
  for (std::size_t i = 0; i != handles.size(); ++i) *handles[i] = saved(copies[i]);
}

/// Whether the saved bytes are a tensor of this type and shape.
inline bool fits(at::Tensor const& to, SavedTensor const& from) {
  return from.dtype() == element_name(to.scalar_type(), "a tensor of the saved state") &&
         from.shape() == to.sizes().vec();
}

/// Copies what was saved into a tensor that it fits.
FULGURITE_BULK void restore(at::Tensor const& to, SavedTensor const& from) {
  at::NoGradGuard const no_graph;
  if (auto const* const there = from.tensor<at::Tensor>()) {
    to.copy_(*there);
    return;
  }
  auto const host = at::empty(to.sizes(), at::TensorOptions(to.scalar_type()));
  from.read([&](SavedTensor::Bytes bytes) {
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(host.mutable_data_ptr()));
  });
  to.copy_(host);
}
/// The same for many, neighbours in one operation where they were saved as neighbours.
inline void restore(std::span<at::Tensor const> to, std::span<SavedTensor const> from) {
  std::vector<at::Tensor> kept;
  for (auto const& one : from)
    if (auto const* const there = one.tensor<at::Tensor>()) kept.push_back(*there);
  if (kept.size() == from.size()) return copy_into(to, kept);
  for (std::size_t i = 0; i != from.size(); ++i) restore(to[i], from[i]);
}

}  // namespace libtorch

/// Loading into a defined tensor writes into its memory, and needs a saved one of the same type and shape. An undefined
/// tensor becomes what was saved: of a snapshot on its device, of a file on the CPU.
template <>
struct TensorState<at::Tensor> {
  static SavedTensor save(at::Tensor const& tensor) {
    return tensor.defined() ? libtorch::saved(tensor) : SavedTensor{};
  }

  FULGURITE_BULK static void load(at::Tensor& to, SavedTensor const& from, std::string const& name) {
    if (!from) {
      to = at::Tensor();
      return;
    }
    if (auto const* const there = from.tensor<at::Tensor>(); there != nullptr && !to.defined()) {
      to = at::empty(there->sizes(), there->options().requires_grad(false));
    } else if (!to.defined()) {
      for (auto const& known : libtorch::element_names)
        if (from.dtype() == known.name) to = at::empty(from.shape(), at::TensorOptions(known.type));
    }
    if (!libtorch::fits(to, from))
      throw Error("fulgurite.checkpoint.state_entry",
                  "'" + name + "' is a tensor " + from.description() + ", here of type " +
                      std::string(libtorch::element_name(to.scalar_type(), name)) + " and shape " +
                      libtorch::shape_text(to.sizes()) + ": load it into what it was saved from");
    libtorch::restore(to, from);
  }
};

}  // namespace fulgurite
