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
#include <fulgurite/data/batch_reader.hpp>
#include <fulgurite/data/sampled_batches.hpp>
#include <fulgurite/torch/data/batch.hpp>
#include <fulgurite/torch/data/buffers.hpp>
#include <fulgurite/torch/data/pinned.hpp>
#include <fulgurite/torch/data/tensor_loader_options.hpp>

namespace fulgurite::data {

/// A sized range of batches from two tensors with samples along dimension 0, on any device (the batches are made
/// there): `TensorLoader loader{images, labels, {.batch_size = 128, .shuffle = true}};`. One `index_select` a tensor
/// makes the batch; nothing is done per sample. `transform(batch)` or `transform(batch, random)` changes whole batches
/// (augmentation); `random` is a BatchRandom: it depends on the seed, the epoch, the batch and the rank alone, and
/// `random.row(i)` on the sample's place in the epoch alone, whatever the number of ranks. A batch may be written to:
/// it never is the data itself. With `.workers` a transform is called in several threads at once, so it must be const,
/// and draw from `random` alone.
template <Sampler S = OptionalShuffle, BatchTransform Transform = Untouched>
class TensorLoader : public SampledBatches<TensorLoader<S, Transform>, Batch, S> {
  using Base = SampledBatches<TensorLoader, Batch, S>;

 public:
  static constexpr bool batches_stay_valid = true;  ///< two buffers take turns; a transform sees nothing but its batch

  /// Throws fulgurite.data.lengths unless there is a target for each sample, fulgurite.data.batch_size for a batch size
  /// below 1, fulgurite.data.pin_memory if there is nothing to pin, or no device for which to, and
  /// fulgurite.data.workers for workers that could not help.
  TensorLoader(torch::Tensor data, torch::Tensor target, S sampler, GatherOptions options, Transform transform = {})
      : Base(std::move(sampler), options.batch_size, options.drop_last),
        data_(std::move(data)),
        target_(std::move(target)),
        options_(options),
        transform_(std::move(transform)),
        reader_(workers_of(options)) {
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
    if (options_.pin_memory) refuse_pinning_without_gpu();
    if (options_.workers > 0 && !data_.is_cpu())
      throw Error("fulgurite.data.workers", ".workers are for data on the CPU, and these are on a GPU, which makes "
                                            "batches itself: take .workers off");
    if (options_.workers > 0 && !SharedTransform<Transform>)
      throw Error("fulgurite.data.workers", "several workers would change this transform at once: make its operator() "
                                            "const (and let it be copied), or take .workers off");
  }

  TensorLoader(torch::Tensor const& data, torch::Tensor target, TensorLoaderOptions options, Transform transform = {})
    requires std::same_as<S, OptionalShuffle>
      : TensorLoader(data, std::move(target), OptionalShuffle{rows(data), options.shuffle, options.seed},
                     without_order(options), std::move(transform)) {}

  /// Of the last pass; see Waited.
  Waited waited() const { return reader_.waited(); }

  void state(auto& archive) {
    Base::state(archive);
    archive.option("seed", static_cast<long>(options_.seed));  // of what a transform draws
  }

 private:
  friend Batches<TensorLoader, Batch>;
  using Base::batch_size_;

  static std::size_t rows(torch::Tensor const& data) {
    return data.defined() && data.dim() > 0 ? static_cast<std::size_t>(data.size(0)) : 0;
  }

  void start(long epoch, long first) {
    LoadingMode const mode;
    reader_.leave();
    torch::Tensor order = torch::empty({static_cast<std::int64_t>(this->samples())}, torch::kLong);
    auto* at = order.mutable_data_ptr<std::int64_t>();
    this->each_sample(epoch, rows(data_), [&](std::size_t index) { *at++ = static_cast<std::int64_t>(index); });
    order_ = order.to(data_.device());
    reader_.begin(epoch, static_cast<std::size_t>(first), this->size(), making(epoch));
  }

  /// Batches for workers: each in memory of its own, of what this epoch is made of.
  auto making(long epoch) const {
    typename BatchReader<Batch>::Make make;
    if constexpr (SharedTransform<Transform>)
      if (reader_.has_workers())
        make = [data = data_, target = target_, order = order_, transform = transform_, options = options_, epoch,
                size = batch_size_, share = this->share()](std::size_t k, AtWork const&) -> std::optional<Batch> {
          LoadingMode const mode;
          torch::Tensor const index = slice(order, k, size);
          auto const gathered = [&](torch::Tensor const& from) {
            auto shape = from.sizes().vec();
            shape.front() = index.size(0);
            return into(torch::empty(shape, from.options().pinned_memory(options.pin_memory)), from, index);
          };
          return transformed(transform, Batch{gathered(data), gathered(target)},
                             BatchRandom(options.seed, epoch, k, size, share));
        };
    return make;
  }

  bool next(std::optional<Batch>& batch) {
    LoadingMode const mode;
    return reader_.next(batch, [this](std::size_t k) -> std::optional<Batch> {
      torch::Tensor const index = slice(order_, k, batch_size_);
      return transformed(transform_,
                         Batch{gather(data_, index, data_buffers_), gather(target_, index, target_buffers_)},
                         BatchRandom(options_.seed, this->drawn_epoch(), k, batch_size_, this->share()));
    });
  }

  static torch::Tensor slice(torch::Tensor const& order, std::size_t k, std::int64_t size) {
    std::int64_t const from = static_cast<std::int64_t>(k) * size;
    return order.narrow(0, from, std::min<std::int64_t>(size, order.size(0) - from));
  }
  static torch::Tensor into(torch::Tensor memory, torch::Tensor const& from, torch::Tensor const& index) {
    at::index_select_out(memory, from, 0, index);
    return memory;
  }
  torch::Tensor gather(torch::Tensor const& from, torch::Tensor const& index, Buffers& buffers) const {
    return into(buffers.next(index.size(0), batch_size_, from.sizes().slice(1),
                             from.options().pinned_memory(options_.pin_memory)),
                from, index);
  }

  torch::Tensor data_, target_, order_;
  GatherOptions options_;
  Transform transform_;
  Buffers data_buffers_, target_buffers_;
  BatchReader<Batch> reader_;
};

TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions) -> TensorLoader<>;
template <BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions, T) -> TensorLoader<OptionalShuffle, T>;
template <Sampler S>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions) -> TensorLoader<S>;
template <Sampler S, BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions, T) -> TensorLoader<S, T>;

}  // namespace fulgurite::data
