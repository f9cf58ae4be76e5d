#pragma once
// Memory for batches: two tensors that take turns. They are allocated once, and never overwritten while somebody still
// needs the batch in them.

#include <array>
#include <cstdint>
#include <vector>

#include <torch/types.h>

namespace fulgurite::data {

/// The modes in which a batch is loaded: no graph, and no inference mode either, since a buffer that is first filled
/// while validating in inference mode could never be trained on.
struct LoadingMode {
  c10::InferenceMode off{false};
  torch::NoGradGuard no_grad;
};

/// `next` gives uninitialised memory for a batch: that of two calls ago, unless a handle, a view or a graph of that
/// batch is still alive (as a loss that was kept, or a prediction that is a view of its input). Then that memory is
/// left to whoever holds it, and new memory is allocated. A copy begins with memory of its own: the loader that it
/// belongs to may be read by another thread.
class Buffers {
 public:
  Buffers() = default;
  Buffers(Buffers const&) {}
  Buffers(Buffers&&) = default;
  Buffers& operator=(Buffers const&) {
    buffers_ = {};
    return *this;
  }
  Buffers& operator=(Buffers&&) = default;
  ~Buffers() = default;

  /// A tensor of `rows` samples of these `sizes`, of at most `capacity` rows. A further call with the same arguments
  /// allocates nothing but a handle; one with another capacity gives the old memory back.
  torch::Tensor next(std::int64_t rows, std::int64_t capacity, torch::IntArrayRef sizes,
                     torch::TensorOptions const& options) {
    LoadingMode const mode;
    turn_ ^= 1U;
    torch::Tensor& buffer = buffers_[turn_];
    // A copy to a GPU may still be reading pinned memory. LibTorch's allocator, which keeps that memory, knows when it
    // is free again.
    if (!buffer.defined() || buffer.size(0) != capacity || buffer.storage().use_count() > 1 ||
        options.pinned_memory()) {
      std::vector<std::int64_t> shape{capacity};
      shape.insert(shape.end(), sizes.begin(), sizes.end());
      buffer.reset();  // before the new one, since both may not fit
      buffer = torch::empty(shape, options);
    }
    return buffer.narrow(0, 0, rows)
        .detach();  // for autograd it is no view, so a batch may be written to and need a gradient
  }

 private:
  std::array<torch::Tensor, 2> buffers_;
  unsigned turn_ = 0;
};

}  // namespace fulgurite::data
