#pragma once
// The bodies of torch/device/sync_batch_norm.hpp.

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/sync_batch_norm.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY at::Tensor widened(at::Tensor const& tensor) {
  return tensor.defined() ? tensor.to(at::toOpMathType(tensor.scalar_type())) : tensor;
}

FULGURITE_BULK_BODY at::Tensor along_channels(at::Tensor const& values, at::Tensor const& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(input.scalar_type()).view(shape);
}

/// The moments over all ranks, from each rank's own moments. This loses no precision if means are far from zero. A rank
/// without samples does not count.
FULGURITE_BULK_BODY Moments moments_of(at::Tensor const& input, LayerRanks& ranks) {
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
  if (count.is_cpu() && count.item<double>() < 2)  // as in LibTorch; on a GPU this check would have to wait
    throw Error("fulgurite.distributed.sync_batchnorm_input",
                "all ranks together have fewer than 2 values in a channel, which have no variance: give the batch more "
                "samples, or evaluate the model");
  auto const mean = (means * counts).sum(0) / count;
  return {mean, ((variances + (means - mean).square()) * counts).sum(0) / count, count};
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BULK_BODY at::Tensor SyncBatchNormImpl::forward(at::Tensor const& input) {
  if (ranks_.of == nullptr || !is_training()) return BatchNormImplBase::forward(input);
  _check_input_dim(input);
  auto const moments = libtorch::moments_of(input, *ranks_.of);
  if (options.track_running_stats()) follow(moments);
  auto const given = [](at::Tensor const& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; };
  return ranks_.of->normalize(input, given(weight), given(bias), moments, options.eps());
}

FULGURITE_BULK_BODY void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "fulgurite::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

FULGURITE_BULK_BODY void SyncBatchNormImpl::_check_input_dim(at::Tensor const& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features())
    throw Error("fulgurite.distributed.sync_batchnorm_input",
                "SyncBatchNorm(" + std::to_string(options.num_features()) +
                    ") takes samples x channels, or samples x channels x ..., with so many channels, and was given " +
                    std::to_string(input.dim()) + " dimensions" +
                    (input.dim() < 2 ? "" : " and " + std::to_string(input.size(1)) + " channels"));
}

FULGURITE_BULK_BODY void SyncBatchNormImpl::follow(libtorch::Moments const& moments) {
  at::NoGradGuard const no_graph;
  num_batches_tracked += 1;
  double const share = options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
  auto const unbiased = moments.variance * (moments.count / (moments.count - 1).clamp_min(1));
  running_mean.mul_(1 - share).add_(moments.mean.to(running_mean.scalar_type()), share);
  running_var.mul_(1 - share).add_(unbiased.to(running_var.scalar_type()), share);
}

}  // namespace fulgurite
