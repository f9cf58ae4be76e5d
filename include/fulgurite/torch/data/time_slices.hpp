#pragma once
// Cutting batches along time, and detaching what is carried from one slice to the next: truncated back-propagation on
// LibTorch.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::libtorch {

namespace slicing {

/// A list of sequences: each is cut along its first dimension.
template <class T>
concept Sequences = walk::Container<T> && TensorLike<typename T::value_type>;

[[noreturn]] inline void refuse(std::string const& why) {
  throw Error("fulgurite.data.time",
              why + ": give the model `tbptt_split_batch(batch, k, ctx)`, which cuts it as you mean");
}

/// How many time steps a batch has: dimension 1 of its tensors, dimension 0 of the sequences in a list. All must agree.
/// -1: there is nothing to cut.
template <class T>
void measure(T const& part, std::int64_t& steps) {
  auto const agree = [&](std::int64_t found) {
    if (steps >= 0 && steps != found)
      throw Error("fulgurite.data.time", "a batch has parts of " + std::to_string(steps) + " and of " +
                                             std::to_string(found) +
                                             " time steps: all must have as many, pad or sort them");
    steps = found;
  };
  if constexpr (TensorLike<T>) {
    if (!part.defined()) return;
    if (part.dim() < 2) refuse("a tensor of " + std::to_string(part.dim()) + " dimensions has no time in dimension 1");
    agree(part.size(1));
  } else if constexpr (PackedSequenceLike<T>) {
    refuse("a PackedSequence cannot be cut along time");
  } else if constexpr (Sequences<T>) {
    for (auto const& sequence : part) {
      if (sequence.dim() == 0) refuse("a sequence without a dimension has no time");
      agree(sequence.size(0));
    }
  } else if constexpr (holds_tensors<T>) {
    each_part(part, [&](auto const& inner) { measure(inner, steps); });
  }
}

template <class T>
void cut(T& part, std::int64_t from, std::int64_t count) {
  if constexpr (TensorLike<T>) {
    if (part.defined()) part = part.narrow(1, from, count);
  } else if constexpr (Sequences<T>) {
    for (auto& sequence : part) sequence = sequence.narrow(0, from, count);
  } else if constexpr (holds_tensors<T> && !PackedSequenceLike<T>) {
    each_part(part, [&](auto& inner) { cut(inner, from, count); });
  }
}

}  // namespace slicing

/// Slices of `length` time steps; the last one may be shorter. They are views of the batch, and nothing is copied. A
/// tensor (batch, time, ...) is cut along dimension 1, each sequence of a list along dimension 0. Throws
/// fulgurite.data.time if lengths differ or time cannot be found.
template <class Batch>
std::vector<std::remove_const_t<Batch>> time_slices(Batch const& batch, long length) {
  std::int64_t steps = -1;
  slicing::measure(batch, steps);
  std::vector<std::remove_const_t<Batch>> slices;
  for (std::int64_t from = 0; from < steps; from += length) {
    slices.push_back(batch);
    slicing::cut(slices.back(), from, std::min<std::int64_t>(length, steps - from));
  }
  return slices;
}

template <class T>
void detach_in_place(T& part) {
  if constexpr (TensorLike<T>) {
    if (part.defined()) part = part.detach();
  } else if constexpr (holds_tensors<T>) {
    each_part(part, [](auto& inner) { detach_in_place(inner); });
  }
}

/// The state that one slice hands to the next, without the graph behind it.
template <class Hidden>
Hidden detached_state(Hidden const& hidden) {
  Hidden state = hidden;
  detach_in_place(state);
  return state;
}

}  // namespace fulgurite::libtorch
