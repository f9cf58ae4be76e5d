#pragma once
// Mean and variance of what several ranks have. Sums over ranks are in float64 and the same in all of them, since each
// makes them in the order of ranks.

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

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
