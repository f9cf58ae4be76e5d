#pragma once
// The loader for data that fit into memory: a whole batch is gathered at once, into memory that is used again.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <torch/types.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/random.hpp>
#include <fulgurite/data/sampled_batches.hpp>
#include <fulgurite/torch/data/batch.hpp>
#include <fulgurite/torch/data/buffers.hpp>

namespace fulgurite::data {

/// Options of a TensorLoader, with PyTorch's names. An Error where a batch has no row.
struct TensorLoaderOptions {
  long batch_size = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool drop_last = false;
  bool pin_memory = false;  ///< batches in page-locked memory: their copies to a GPU overlap with the step. Needs CUDA,
                            ///< and data on the CPU
};

/// Options of a loader that was given a sampler, which decides the order.
struct GatherOptions {
  long batch_size = 1;
  bool drop_last = false;
  std::uint64_t seed = 0;  ///< of the `Random` that a transform may take
  bool pin_memory = false;
};

/// Batches stay as they were loaded.
struct Untouched {
  Batch operator()(Batch batch) const { return batch; }
};

/// A function of a batch, or of a batch and its random numbers, that returns the batch to be used in its place.
template <class T>
concept BatchTransform = std::invocable<T&, Batch> || std::invocable<T&, Batch, Random&>;

/// A sized range of batches from two tensors with samples along dimension 0, on any device (the batches are made
/// there): `TensorLoader loader{images, labels, {.batch_size = 128, .shuffle = true}};`. One `index_select` a tensor
/// makes the batch; nothing is done per sample. `transform(batch)` or `transform(batch, random)` changes whole batches
/// (augmentation); `random` depends on the seed, the epoch and the batch alone. A batch may be written to: it never is
/// the data itself.
template <Sampler S = OptionalShuffle, BatchTransform Transform = Untouched>
class TensorLoader : public SampledBatches<TensorLoader<S, Transform>, Batch, S> {
  using Base = SampledBatches<TensorLoader, Batch, S>;

 public:
  static constexpr bool batches_stay_valid = true;  ///< two buffers take turns; a transform sees nothing but its batch

  /// Throws fulgurite.data.lengths unless there is a target for each sample, fulgurite.data.batch_size for a batch size
  /// below 1, and fulgurite.data.pin_memory if there is nothing to pin, or no device for which to.
  TensorLoader(torch::Tensor data, torch::Tensor target, S sampler, GatherOptions options, Transform transform = {})
      : Base(std::move(sampler), options.batch_size, options.drop_last),
        data_(std::move(data)),
        target_(std::move(target)),
        options_(options),
        transform_(std::move(transform)) {
    auto const said = [](torch::Tensor const& t) {
      return !t.defined() ? "undefined" : t.dim() == 0 ? "a scalar" : std::to_string(t.size(0)) + " long";
    };
    if (!data_.defined() || !target_.defined() || data_.dim() == 0 || target_.dim() == 0 ||
        data_.size(0) != target_.size(0))
      throw Error("fulgurite.data.lengths", "the data are " + std::string(said(data_)) + " and the targets " +
                                                said(target_) +
                                                ": both need one row for each sample along dimension 0");
    if (options_.pin_memory && !(data_.is_cpu() && target_.is_cpu()))
      throw Error("fulgurite.data.pin_memory", ".pin_memory is on, and the data are on a GPU already: take it off");
    if (options_.pin_memory && !at::hasCUDA())
      throw Error("fulgurite.data.pin_memory",
                  ".pin_memory is on, and there is no GPU to copy to: say .pin_memory = torch::cuda::is_available()");
  }

  TensorLoader(torch::Tensor const& data, torch::Tensor target, TensorLoaderOptions options, Transform transform = {})
    requires std::same_as<S, OptionalShuffle>
      : TensorLoader(data, std::move(target), OptionalShuffle{rows(data), options.shuffle, options.seed},
                     GatherOptions{options.batch_size, options.drop_last, options.seed, options.pin_memory},
                     std::move(transform)) {}

  void state(auto& archive) {
    Base::state(archive);
    auto seed = static_cast<long>(options_.seed);  // what a transform draws; archives hold signed numbers
    archive("seed", seed);
    options_.seed = static_cast<std::uint64_t>(seed);
  }

 private:
  friend Batches<TensorLoader, Batch>;
  using Base::batch_size_;

  static std::size_t rows(torch::Tensor const& data) {
    return data.defined() && data.dim() > 0 ? static_cast<std::size_t>(data.size(0)) : 0;
  }

  void start(long epoch, long first) {
    LoadingMode const mode;
    torch::Tensor order = torch::empty({static_cast<std::int64_t>(this->samples())}, torch::kLong);
    auto* at = order.mutable_data_ptr<std::int64_t>();
    this->each_sample(epoch, rows(data_), [&](std::size_t index) { *at++ = static_cast<std::int64_t>(index); });
    order_ = order.to(data_.device());
    next_ = first;
  }

  bool next(std::optional<Batch>& batch) {
    LoadingMode const mode;
    if (next_ >= static_cast<long>(this->size())) return false;
    std::int64_t const from = next_ * batch_size_, count = std::min<std::int64_t>(batch_size_, order_.size(0) - from);
    torch::Tensor const index = order_.narrow(0, from, count);
    Batch loaded{gather(data_, index, data_buffers_), gather(target_, index, target_buffers_)};
    if constexpr (std::invocable<Transform&, Batch, Random&>) {
      Random random{options_.seed, static_cast<std::uint64_t>(this->drawn_epoch()), static_cast<std::uint64_t>(next_)};
      batch.emplace(transform_(std::move(loaded), random));
    } else {
      batch.emplace(transform_(std::move(loaded)));
    }
    ++next_;
    return true;
  }

  torch::Tensor gather(torch::Tensor const& from, torch::Tensor const& index, Buffers& buffers) const {
    torch::Tensor into = buffers.next(index.size(0), batch_size_, from.sizes().slice(1),
                                      from.options().pinned_memory(options_.pin_memory));
    at::index_select_out(into, from, 0, index);
    return into;
  }

  torch::Tensor data_, target_, order_;
  GatherOptions options_;
  Transform transform_;
  Buffers data_buffers_, target_buffers_;
  long next_ = 0;
};

TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions) -> TensorLoader<>;
template <BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions, T) -> TensorLoader<OptionalShuffle, T>;
template <Sampler S>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions) -> TensorLoader<S>;
template <Sampler S, BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions, T) -> TensorLoader<S, T>;

}  // namespace fulgurite::data
