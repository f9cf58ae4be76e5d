#pragma once
// A batch norm whose mean and variance are those of all ranks' batches together.

#include <cstdint>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

// Mean and variance of what several ranks have. Sums over ranks are in float64 and the same in all of them, since each
// makes them in the order of ranks.

/// Of each channel over all ranks, in float64.
struct Moments {
  at::Tensor mean, variance;
  at::Tensor count;  ///< of values in a channel, a scalar
};

/// What a layer asks of the same layer in other ranks. All of them are collectives; `normalize` is one in backward.
struct LayerRanks {
  virtual ~LayerRanks() = default;
  /// What each rank has, in the order of ranks along a new first dimension.
  virtual at::Tensor stack(at::Tensor const& mine) = 0;
  virtual void sum_in_place(at::Tensor const& tensor) = 0;
  /// NormalizedByRanks, whose headers programs with one process need not read.
  virtual at::Tensor normalize(at::Tensor const& input, std::optional<at::Tensor> const& weight,
                               std::optional<at::Tensor> const& bias, Moments const& moments, double eps) = 0;
};

/// Layers compute in float32 where tensors are of a narrower type.
inline at::Tensor widened(at::Tensor const& tensor) {
  return tensor.defined() ? tensor.to(at::toOpMathType(tensor.scalar_type())) : tensor;
}
/// One number a channel, against an input of so many dimensions.
inline at::Tensor along_channels(at::Tensor const& values, at::Tensor const& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(input.scalar_type()).view(shape);
}

/// Each rank tells its own moments, from which those of all follow without loss where means lie far from zero. A rank
/// without samples counts for nothing.
inline Moments moments_of(at::Tensor const& input, LayerRanks& ranks) {
  at::NoGradGuard const no_graph;
  auto const x = widened(input.detach());
  auto const channels = x.size(1);
  auto const mine = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() != 0) {
    std::vector<std::int64_t> but_channels(static_cast<std::size_t>(x.dim()) - 1);
    std::iota(but_channels.begin() + 1, but_channels.end(), std::int64_t{2});
    auto const [variance, mean] = at::var_mean(x, but_channels, at::Scalar(0));
    mine.narrow(0, 0, channels).copy_(mean);
    mine.narrow(0, channels, channels).copy_(variance);
    mine.narrow(0, 2 * channels, 1).fill_(static_cast<double>(x.numel() / channels));
  }
  auto const all = ranks.stack(mine);
  auto const means = all.narrow(1, 0, channels), variances = all.narrow(1, channels, channels);
  auto const counts = all.narrow(1, 2 * channels, 1);
  auto const count = counts.sum();
  if (count.is_cpu() && count.item<double>() < 2)  // LibTorch refuses one value, too; a GPU would have to be waited for
    throw Error("fulgurite.distributed.sync_batchnorm_input",
                "all ranks together have fewer than 2 values in a channel, which have no variance: give the batch more "
                "samples, or evaluate the model");
  auto const mean = (means * counts).sum(0) / count;
  return {mean, ((variances + (means - mean).square()) * counts).sum(0) / count, count};
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

/// Batch normalization over the samples of all ranks, for inputs of any number of dimensions from two on, channels
/// second: `SyncBatchNorm norm = register_module("norm", SyncBatchNorm(64));` in place of BatchNorm1d, 2d or 3d.
/// Parameters, buffers, options and their names are those of torch::nn::BatchNorm2d, so weights of one are weights of
/// the other.
///
/// In a fit of DistributedDataParallel with several ranks a forward in training exchanges the moments of the channels,
/// and its backward the two sums that the gradient needs: one small collective each. So all ranks have to run it
/// equally often. Everywhere else, in evaluation, in one process, it is a torch::nn::BatchNorm to the last bit.
class SyncBatchNormImpl : public torch::nn::BatchNormImplBase<2, SyncBatchNormImpl> {
 public:
  using torch::nn::BatchNormImplBase<2, SyncBatchNormImpl>::BatchNormImplBase;

  at::Tensor forward(at::Tensor const& input) {
    if (ranks_.of == nullptr || !is_training()) return BatchNormImplBase::forward(input);
    _check_input_dim(input);
    auto const moments = libtorch::moments_of(input, *ranks_.of);
    if (options.track_running_stats()) follow(moments);
    auto const given = [](at::Tensor const& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; };
    return ranks_.of->normalize(input, given(weight), given(bias), moments, options.eps());
  }

  /// Called by a strategy where a fit begins, and with nullptr where it ends.
  void connect(libtorch::LayerRanks* ranks) { ranks_.of = ranks; }

  void pretty_print(std::ostream& stream) const override {
    stream << "fulgurite::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
  }

 protected:
  void _check_input_dim(at::Tensor const& input) override {
    if (input.dim() < 2 || input.size(1) != options.num_features())
      throw Error("fulgurite.distributed.sync_batchnorm_input",
                  "SyncBatchNorm(" + std::to_string(options.num_features()) +
                      ") takes samples x channels, or samples x channels x ..., with so many channels, and was given " +
                      std::to_string(input.dim()) + " dimensions" +
                      (input.dim() < 2 ? "" : " and " + std::to_string(input.size(1)) + " channels"));
  }

 private:
  /// A copy of a layer, such as that of an average of weights, belongs to no fit.
  struct Connection {
    libtorch::LayerRanks* of = nullptr;
    Connection() = default;
    Connection(Connection const&) {}
    Connection& operator=(Connection const&) { return *this; }
  };

  void follow(libtorch::Moments const& moments) {
    at::NoGradGuard const no_graph;
    num_batches_tracked += 1;
    double const share = options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
    auto const unbiased = moments.variance * (moments.count / (moments.count - 1).clamp_min(1));
    running_mean.mul_(1 - share).add_(moments.mean.to(running_mean.scalar_type()), share);
    running_var.mul_(1 - share).add_(unbiased.to(running_var.scalar_type()), share);
  }

  Connection ranks_ = {};
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace fulgurite
