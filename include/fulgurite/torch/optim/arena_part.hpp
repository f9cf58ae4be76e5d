#pragma once
// Which part of an optimizer's state a process keeps, where several of them update the same parameters together.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/torch/optim/arena_slices.hpp>

namespace fulgurite::libtorch {

/// Of each flat buffer, cut into as many equal parts as there are processes, this one updates the part with its number,
/// and keeps the state of that part alone. The default is one process, which keeps all.
struct ArenaPart {
  int mine = 0, of = 1;
  /// Of a flat tensor each process has its own part; afterwards all of them have all of it. A collective.
  std::function<void(at::Tensor const&)> gather = nullptr;

  bool is_whole() const { return of == 1; }
  /// How long a buffer is that can be cut: parts begin where slices may.
  std::int64_t padded(std::int64_t size, at::Tensor const& like) const {
    return is_whole() ? size : of * aligned((size + of - 1) / of, like);
  }
  std::int64_t length(std::int64_t padded_size) const { return padded_size / of; }
  std::int64_t begin(std::int64_t padded_size) const { return mine * length(padded_size); }
  std::int64_t end(std::int64_t padded_size) const { return begin(padded_size) + length(padded_size); }
};

/// What a part has of one slice: `length` elements from `in_slice` on, which lie from `in_part` on in it.
struct Overlap {
  std::int64_t in_slice = 0, in_part = 0, length = 0;

  Overlap(ArenaPart const& part, std::int64_t buffer_size, std::int64_t slice_begin, std::int64_t slice_size) {
    auto const from = std::max(slice_begin, part.begin(buffer_size));
    auto const to = std::min(slice_begin + slice_size, part.end(buffer_size));
    in_slice = from - slice_begin;
    in_part = from - part.begin(buffer_size);
    length = std::max<std::int64_t>(0, to - from);
  }
};

/// The numbers of `value` in the order in which a slice in the shape of `like` has them in memory.
inline at::Tensor in_memory_order(at::Tensor const& value, at::Tensor const& like) {
  auto ordered = value;
  if (value.strides() != like.strides()) {
    ordered = at::empty_like(like);
    ordered.copy_(value);
  }
  return ordered.as_strided({ordered.numel()}, {1}, ordered.storage_offset());
}

}  // namespace fulgurite::libtorch
