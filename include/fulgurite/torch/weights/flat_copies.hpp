#pragma once
// Copies of many tensors in few operations: tensors that lie side by side in memory, as the slices of an arena do, are
// copied as one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/torch/optim/arena_slices.hpp>

namespace fulgurite::libtorch {

/// A copy with memory of its own, even where `value` is a view of a larger one.
inline at::Tensor clone(at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  return value.detach().clone(at::MemoryFormat::Preserve);
}

/// Copies in place: whoever else holds the tensor, or a larger one of which it is a view, sees the new values.
inline void copy_into(at::Tensor& to, at::Tensor const& from) {
  at::NoGradGuard const no_graph;
  to.copy_(from);
}

/// Whether `b` begins in the same memory where a slice that follows `a` would.
inline bool follows(at::Tensor const& a, at::Tensor const& b) {
  return b.storage().unsafeGetStorageImpl() == a.storage().unsafeGetStorageImpl() &&
         b.scalar_type() == a.scalar_type() && b.storage_offset() == a.storage_offset() + aligned(a.numel(), a);
}
/// Whether the numbers of both lie at the same places relative to their beginnings, without gaps, and neighbours of
/// both at the same distances, which are those of the device.
inline bool same_places(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}
/// A flat tensor of `length` numbers that begins where `first` does.
inline at::Tensor stretch(at::Tensor const& first, std::int64_t length) {
  auto all = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(first.storage()), first.key_set(), first.dtype());
  all.unsafeGetTensorImpl()->set_storage_offset(first.storage_offset());
  all.unsafeGetTensorImpl()->set_sizes_contiguous({length});
  return all;
}
/// The same for neighbours, from the beginning of one to the end of another.
inline at::Tensor stretch(at::Tensor const& first, at::Tensor const& last) {
  return stretch(first, last.storage_offset() + last.numel() - first.storage_offset());
}

/// The places of values, neighbours one after the other. Else they are in the order in which they were given.
inline std::vector<std::size_t> neighbours_together(std::span<at::Tensor const> values) {
  using Place = std::tuple<void const*, at::ScalarType, std::int64_t>;
  auto const place = [](at::Tensor const& value, std::int64_t offset) {
    return Place(value.storage().unsafeGetStorageImpl(), value.scalar_type(), offset);
  };
  auto const none = values.size();
  std::vector<std::size_t> next(none, none);
  std::vector<bool> follows_one(none, false);
  auto const link = [&](std::size_t one, std::size_t other) {
    next[one] = other;
    follows_one[other] = true;
  };
  for (std::size_t i = 1; i < none; ++i)
    if (follows(values[i - 1], values[i])) link(i - 1, i);
  std::map<Place, std::size_t> begins;
  for (std::size_t i = 0; i != none; ++i)
    if (values[i].numel() != 0 && !follows_one[i]) begins.emplace(place(values[i], values[i].storage_offset()), i);
  for (std::size_t i = 0; i != none; ++i) {
    if (next[i] != none || values[i].numel() == 0) continue;
    auto const end = values[i].storage_offset() + aligned(values[i].numel(), values[i]);
    auto const found = begins.find(place(values[i], end));
    if (found != begins.end() && !follows_one[found->second]) link(i, found->second);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i != none; ++i)
    if (!follows_one[i])
      for (auto j = i; j != none; j = next[j]) order.push_back(j);
  return order;
}

/// Copies in place, neighbours that were neighbours where they come from in one operation, the others in a few kernels
/// on a GPU instead of one for each tensor. Both have the same shapes.
inline void copy_into(std::span<at::Tensor const> to, std::span<at::Tensor const> from) {
  at::NoGradGuard const no_graph;
  auto const order = neighbours_together(to);
  std::vector<at::Tensor> others_to, others_from;
  for (std::size_t begin = 0; begin != order.size();) {
    auto const pair = [&](std::size_t i) { return std::pair(to[order[i]], from[order[i]]); };
    auto const [first_to, first_from] = pair(begin);
    std::size_t end = begin + 1;
    if (same_places(first_to, first_from))
      while (end != order.size() && follows(to[order[end - 1]], to[order[end]]) &&
             follows(from[order[end - 1]], from[order[end]]) && same_places(to[order[end]], from[order[end]]))
        ++end;
    if (end == begin + 1) {
      if (!first_to.is_same(first_from)) {
        others_to.push_back(first_to);
        others_from.push_back(first_from);
      }
    } else if (first_to.const_data_ptr() != first_from.const_data_ptr()) {
      stretch(first_to, to[order[end - 1]]).copy_(stretch(first_from, from[order[end - 1]]));
      for (auto i = begin; i != end; ++i) to[order[i]].unsafeGetTensorImpl()->bump_version();  // as copy_ itself does
    }
    begin = end;
  }
  if (!others_to.empty()) at::_foreach_copy_(others_to, others_from);
}

/// Copies of all values that lie side by side in memory, as the slices of an arena do. Where the values themselves lie
/// side by side as well, one operation copies them all, or averages them.
inline std::vector<at::Tensor> clones(std::span<at::Tensor const> values) {
  at::NoGradGuard const no_graph;
  struct Flat {
    at::Tensor memory;
    std::int64_t size = 0;
  };
  std::vector<Flat> flats;
  std::vector<std::pair<std::size_t, std::int64_t>> places(values.size());
  for (auto const i : neighbours_together(values)) {
    auto const& value = values[i];
    auto flat = std::find_if(flats.begin(), flats.end(), [&](Flat const& one) {
      return one.memory.scalar_type() == value.scalar_type() && one.memory.device() == value.device();
    });
    if (flat == flats.end()) flat = flats.insert(flat, {at::empty({0}, value.options().requires_grad(false))});
    places[i] = {static_cast<std::size_t>(flat - flats.begin()), flat->size};
    flat->size += aligned(value.numel(), value);
  }
  for (auto& flat : flats) {
    auto const options = flat.memory.options();
    flat.memory = flat.memory.is_cpu() ? at::empty({flat.size}, options) : at::zeros({flat.size}, options);
  }
  std::vector<at::Tensor> all, from;
  for (std::size_t i = 0; i != values.size(); ++i) {
    auto const& [flat, begin] = places[i];
    from.push_back(values[i].detach());
    all.push_back(slice(flats[flat].memory, begin, from.back()));
    // The gap behind it: one operation may take it along with the numbers.
    auto const end = begin + values[i].numel(), next = begin + aligned(values[i].numel(), values[i]);
    if (end == next || !values[i].is_cpu()) continue;
    auto const size = static_cast<std::int64_t>(values[i].element_size());
    std::memset(static_cast<std::byte*>(flats[flat].memory.mutable_data_ptr()) + end * size, 0,
                static_cast<std::size_t>((next - end) * size));
  }
  copy_into(all, from);
  return all;
}

}  // namespace fulgurite::libtorch
