#pragma once
// What leaves a step: the tensors of its result, and those it logged.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <fulgurite/metric/cell.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/leaves.hpp>

namespace fulgurite::libtorch::graph {

struct Left {
  struct Logged {
    std::size_t metric;
    double weight;
    Origin origin;
    friend bool operator==(Logged const&, Logged const&) = default;
  };
  std::vector<at::Tensor> tensors = {};  ///< of the result, then those logged
  std::vector<Logged> logged = {};
};

/// Cuts it off from autograd: nobody needs that any more, and what holds it would hold memory of the step.
template <class Result, class Board>
Left leaving(Result& result, Board& board) {
  Left left;
  capture::each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (tensor.defined()) left.tensors.push_back(tensor = capture::detached(tensor));
      },
      [](std::int64_t) {});
  std::vector<typename Board::Entry> entries;
  board.each_pending([&](auto const& entry) { entries.push_back(entry); });
  board.discard_step();
  for (auto& entry : entries) {
    if (entry.value.defined()) entry.value = capture::detached(entry.value);
    board.post(entry);
    left.tensors.push_back(entry.value);
    left.logged.push_back({entry.metric, entry.weight, entry.origin});
  }
  return left;
}

/// The result with copies in it, which the next replay does not overwrite; copies are logged, too. What leaves twice, as a loss that is also
/// logged, is copied once.
template <class Result, class Board>
Result copied(Left const& left, Result result, Board& board) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> copies;
  for (auto const& tensor : left.tensors) {
    auto const same = [&](at::Tensor const& other) { return other.const_data_ptr() == tensor.const_data_ptr() && capture::same_layout(other, tensor); };
    auto const first = static_cast<std::size_t>(std::find_if(left.tensors.begin(), left.tensors.end(), same) - left.tensors.begin());
    copies.push_back(first < copies.size() ? copies[first] : tensor.clone());
  }
  std::size_t next = 0;
  capture::each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (tensor.defined()) tensor = copies[next++];
      },
      [](std::int64_t) {});
  for (auto const& logged : left.logged) board.post({logged.metric, copies[next++], logged.weight, logged.origin});
  return result;
}

}  // namespace fulgurite::libtorch::graph
