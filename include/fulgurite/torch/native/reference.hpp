#pragma once
// The same product by LibTorch's own kernels, below everything that somebody may have put before them.

#include <cstdint>

#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include <fulgurite/torch/native/shape.hpp>

namespace fulgurite::libtorch::native {

/// `c` is contiguous; with Epilogue::onto and then_onto it holds what is added to. `row`: what Epilogue::row adds.
inline void product_by_libtorch(Epilogue epilogue, at::Tensor const& a, at::Tensor const& b, at::Tensor const& c,
                                at::Tensor const& row) {
  auto to = c;
  if (epilogue == Epilogue::then_onto) {
    auto const product = at::empty_like(c);
    product_by_libtorch(Epilogue::none, a, b, product, row);
    at::cpu::add_(to, product);
    return;
  }
  bool const plain = a.dim() == 2;
  if (epilogue == Epilogue::row) {
    at::cpu::addmm_out(to, row, a, b);
  } else if (epilogue == Epilogue::onto) {
    if (plain) at::cpu::addmm_(to, a, b);
    else at::cpu::baddbmm_(to, a, b);
  } else {
    if (plain) at::cpu::mm_out(to, a, b);
    else at::cpu::bmm_out(to, a, b);
    if (epilogue == Epilogue::none) return;
    auto* const numbers = static_cast<float*>(c.mutable_data_ptr());
    for (std::int64_t i = 0; i != c.numel(); ++i) numbers[i] = 0.0F + numbers[i];
  }
}

}  // namespace fulgurite::libtorch::native
