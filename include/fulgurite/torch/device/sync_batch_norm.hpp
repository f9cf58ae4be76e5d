#pragma once
// A batch norm whose mean and variance are those of all ranks' batches together.

#include <optional>
#include <ostream>

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

#include <fulgurite/core/body.hpp>

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
at::Tensor widened(at::Tensor const& tensor);
/// One number a channel, against an input of so many dimensions.
at::Tensor along_channels(at::Tensor const& values, at::Tensor const& input);

/// Each rank tells its own moments, from which those of all follow without loss where means lie far from zero. A rank
/// without samples counts for nothing.
Moments moments_of(at::Tensor const& input, LayerRanks& ranks);

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

  at::Tensor forward(at::Tensor const& input);

  /// Called by a strategy where a fit begins, and with nullptr where it ends.
  void connect(libtorch::LayerRanks* ranks) { ranks_.of = ranks; }

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(at::Tensor const& input) override;

 private:
  /// A copy of a layer, such as that of an average of weights, belongs to no fit.
  struct Connection {
    libtorch::LayerRanks* of = nullptr;
    Connection() = default;
    Connection(Connection const&) {}
    Connection& operator=(Connection const&) { return *this; }
  };

  void follow(libtorch::Moments const& moments);

  Connection ranks_ = {};
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/sync_batch_norm.ipp>
#endif
