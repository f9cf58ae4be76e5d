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

/// The Error of a batch that cannot be cut; `why` is the part of its sentence that differs.
[[noreturn]] inline void refuse_cut(std::string const& why) {
  throw Error(
      "fulgurite.pipeline.batch",
      "a batch cannot be cut into micro batches: " + why +
          ". Its tensors need one row for each sample, in dimension 0, and its lists one element; .micro_batches = 1 "
          "leaves it whole");
}

/// Whether T is a std::vector, which is cut by its elements.
template <class T>
inline constexpr bool is_list = false;
template <class T, class A>
inline constexpr bool is_list<std::vector<T, A>> = true;

/// An Error unless a tensor or a list has one row for each sample of its batch.
inline void require_rows(std::int64_t rows, std::int64_t samples) {
  if (rows != samples)
    refuse_cut("one of its tensors or lists has " + std::to_string(rows) + " rows, and the batch " +
               std::to_string(samples) + " samples");
}

/// Leaves `count` of the object's samples, from `from` on: of its tensors, and of a std::vector of what is no tensor,
/// as of names. A tensor without dimensions, a number and a text belong to all of them.
template <class T>
void cut_rows(T& object, std::int64_t samples, std::int64_t from, std::int64_t count) {
  constexpr bool cuttable = libtorch::TensorLike<T> || is_list<std::remove_const_t<T>>;
  if constexpr (libtorch::hides_parts<T> || libtorch::PackedSequenceLike<T> || (cuttable && std::is_const_v<T>)) {
    refuse_cut("a part of it has no rows that could be found, or is const");
  } else if constexpr (!libtorch::holds_tensors<T>) {
    if constexpr (is_list<T>) {
      require_rows(static_cast<std::int64_t>(object.size()), samples);
      object.erase(object.begin() + (from + count), object.end());
      object.erase(object.begin(), object.begin() + from);
    } else if constexpr (std::is_class_v<T> && !libtorch::walk::Container<T>) {
      libtorch::each_part(object, [&](auto& part) { cut_rows(part, samples, from, count); });
    }
  } else if constexpr (libtorch::TensorLike<T>) {
    if (!object.defined() || object.dim() == 0) return;
    require_rows(object.size(0), samples);
    object = object.narrow(0, from, count);
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
