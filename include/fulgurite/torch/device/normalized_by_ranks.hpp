#pragma once
// A normalization by moments of several ranks, and its gradient, for which one all-reduce sums in float64.

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/moments_of_ranks.hpp>

namespace fulgurite::libtorch {

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
