#pragma once
// MatmulScope: until it ends, matrix products of this thread take the faster way where it gives the same bits.

#include <ATen/Context.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/native/eager.hpp>

namespace fulgurite {

/// mm, addmm, bmm, baddbmm and linear of float32 tensors on the CPU are computed by LIBXSMM's kernels instead of
/// MKL's, forward and backward, on this thread and on those that autograd starts from it. No bit of a result changes:
/// each product is certified before it is used. Nothing happens where the program is built without LIBXSMM. A scope
/// within another one says anew what is done: `MatmulScope const as_ever(Matmul::libtorch);`.
class MatmulScope {
 public:
  explicit MatmulScope(Matmul how = Matmul::faster)
      : marked_(how != Matmul::libtorch && is_possible() ? how : Matmul::libtorch) {}
  MatmulScope(MatmulScope const&) = delete;
  MatmulScope& operator=(MatmulScope const&) = delete;

 private:
  FULGURITE_COLD static bool is_possible() {
    using enum at::Float32Precision;
    auto const wanted = at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
    bool const exact = wanted == NONE || wanted == IEEE;  // LibTorch can be told to compute in less than float32
    return exact && libtorch::native::intercepts();
  }

  libtorch::native::Marked marked_;
};

}  // namespace fulgurite
