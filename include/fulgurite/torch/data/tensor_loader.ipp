#pragma once
// The bodies of torch/data/tensor_loader.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY torch::Tensor Buffers::next(std::int64_t rows, std::int64_t capacity, torch::IntArrayRef sizes,
                                                torch::TensorOptions const& options) {
  LoadingMode const mode;
  turn_ ^= 1U;
  torch::Tensor& buffer = buffers_[turn_];
  // A copy to a GPU may still be reading pinned memory. LibTorch's allocator, which owns that memory, knows when it is
  // free again.
  if (!buffer.defined() || buffer.size(0) != capacity || buffer.storage().use_count() > 1 || options.pinned_memory()) {
    std::vector<std::int64_t> shape{capacity};
    shape.insert(shape.end(), sizes.begin(), sizes.end());
    buffer.reset();  // before the new one is allocated, since both may not fit
    buffer = torch::empty(shape, options);
  }
  return buffer.narrow(0, 0, rows)
      .detach();  // autograd then does not see a view, so a batch may be written to and require a gradient
}

FULGURITE_BULK_BODY std::size_t TensorSet::size() const { return static_cast<std::size_t>(data.size(0)); }

FULGURITE_BODY SplitSets::SplitSets(TensorSet whole, Split split, std::optional<TensorSet> another)
    : set(std::move(whole)), parts(std::move(split)), test(std::move(another)) {}
FULGURITE_MOVES_BODY(SplitSets);

FULGURITE_BULK_BODY TensorSet as_tensors(LabelledImages const& images) {
  LoadingMode const mode;
  auto const count = static_cast<std::int64_t>(images.size());
  auto const bytes = [](std::vector<std::uint8_t> const& from, torch::IntArrayRef shape) {
    torch::Tensor tensor = torch::empty(shape, torch::kByte);
    std::copy(from.begin(), from.end(), tensor.mutable_data_ptr<std::uint8_t>());
    return tensor;
  };
  return {bytes(images.pixels,
                {count, 1, static_cast<std::int64_t>(images.rows), static_cast<std::int64_t>(images.columns)})
              .to(torch::kFloat)
              .div_(images.white),
          bytes(images.labels, {count}).to(torch::kLong)};
}

FULGURITE_INSTANTIATE(struct TeamWork<Batch>);
FULGURITE_INSTANTIATE(class Team<Batch>);
FULGURITE_INSTANTIATE(class BatchReader<Batch>);
FULGURITE_TENSOR_LOADER(INSTANTIATE, OptionalShuffle);
FULGURITE_TENSOR_LOADER(INSTANTIATE, Subset<OptionalShuffle>);
FULGURITE_TENSOR_LOADER(INSTANTIATE, Subset<Sequential>);
FULGURITE_INSTANTIATE(class TensorModule<>);

}  // namespace fulgurite::data
