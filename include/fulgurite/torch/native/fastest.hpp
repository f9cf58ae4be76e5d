#pragma once
// Operators besides products that Matmul::fastest computes by functions of this library, with other last bits than
// LibTorch's. A step as it is written and a tape call the same functions, so both have the same bits.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::native {

/// The operators that kernels of this library are in front of, here and in products.hpp.
inline constexpr std::array<std::string_view, 9> intercepted{
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::baddbmm",
    "aten::gelu_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward"};

/// to[i] = gradient[i] (Phi(x[i]) + x[i] phi(x[i])) with the normal distribution function Phi and its density phi: the
/// gradient of aten::gelu without approximation. The error of Phi is at most 2e-7. LibTorch's kernel computes an error
/// function that is exact to the last bit, and an exponential besides; here both are of one exponential.
void gelu_backward(float* to, float const* gradient, float const* x, std::int64_t n);

/// In front of LibTorch's own kernel: while a scope of Matmul::fastest is open, gelu_backward() for contiguous float32
/// tensors on the CPU.
at::Tensor gelu_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient, at::Tensor const& x,
                                     std::string_view approximate);

/// Attention of at most 128 rows, causal or not, by LIBXSMM's products, and its gradient. LibTorch's kernels multiply
/// by MKL, whose calls take longer than these products; `sums`: logarithms of the sums of exponentials, as LibTorch's.
std::tuple<at::Tensor, at::Tensor> attention_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& q,
                                                         at::Tensor const& k, at::Tensor const& v, double dropout,
                                                         bool causal, std::optional<at::Tensor> const& mask,
                                                         std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor>
attention_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient, at::Tensor const& q,
                               at::Tensor const& k, at::Tensor const& v, at::Tensor const& out, at::Tensor const& sums,
                               double dropout, bool causal, std::optional<at::Tensor> const& mask,
                               std::optional<double> scale);

/// One small layer of an LSTM in one direction, by LIBXSMM's products, and its gradient. LibTorch's are oneDNN's, which
/// took 1.1 to 9 times as long for such layers on one core of an Intel processor (forward and backward), and less time
/// than ours for larger ones. The last result of the forward pass is what the gradient needs of it; it is float32 from
/// ours and bytes from LibTorch's, so a gradient is always by the side that computed the layer.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
lstm_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::Tensor const& x_weight, at::Tensor const& h_weight,
                 at::Tensor const& x_bias, at::Tensor const& h_bias, at::Tensor const& h, at::Tensor const& c,
                 bool reverse, at::IntArrayRef batch_sizes, std::int64_t mode, std::int64_t hidden, std::int64_t layers,
                 bool has_biases, bool bidirectional, bool batch_first, bool train);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
lstm_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::Tensor const& x_weight,
                          at::Tensor const& h_weight, at::Tensor const& x_bias, at::Tensor const& h_bias,
                          at::Tensor const& h, at::Tensor const& c, at::Tensor const& out, at::Tensor const& last_h,
                          at::Tensor const& last_c, std::optional<at::Tensor> const& of_out,
                          std::optional<at::Tensor> const& of_last_h, std::optional<at::Tensor> const& of_last_c,
                          bool reverse, std::int64_t mode, std::int64_t hidden, std::int64_t layers, bool has_biases,
                          bool train, bool bidirectional, at::IntArrayRef batch_sizes, bool batch_first,
                          at::Tensor const& kept);

/// The function that a tape calls in place of an operator in its out variant, where the operator of the step as it is
/// written calls it, too; nullopt: none.
std::optional<SmallCall> fastest_call(std::string_view name, torch::jit::Stack const& arguments);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/fastest.ipp>
#endif
