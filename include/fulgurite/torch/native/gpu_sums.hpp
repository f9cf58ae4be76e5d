#pragma once
// Operators on a GPU that Matmul::fastest computes by kernels of this library: layer norm, and sums over the rows of a
// matrix, which are the gradients of biases and of layer norms' weights. LibTorch's kernels keep few processors of the
// GPU busy where a matrix has many more rows than columns.

#include <array>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

/// True if the operators below are in front of LibTorch's; the first call installs them.
bool intercepts_on_gpu();

/// In front of aten::sum over dimensions: while a scope of Matmul::fastest is open, our kernels for float32 and
/// bfloat16 on a GPU where the leading dimensions are summed. They add in float32, rows in parts of a fixed length, so
/// that a result has the same bits in each run.
at::Tensor sum_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::OptionalIntArrayRef dimensions,
                           bool keeps, std::optional<at::ScalarType> type);

/// In front of aten::native_layer_norm: likewise for float32 and rows of 128, 256, ... 1024 numbers.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
layer_norm_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, c10::SymIntArrayRef shape,
                       std::optional<at::Tensor> const& weight, std::optional<at::Tensor> const& bias, double eps);

/// In front of aten::native_layer_norm_backward: likewise the gradients of weight and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
layer_norm_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient, at::Tensor const& x,
                                c10::SymIntArrayRef shape, at::Tensor const& mean, at::Tensor const& rstd,
                                std::optional<at::Tensor> const& weight, std::optional<at::Tensor> const& bias,
                                std::array<bool, 3> wanted);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/gpu_sums.ipp>
#endif
