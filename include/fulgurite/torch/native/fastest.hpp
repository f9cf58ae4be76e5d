#pragma once
// Operators besides products that Matmul::fastest computes by functions of this library, with other last bits than
// LibTorch's. A step as it is written and a tape call the same functions, so both have the same bits.

#include <array>
#include <optional>
#include <string_view>

#include <ATen/core/stack.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace torch {
class Library;
}

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

/// Registers the kernels of the operators in this list that are no products, at the key of the products.
void intercept_others(torch::Library& library);

/// The function that a tape calls in place of an operator in its out variant, where the operator of the step as it is
/// written calls it, too; nullopt: none.
std::optional<SmallCall> fastest_call(std::string_view name, torch::jit::Stack const& arguments);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/fastest.ipp>
#endif
