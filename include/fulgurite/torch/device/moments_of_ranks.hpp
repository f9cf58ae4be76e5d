#pragma once
// Mean and variance of what several ranks have, and a normalization by them with its gradient. Sums over ranks are in
// float64 and the same in all of them: those of moments are made on each in the order of ranks, those of gradients by
// one all-reduce.

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// What a layer asks of the same layer in other ranks. Both are collectives.
struct LayerRanks {
  virtual ~LayerRanks() = default;
  /// What each rank has, in the order of ranks along a new first dimension.
  virtual at::Tensor stack(at::Tensor const& mine) = 0;
  virtual void sum_in_place(at::Tensor const& tensor) = 0;
};

/// Of each channel over all ranks, in float64.
struct Moments {
  at::Tensor mean, variance;
  at::Tensor count;  ///< of values in a channel, a scalar
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

/// (input - mean) / sqrt(variance + eps) * weight + bias, where the moments are functions of all ranks' inputs.
/// LibTorch normalizes by moments that are given; what they depend on is added to its gradient here. The gradients of
/// weight and bias are this rank's part, as those of any other parameter.
struct NormalizedByRanks : torch::autograd::Function<NormalizedByRanks> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, at::Tensor const& input, std::optional<at::Tensor> const& weight,
                            std::optional<at::Tensor> const& bias, Moments const& moments, double eps,
                            LayerRanks* ranks) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), moments.mean, moments.variance, moments.count});
    context->saved_data["eps"] = eps;
    context->saved_data["ranks"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(ranks));
    if (input.numel() == 0) return at::empty_like(input);
    auto const x = widened(input);
    auto const type = x.scalar_type();
    return std::get<0>(at::native_batch_norm(x, given(weight.value_or(at::Tensor()), type),
                                             given(bias.value_or(at::Tensor()), type), moments.mean.to(type),
                                             moments.variance.to(type), false, 0, eps))
        .to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(Context* context, torch::autograd::variable_list const& gradients) {
    if (at::GradMode::is_enabled())
      throw Error("fulgurite.distributed.sync_batchnorm_twice",
                  "a gradient of a gradient goes through SyncBatchNorm, which does not know it: use a norm that does "
                  "not depend on the batch, such as GroupNorm, or leave create_graph out");
    auto const saved = context->get_saved_variables();
    auto const& [input, weight, mean, variance, count] = std::tie(saved[0], saved[1], saved[2], saved[3], saved[4]);
    auto const eps = context->saved_data["eps"].toDouble();
    auto* const ranks = reinterpret_cast<LayerRanks*>(static_cast<std::intptr_t>(context->saved_data["ranks"].toInt()));
    auto const x = widened(input);
    auto const type = x.scalar_type();
    auto const channels = mean.numel();

    auto own = x.numel() == 0 ? std::tuple(at::zeros_like(x), at::zeros({channels}, x.options()),
                                           at::zeros({channels}, x.options()))
                              : at::native_batch_norm_backward(gradients[0].to(type), x, given(weight, type),
                                                               mean.to(type), variance.to(type), {}, {}, false, eps,
                                                               std::array<bool, 3>{true, true, true});
    auto& [of_input, of_weight, of_bias] =
        own;  // the latter are the sums of gradients, by the normalized input and by 1
    if (context->needs_input_grad(0)) {
      auto const sums = at::cat({of_weight, of_bias}).to(at::kDouble);
      ranks->sum_in_place(sums);
      auto const scale = (variance + eps).rsqrt();
      auto const by_weight = weight.defined() ? scale * weight.detach() : scale;
      auto const slope = by_weight * scale * sums.narrow(0, 0, channels) / count;
      auto const offset = by_weight * sums.narrow(0, channels, channels) / count;
      of_input -= (x - along_channels(mean, x)).mul_(along_channels(slope, x)).add_(along_channels(offset, x));
    }
    auto const as = [](at::Tensor const& made, at::Tensor const& like) {
      return like.defined() ? made.to(like.scalar_type()) : at::Tensor();
    };
    return {as(of_input, input), as(of_weight, weight), as(of_bias, weight), {}, {}, {}};
  }

 private:
  static std::optional<at::Tensor> given(at::Tensor const& tensor, at::ScalarType type) {
    return tensor.defined() ? std::optional(tensor.detach().to(type)) : std::nullopt;
  }
};

}  // namespace fulgurite::libtorch
