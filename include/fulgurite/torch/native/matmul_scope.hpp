#pragma once
// MatmulScope: until it ends, matrix products of this thread take the faster way where it gives the same bits. Apart
// from products.hpp, so that a program that trains reads neither that nor the operators of LibTorch behind it.

#include <string>
#include <vector>

#include <ATen/Context.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::native {

/// Whether the kernels are in place, which the first call sees to. The key is the one below that of the recorder of
/// captured steps, so both work at once; every thread includes it anyway, and for these operators LibTorch has nothing
/// there, so nothing is replaced. Where no scope is open they ask for that and pass on. False: the program has no
/// LIBXSMM, or somebody else has put kernels there (another copy of this library with hidden symbols).
bool intercepts();

}  // namespace fulgurite::libtorch::native

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
  static bool is_possible() {
    using enum at::Float32Precision;
    auto const wanted = at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
    bool const exact = wanted == NONE || wanted == IEEE;  // LibTorch can be told to compute in less than float32
    return exact && libtorch::native::intercepts();
  }

  libtorch::Marked marked_;
};

}  // namespace fulgurite

namespace fulgurite::libtorch::native {

/// What a strategy tells of the products of the process so far, for a person.
std::vector<std::string> products_account(Matmul how);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/matmul_scope.ipp>
#endif
