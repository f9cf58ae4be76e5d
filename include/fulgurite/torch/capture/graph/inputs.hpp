#pragma once
// The batch that a graph reads: tensors that stay where they are, and are filled before each replay.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/leaves.hpp>

namespace fulgurite::libtorch::graph {

/// Takes batches of one layout only: copying into tensors of other sizes or types would broadcast and convert without a
/// word.
class Inputs {
 public:
  Inputs() = default;
  /// Puts tensors of its own into `batch`, which is a copy of the handles of a real one.
  template <class Batch>
  explicit Inputs(Batch& batch) {
    capture::each_leaf(
        batch,
        [&](at::Tensor& tensor) {
          if (tensor.defined()) tensor = fixed_.emplace_back(at::empty_like(tensor));
        },
        [](std::int64_t) {});
    for (auto const& tensor : fixed_) versions_.push_back(tensor._version());
  }

  /// `batch`: the tensors of a batch of the same layout as the one that this was made from; undefined ones are passed
  /// over. The host does not wait for the copies.
  FULGURITE_BULK void feed(std::vector<at::Tensor> const& batch) {
    at::NoGradGuard const no_graph;
    std::size_t next = 0;
    for (auto const& tensor : batch)
      if (tensor.defined()) capture::detached(fixed_[next++]).copy_(tensor, true);
  }

  /// Whether the step has written into its batch.
  bool written() const {
    for (std::size_t i = 0; i != fixed_.size(); ++i)
      if (fixed_[i]._version() != versions_[i]) return true;
    return false;
  }

 private:
  std::vector<at::Tensor> fixed_;
  std::vector<std::int64_t> versions_;
};

}  // namespace fulgurite::libtorch::graph
