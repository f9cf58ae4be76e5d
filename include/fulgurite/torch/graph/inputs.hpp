#pragma once
// The batch that a graph reads: tensors that stay where they are, filled anew before each replay.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/leaves.hpp>

namespace fulgurite::libtorch::graph {

/// Copying into tensors of other sizes or types would broadcast and convert without a word: batches of one layout alone.
class Inputs {
 public:
  Inputs() = default;
  /// Replaces the tensors of `batch`, a copy of the handles of a real one.
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

  /// `batch` has the layout of the one that this was made from. The host does not wait for the copies.
  template <class Batch>
  void feed(Batch const& batch) {
    at::NoGradGuard const no_graph;
    std::size_t next = 0;
    capture::each_leaf(
        batch,
        [&](at::Tensor const& tensor) {
          if (tensor.defined()) capture::detached(fixed_[next++]).copy_(tensor, true);
        },
        [](std::int64_t) {});
  }

  /// The step itself writes into its batch.
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
