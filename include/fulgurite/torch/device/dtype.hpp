#pragma once
// This library's names of element types, as LibTorch's scalar types.

#include <ATen/core/Tensor.h>

#include <fulgurite/policy/precision.hpp>

namespace fulgurite::libtorch {

constexpr at::ScalarType scalar_type(Dtype type) {
  switch (type) {
  case Dtype::float64: return at::ScalarType::Double;
  case Dtype::bfloat16: return at::ScalarType::BFloat16;
  case Dtype::float16: return at::ScalarType::Half;
  case Dtype::float32: break;
  }
  return at::ScalarType::Float;
}

/// Whether a precision changes the type of parameters and inputs, as Float64, Bf16True and Fp16True do.
template <class Precision>
inline constexpr bool converts_inputs = std::remove_cvref_t<Precision>::parameters != Dtype::float32;

}  // namespace fulgurite::libtorch
