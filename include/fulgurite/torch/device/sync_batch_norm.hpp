#pragma once
// A batch norm over the batches of all ranks: mean and variance are those of all batches together.

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

// Mean and variance over the values of several ranks. Sums over ranks are in float64 and identical in all ranks, since
// each rank adds in the order of ranks.

/// Mean and variance of each channel over all ranks, in float64.
struct Moments {
  at::Tensor mean, variance;
  at::Tensor count;  ///< number of values in a channel, a scalar
};

/// How a layer communicates with the same layer in other ranks. All functions are collectives; `normalize` is one in
/// backward.
struct LayerRanks {
  virtual ~LayerRanks() = default;
  /// The tensors of all ranks, in the order of ranks along a new first dimension.
  virtual at::Tensor stack(at::Tensor const& mine) = 0;
  virtual void sum_in_place(at::Tensor const& tensor) = 0;
  /// Applies NormalizedByRanks, whose headers programs with one process need not include.
  virtual at::Tensor normalize(at::Tensor const& input, std::optional<at::Tensor> const& weight,
                               std::optional<at::Tensor> const& bias, Moments const& moments, double eps) = 0;
};

/// The tensor in float32 if its type is narrower, in which layers compute.
at::Tensor widened(at::Tensor const& tensor);
/// Reshapes one number per channel for an input with this number of dimensions.
at::Tensor along_channels(at::Tensor const& values, at::Tensor const& input);

}  // namespace fulgurite::libtorch

namespace fulgurite {

/// Batch normalization over the samples of all ranks, for inputs with at least two dimensions, of which the second is
/// the channels: `SyncBatchNorm norm = register_module("norm", SyncBatchNorm(64));` instead of BatchNorm1d, 2d or 3d.
/// Parameters, buffers, options and their names are those of torch::nn::BatchNorm2d, so weights can be exchanged with
/// it.
///
/// In a fit of DistributedDataParallel with several ranks, a forward in training exchanges the moments of the channels,
/// and its backward the two sums that the gradient needs: one small collective each. All ranks must therefore run it
/// equally often. In evaluation and in one process its bits are those of a torch::nn::BatchNorm.
class SyncBatchNormImpl : public torch::nn::BatchNormImplBase<2, SyncBatchNormImpl> {
 public:
  using torch::nn::BatchNormImplBase<2, SyncBatchNormImpl>::BatchNormImplBase;

  at::Tensor forward(at::Tensor const& input);

  /// A strategy calls this when a fit begins, and with nullptr when it ends.
  void connect(libtorch::LayerRanks* ranks) { ranks_.of = ranks; }

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(at::Tensor const& input) override;

 private:
  /// A copy of a layer, such as in an average of weights, is not connected to a fit.
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
