#pragma once
// What leaves a step: the tensors that training_step returns, and those that it logs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/metric/cell.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/leaves.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::capture {

/// Where a logged tensor goes, and what it weighs there.
struct Logged {
  std::size_t metric;
  double weight;
  Origin origin;
  friend bool operator==(Logged const&, Logged const&) = default;
};

struct Left {
  std::vector<at::Tensor> tensors = {};  ///< of the result, then those logged
  std::vector<bool> of_model = {};       ///< of each: its memory is the model's, and so it is given away as it is
  std::vector<Logged> logged = {};
  std::string refusal = {};  ///< why a replay could not give these; empty: it can
};

/// What leaves a step that has just run. The result and the logged tensors are cut off from autograd: nobody needs its
/// graph any more, and whoever held it would hold memory of the step.
template <class Result, class Board>
Left cut_off(Result& result, Board& board, World const& world) {
  Left left;
  auto const refuse = [&](std::string reason) {
    if (left.refusal.empty()) left.refusal = std::move(reason);
  };
  auto const take = [&](at::Tensor& tensor) {
    left.tensors.push_back(detached(tensor));
    tensor = detached(tensor);
    bool const plain = is_plain(tensor, world.device());
    left.of_model.push_back(plain && world.number(storage_of(tensor)).has_value());
    if (!plain) refuse("the step returns or logs a tensor that is not a dense real one of " + name_of(world.device()));
  };
  each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (tensor.defined()) take(tensor);
      },
      [](std::int64_t) {});
  std::vector<typename Board::Entry> entries;
  board.each_pending([&](auto const& entry) { entries.push_back(entry); });
  board.discard_step();
  for (auto& entry : entries) {
    if (entry.value.defined()) {
      take(entry.value);
      left.logged.push_back({entry.metric, entry.weight, entry.origin});
    } else {
      refuse("a tensor without value is logged");
    }
    board.post(entry);
  }
  return left;
}

/// Gives a replay's results away: the result, and the logged tensors to the board. `copy(number)`: what is given in
/// place of that tensor, which the next replay overwrites.
template <class Result, class Board, class Copy>
Result give_away(Left const& left, Result result, Board& board, Copy&& copy) {
  std::size_t next = 0;
  each_leaf(
      result,
      [&](at::Tensor& tensor) {
        if (!tensor.defined()) return;
        tensor = left.of_model[next] ? detached(left.tensors[next]) : copy(next);
        ++next;
      },
      [](std::int64_t) {});
  for (auto const& logged : left.logged) board.post({logged.metric, copy(next++), logged.weight, logged.origin});
  return result;
}

}  // namespace fulgurite::libtorch::capture
