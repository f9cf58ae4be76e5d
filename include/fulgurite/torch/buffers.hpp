#pragma once
// Two tensors that take turns: memory for batches, allocated once, and never overwritten while somebody still needs it.

#include <array>
#include <cstdint>
#include <vector>

#include <torch/types.h>

namespace fulgurite::data {

/// Loading runs with these: no graph, and no inference tensors either, since a buffer first filled while validating under
/// c10::InferenceMode could never be trained on.
struct LoadingMode {
  c10::InferenceMode off{false};
  torch::NoGradGuard no_grad;
};

/// `next` gives uninitialised memory for a batch. It is that of two calls ago, unless a handle, a view or a graph of that batch is still
/// alive (a loss that was kept, a prediction that is a view of its input): then that memory is left to it, and new one is allocated.
class Buffers {
 public:
  /// `sizes` per sample; `rows` of them, of at most `capacity`. Two steps with the same arguments allocate one tensor handle each.
  torch::Tensor next(std::int64_t rows, std::int64_t capacity, torch::IntArrayRef sizes, torch::TensorOptions const& options) {
    LoadingMode const mode;
    turn_ ^= 1U;
    torch::Tensor& buffer = buffers_[turn_];
    // A copy to the GPU may still read pinned memory: LibTorch's allocator, which keeps it, knows when it is free again.
    if (!buffer.defined() || buffer.storage().use_count() > 1 || options.pinned_memory()) {
      std::vector<std::int64_t> shape{capacity};
      shape.insert(shape.end(), sizes.begin(), sizes.end());
      buffer = torch::empty(shape, options);
    }
    return buffer.narrow(0, 0, rows).detach();  // no view to autograd: a batch may be written to, and need a gradient
  }

 private:
  std::array<torch::Tensor, 2> buffers_;
  unsigned turn_ = 0;
};

}  // namespace fulgurite::data
