#pragma once
// The norms of gradients, one for each parameter and one over all, with one read of the device.

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <fulgurite/callback/gradient_norm.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/weights/parameters.hpp>

namespace fulgurite {

namespace libtorch {

using Norms = std::vector<std::pair<std::string, double>>;

/// The norm of each gradient that is there; the last entry is the norm over all. Empty if there is none.
FULGURITE_BULK Norms gradient_norms(std::vector<std::pair<std::string, at::Tensor>> const& parameters, double type) {
  at::NoGradGuard const no_graph;
  Norms norms;
  std::vector<at::Tensor> gradients;
  for (auto const& [name, parameter] : parameters) {
    auto const& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    norms.emplace_back(name, 0.0);
    gradients.push_back(gradient.is_sparse() ? gradient.coalesce().values() : gradient);
  }
  if (gradients.empty()) return norms;
  auto each = at::_foreach_norm(gradients, type);
  for (auto& norm : each) norm = norm.to(gradients.front().device());
  auto const stacked = at::stack(each);
  norms.emplace_back("total", 0.0);
  auto const host =
      at::cat({stacked, at::linalg_vector_norm(stacked, type).unsqueeze(0)}).to(at::kDouble).cpu().contiguous();
  auto const* values = data_of<double>(host);
  for (auto& [name, value] : norms) value = *values++;
  return norms;
}

/// The norms of the parameters that the optimizer updates, by the model's names for them, or by their positions in the
/// optimizer if the model has no names.
template <class Model, class Optimizer>
Norms gradient_norms(Model& model, Optimizer& optimizer, double type) {
  auto const& stepped = optimizer.parameters();
  auto named = named_parameters(model);
  if (named.empty())
    for (auto const& parameter : stepped) named.emplace_back(std::to_string(named.size()), parameter);
  std::unordered_set<void const*> own;
  for (std::size_t i = 0; i != stepped.size(); ++i) {
    if constexpr (requires {
                    stepped.has_gradient(i);
                  })  // a gradient that stays is defined even if backward did not write to it
      if (!stepped.has_gradient(i)) continue;
    own.insert(stepped[i].unsafeGetTensorImpl());
  }
  std::erase_if(named, [&](auto const& one) { return !own.contains(one.second.unsafeGetTensorImpl()); });
  return gradient_norms(named, type);
}

}  // namespace libtorch

/// Lightning's grad_norm: `grad_2.0_norm/<name>` of each parameter that has a gradient, then `grad_2.0_norm_total`.
/// Waits once for the device. `GradientNorm` sends the same to the loggers.
template <std::derived_from<torch::nn::Module> Model>
std::vector<std::pair<std::string, double>> grad_norm(Model& model, double norm_type = 2.0) {
  GradientNorm::check(norm_type);
  auto norms = libtorch::gradient_norms(libtorch::named_parameters(model), norm_type);
  GradientNorm::name_all(norms, norm_type);
  return norms;
}

}  // namespace fulgurite
