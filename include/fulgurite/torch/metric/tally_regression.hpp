#pragma once
// What MeanSquaredError, MeanAbsoluteError and R2 sum up of a batch.

#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/regression.hpp>
#include <fulgurite/torch/metric/samples_judged.hpp>

namespace fulgurite {

namespace libtorch {

/// Predictions minus targets, in single precision where neither has double. Shapes that LibTorch would stretch are an
/// Error: [batch, 1] and [batch] would compare everything with everything.
FULGURITE_BULK at::Tensor differences(at::Tensor const& predictions, at::Tensor const& target, std::string_view who) {
  if (!predictions.defined() || !target.defined())
    throw Error("fulgurite.metric.shape",
                std::string(who) + " was updated with an undefined tensor: give it predictions and targets");
  if (predictions.sizes() != target.sizes())
    refuse_shapes(predictions, target, who, "they must be the same; squeeze(1) takes an extent of 1 away");
  if (predictions.numel() == 0)
    throw Error("fulgurite.metric.shape", std::string(who) + " was updated with no sample: leave an empty batch out");
  auto const wide = [](at::Tensor const& tensor) {
    return tensor.scalar_type() == at::kDouble || at::isIntegralType(tensor.scalar_type(), true);
  };
  auto const type = wide(predictions) || wide(target) ? at::kDouble : at::kFloat;
  return predictions.detach().to(type) - target.detach().to(type);
}

/// A number of the host beside a tensor.
inline at::Tensor number_beside(at::Tensor const& tensor, double value) {
  return at::full({}, value, tensor.options().dtype(at::kDouble));
}

/// [sum, how many].
inline at::Tensor sum_and_count(at::Tensor const& terms) {
  return at::stack({terms.sum(at::kDouble), number_beside(terms, static_cast<double>(terms.numel()))});
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds to its sums; found by the compiler through the definition.
inline at::Tensor tally(MeanSquaredError const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::sum_and_count(libtorch::differences(predictions, target, of.name()).square());
}
inline at::Tensor tally(MeanAbsoluteError const& of, at::Tensor const& predictions, at::Tensor const& target) {
  return libtorch::sum_and_count(libtorch::differences(predictions, target, of.name()).abs());
}
inline at::Tensor tally(R2 const& of, at::Tensor const& predictions, at::Tensor const& target) {
  auto const errors = libtorch::differences(predictions, target, of.name());
  if (target.dim() < 1 || target.dim() > 2 || (target.dim() == 2 ? target.size(1) : 1) != of.outputs)
    libtorch::refuse_shapes(predictions, target, of.name(),
                            "give [batch, " + std::to_string(of.outputs) + "]" +
                                (of.outputs == 1 ? " or [batch]" : "") + ", or say .outputs");
  auto const targets = target.detach().to(at::kDouble).reshape({-1, of.outputs});
  auto const samples = libtorch::number_beside(targets, static_cast<double>(targets.size(0))).expand({of.outputs});
  auto const mean = targets.mean(0);
  return at::cat({samples, mean, (targets - mean).square().sum(0),
                  errors.to(at::kDouble).square().reshape({-1, of.outputs}).sum(0)});
}

}  // namespace metric
}  // namespace fulgurite
