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

/// Everything about a batch that decides which graph it needs: copying into tensors of other sizes or types would broadcast and convert
/// without a word.
template <class B>
void layout_of(B const& batch, std::vector<std::int64_t>& row) {
  row.clear();
  capture::each_leaf(
      batch,
      [&](at::Tensor const& tensor) {
        row.push_back(tensor.defined());
        if (!tensor.defined()) return;
        row.push_back(static_cast<std::int64_t>(tensor.key_set().raw_repr()));
        row.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
        row.push_back(tensor.requires_grad());
        row.push_back(tensor.dim());
        if (tensor.layout() != at::kStrided) return;
        row.insert(row.end(), tensor.sizes().begin(), tensor.sizes().end());
        row.insert(row.end(), tensor.strides().begin(), tensor.strides().end());
      },
      [&](std::int64_t n) { row.push_back(n); });
}

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
