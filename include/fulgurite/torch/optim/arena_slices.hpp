#pragma once
// How tensors lie in one flat buffer: where each begins, how it is seen, and which ones may not be moved apart.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite::libtorch {

/// Where the next slice may begin. Each begins where LibTorch's allocators would let a tensor begin, since kernels
/// choose their paths by alignment, and with the path the last bits of a result.
inline std::int64_t aligned(std::int64_t elements, at::Tensor const& like) {
  std::int64_t const bytes = like.is_cpu() ? 64 : 512;
  auto const unit = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(like.element_size()));
  return (elements + unit - 1) / unit * unit;
}

/// A part of `flat` in the shape of `like`. Unlike a view it has a version counter of its own: a write to one slice, or
/// to the whole, does not show in the version of another.
inline at::Tensor slice(at::Tensor const& flat, std::int64_t begin, at::Tensor const& like) {
  auto part = at::empty({0}, flat.options());
  if (like.is_non_overlapping_and_dense()) part.set_(flat.storage(), begin, like.sizes(), like.strides());
  else part.set_(flat.storage(), begin, like.sizes());
  return part;
}

/// The system may have the memory of these zeros until somebody asks for it: a hint, of which nothing depends.
inline void give_back([[maybe_unused]] void* zeros, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto const begin = (reinterpret_cast<std::uintptr_t>(zeros) + page - 1) / page * page,
             end = (reinterpret_cast<std::uintptr_t>(zeros) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

/// The bytes that a tensor reaches.
struct Extent {
  char const* begin;
  char const* end;
};
inline Extent extent(at::Tensor const& tensor) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  auto const* begin = static_cast<char const*>(tensor.const_data_ptr());
  return {begin, tensor.numel() == 0 ? begin : begin + (last + 1) * static_cast<std::int64_t>(tensor.element_size())};
}

/// Throws an Error if two parameters share memory, since an arena would part them. One parameter under two names is
/// allowed.
inline void require_apart(std::vector<at::Tensor> const& parameters) {
  std::vector<Extent> extents;
  for (auto const& parameter : parameters) extents.push_back(extent(parameter));
  // One without elements lies where its neighbour begins, and overlaps nothing.
  sort_seldom(extents,
              [](Extent const& a, Extent const& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw Error("fulgurite.optim.shared_memory", "two parameters lie in the same memory, which fulgurite::optim "
                                                   "would part: register one tensor under both names, or use "
                                                   "torch::optim");
}

}  // namespace fulgurite::libtorch
