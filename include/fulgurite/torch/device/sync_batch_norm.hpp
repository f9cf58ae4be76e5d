#pragma once
// A batch norm whose mean and variance are those of all ranks' batches together.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/moments_of_ranks.hpp>

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
