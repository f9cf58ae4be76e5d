#pragma once
// Cutting a batch into micro batches, and a number by which processes tell whether they have the same one.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/pipeline_schedule.hpp>
#include <fulgurite/torch/data/move.hpp>
#include <fulgurite/torch/data/walk.hpp>

namespace fulgurite::distributed {

[[noreturn]] inline void refuse_cut(std::string const& why) {
  throw Error("fulgurite.pipeline.batch",
              "a batch cannot be cut into micro batches: " + why +
                  ". Its tensors need one row for each sample, in dimension 0; .micro_batches = 1 leaves it whole");
}

/// Leaves `count` of the object's samples, from `from` on. A tensor without dimensions belongs to all of them.
template <class T>
void cut_rows(T& object, std::int64_t samples, std::int64_t from, std::int64_t count) {
  if constexpr (!libtorch::holds_tensors<T>) {
  } else if constexpr (libtorch::TensorLike<T>) {
    if (!object.defined() || object.dim() == 0) return;
    if (object.size(0) != samples)
      refuse_cut("one of its tensors has " + std::to_string(object.size(0)) + " rows, and the batch " +
                 std::to_string(samples) + " samples");
    object = object.narrow(0, from, count);
  } else if constexpr (std::is_const_v<T> || libtorch::PackedSequenceLike<T> || libtorch::is_opaque<T>) {
    refuse_cut("a part of it has no rows that could be found");
  } else {
    libtorch::each_part(object, [&](auto& part) { cut_rows(part, samples, from, count); });
  }
}

/// Views of the batch, in its order. Error [fulgurite.pipeline.batch] for one that has no rows.
template <class Batch>
std::vector<std::remove_const_t<Batch>> micro_batches_of(Batch const& batch, int count) {
  auto const samples = libtorch::batch_extent(batch);
  if (samples == 0 || count == 1) return {batch};
  std::vector<std::remove_const_t<Batch>> all;
  std::int64_t from = 0;
  for (auto const size : micro_batch_sizes(samples, count)) {
    all.push_back(batch);
    cut_rows(all.back(), samples, from, size);
    from += size;
  }
  return all;
}

/// Of the sizes of the batch's tensors, and of a few of their elements: cheap, and rarely the same for two batches.
template <class Batch>
std::int64_t fingerprint_of(Batch const& batch) {
  std::uint64_t sum = 1469598103934665603U;
  auto const mix = [&](std::uint64_t value) { sum = (sum ^ value) * 1099511628211U; };
  libtorch::each_tensor(batch, [&](at::Tensor const& tensor) {
    for (auto const extent : tensor.sizes()) mix(static_cast<std::uint64_t>(extent));
    if (!tensor.is_cpu() || tensor.numel() == 0 || !tensor.is_contiguous()) return;
    auto const* const bytes = static_cast<char const*>(tensor.const_data_ptr());
    std::size_t const looks = 16, size = tensor.nbytes();
    for (std::size_t i = 0; i != looks; ++i) {
      auto const at = i * (size - 1) / (looks - 1);
      mix(static_cast<unsigned char>(bytes[at]) + 256 * (at % 2));
      mix(static_cast<unsigned char>(bytes[size - 1 - at]));
    }
  });
  return static_cast<std::int64_t>(sum >> 1);
}

}  // namespace fulgurite::distributed
