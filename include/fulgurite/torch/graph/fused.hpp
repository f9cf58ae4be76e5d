#pragma once
// Updates whose changing numbers lie on the device: they can be part of a graph, and skip a step with infinite gradients without the host
// looking. fulgurite::optim does not use them so far.

#include <optional>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>

#include <fulgurite/torch/optim/adam.hpp>
#include <fulgurite/torch/optim/sgd.hpp>

namespace fulgurite::libtorch::graph {

/// One float each, on the parameters' device. A schedule writes `lr.fill_(value)`, which the host does not wait for.
struct Numbers {
  at::Tensor lr, step;                        ///< `step`: taken so far
  std::optional<at::Tensor> found_inf = {};   ///< 1: this step is skipped, and not counted; as `_amp_foreach_non_finite_check_and_unscale_` says it

  static Numbers on(at::Device device, double lr, long steps = 0) {
    auto const one = [&](double value) { return at::full({}, value, at::TensorOptions(device).dtype(at::kFloat)); };
    return {one(lr), one(static_cast<double>(steps))};
  }
};

/// The step of optim::Adam or optim::AdamW in one kernel for a flat buffer; `max_exp_avg_sq` is undefined without amsgrad. Same arithmetic,
/// other rounding: 2e-7 off after some steps. The options' own lr is not used.
template <class Options>
void fused_adam(at::Tensor const& parameters, at::Tensor const& gradients, at::Tensor const& exp_avg, at::Tensor const& exp_avg_sq,
                at::Tensor const& max_exp_avg_sq, Numbers const& numbers, Options const& o) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> largest;
  if (o.amsgrad) largest.push_back(max_exp_avg_sq);
  numbers.step.add_(1);
  auto const update = [&](auto&& fused) {
    fused(parameters, gradients, exp_avg, exp_avg_sq, largest, numbers.step, numbers.lr, o.betas[0], o.betas[1], o.weight_decay, o.eps, o.amsgrad,
          false, std::nullopt, numbers.found_inf);
  };
  if constexpr (std::is_same_v<Options, optim::AdamWOptions>) update([](auto const&... all) { at::_fused_adamw_(all...); });
  else update([](auto const&... all) { at::_fused_adam_(all...); });
  if (numbers.found_inf) numbers.step.sub_(numbers.found_inf->reshape({}));
}

/// The step of optim::SGD. `momentum_buffer` is undefined without momentum, else zero at first; `first` only matters with dampening, and is a
/// number of the host.
inline void fused_sgd(at::Tensor const& parameters, at::Tensor const& gradients, at::Tensor const& momentum_buffer, Numbers const& numbers,
                      optim::SGDOptions const& o, bool first = false) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> buffers;
  if (o.momentum != 0) buffers.push_back(momentum_buffer);
  at::_fused_sgd_(parameters, gradients, buffers, o.weight_decay, o.momentum, numbers.lr, o.dampening, o.nesterov, false, first, std::nullopt,
                  numbers.found_inf);
  numbers.step.add_(1);
  if (numbers.found_inf) numbers.step.sub_(numbers.found_inf->reshape({}));
}

}  // namespace fulgurite::libtorch::graph
