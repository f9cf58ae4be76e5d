#pragma once
// Tensors for data::shared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/shared.hpp>
#include <fulgurite/torch/data/batch.hpp>

namespace fulgurite::data {

/// A dense tensor of the CPU, of any type. What ranks get is contiguous and must not be written to; loaders do not, as
/// they gather batches into memory of their own. Error [fulgurite.data.shared_tensor] for other tensors.
template <>
struct SharedForm<torch::Tensor> {
  static void put(SharedParts& parts, torch::Tensor const& tensor) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != torch::kStrided || tensor.is_quantized() ||
        tensor.requires_grad())
      throw Error("fulgurite.data.shared_tensor",
                  "data::shared keeps dense tensors of the CPU that need no gradient: give it those, and take them to "
                  "a GPU batch by batch");
    auto const dense = tensor.contiguous().resolve_conj().resolve_neg();
    parts.number<std::int64_t>(static_cast<std::int64_t>(dense.scalar_type()));
    parts.number<std::int64_t>(dense.dim());
    for (auto const size : dense.sizes()) parts.number<std::int64_t>(size);
    parts.keep(std::make_shared<torch::Tensor>(dense));
    parts.borrow({static_cast<std::byte const*>(dense.const_data_ptr()), dense.nbytes()});
  }
  static torch::Tensor take(SharedReader& reader) {
    auto const type = static_cast<torch::ScalarType>(reader.number<std::int64_t>());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(reader.number<std::int64_t>()));
    for (auto& size : sizes) size = reader.number<std::int64_t>();
    auto* const at = const_cast<std::byte*>(reader.next().data());  // tensors know no memory that is only read
    return torch::from_blob(at, sizes, [memory = reader.memory()](void*) {}, torch::TensorOptions().dtype(type));
  }
};

/// What a TensorLoader is made of.
template <>
struct SharedForm<Batch> {
  static void put(SharedParts& parts, Batch const& both) {
    SharedForm<torch::Tensor>::put(parts, both.data);
    SharedForm<torch::Tensor>::put(parts, both.target);
  }
  static Batch take(SharedReader& reader) {
    auto data = SharedForm<torch::Tensor>::take(reader);
    return {std::move(data), SharedForm<torch::Tensor>::take(reader)};
  }
};

}  // namespace fulgurite::data
