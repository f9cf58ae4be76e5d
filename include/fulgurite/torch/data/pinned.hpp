#pragma once
// Batches in page-locked memory, from where copies to a GPU overlap with the step.

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::data {

/// Error [fulgurite.data.pin_memory] where there is no GPU to copy to.
FULGURITE_COLD void refuse_pinning_without_gpu() {
  if (!at::hasCUDA())
    throw Error("fulgurite.data.pin_memory",
                ".pin_memory is on, and there is no GPU to copy to: say .pin_memory = torch::cuda::is_available()");
}

/// Every tensor of a batch that lies on the CPU is replaced by its copy in page-locked memory. A part with a
/// `pin_memory()` of its own is asked for it; one that cannot be looked into stays as it is.
template <class T>
void pin_in_place(T& object) {
  using namespace libtorch;
  if constexpr (std::is_const_v<T> || !holds_tensors<T>) {
  } else if constexpr (TensorLike<T>) {
    if (object.defined() && object.is_cpu() && !object.is_pinned()) object = object.pin_memory();
  } else if constexpr (requires {
                         { object.pin_memory() } -> std::convertible_to<T>;
                       }) {
    object = object.pin_memory();
  } else {
    each_part(object, [&](auto& part) { pin_in_place(part); });
  }
}

/// For a data::Loader with `.pin_memory` and a function of your own that makes its batches: `Pinnable{your_function}`.
/// `Stack` needs none.
template <class Collate>
class Pinnable {
 public:
  explicit Pinnable(Collate collate) : collate_(std::move(collate)) {}
  /// Makes the batch, as the function does.
  template <class... Args>
    requires std::invocable<Collate const&, Args...>
  decltype(auto) operator()(Args&&... args) const {
    return std::invoke(collate_, std::forward<Args>(args)...);
  }
  void can_pin() const { refuse_pinning_without_gpu(); }
  template <class Batch>
  void pin(Batch& batch) const {
    pin_in_place(batch);
  }

 private:
  Collate collate_;
};

}  // namespace fulgurite::data
