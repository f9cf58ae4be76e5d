#pragma once
// What MeanMetric, MinMax and MeanOfLast take of a value.

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/values.hpp>
#include <fulgurite/torch/metric/tally_regression.hpp>

namespace fulgurite {

namespace libtorch {

/// A tensor, or a number of the host.
template <class V>
concept TensorOrNumber = std::is_arithmetic_v<V> || std::same_as<V, at::Tensor>;

inline at::Tensor as_tensor(double value) { return at::scalar_tensor(value, at::TensorOptions(at::kDouble)); }
inline at::Tensor as_tensor(at::Tensor const& value) { return value.defined() ? value.detach() : value; }

FULGURITE_COLD void require_values(at::Tensor const& value, std::string_view who) {
  if (!value.defined() || value.numel() == 0)
    throw Error("fulgurite.metric.shape",
                std::string(who) + " was updated with no value: give it a number or a tensor that has some");
}

}  // namespace libtorch

namespace metric {

/// What an update of each adds; found by the compiler through the definition. A weight belongs to every element.
template <libtorch::TensorOrNumber V>
at::Tensor tally(MeanMetric const& of, V const& value, double weight = 1) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  auto const sums = libtorch::sum_and_count(values);
  return weight == 1 ? sums : sums * weight;
}
template <libtorch::TensorOrNumber V>
at::Tensor tally(MinMax const& of, V const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  return at::stack({-values.amin().to(at::kDouble), values.amax().to(at::kDouble)});
}
template <libtorch::TensorOrNumber V>
at::Tensor tally(MeanOfLast const& of, V const& value) {
  auto const values = libtorch::as_tensor(value);
  libtorch::require_values(values, of.name());
  if (values.numel() != 1)
    throw Error("fulgurite.metric.shape", "MeanOfLast was updated with a tensor of " + std::to_string(values.numel()) +
                                              " elements: give it the mean()");
  return values.reshape({1});
}

}  // namespace metric
}  // namespace fulgurite
