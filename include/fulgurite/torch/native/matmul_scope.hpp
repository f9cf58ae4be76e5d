#pragma once
// MatmulScope: until it ends, matrix products of this thread use LIBXSMM if that gives the same bits. Separate from
// products.hpp, so that a program that trains includes neither that header nor the operators of LibTorch behind it.

#include <string>
#include <vector>

#include <ATen/Context.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/gpu_kernels.hpp>

namespace fulgurite::libtorch::native {

/// True if the kernels are in place; the first call installs them. Their key is the one below that of the recorder of
/// captured steps, so both work at once. Every thread includes this key anyway, and LibTorch has no kernels there for
/// these operators, so nothing is replaced. If no scope is open, the kernels only check that and forward the call.
/// False if the program has no LIBXSMM, or other code has registered kernels there (such as another copy of this
/// library with hidden symbols).
bool intercepts();

}  // namespace fulgurite::libtorch::native

namespace fulgurite {

/// While this object lives, mm, addmm, bmm, baddbmm and linear of float32 tensors on the CPU are computed by LIBXSMM's
/// kernels instead of MKL's, forward and backward, on this thread and on those that autograd starts from it. No bit of
/// a result changes, except with `Matmul::fastest`: each product is certified before it is used. Without LIBXSMM
/// nothing happens. `MatmulScope(Matmul::fastest, torch::kCUDA)` installs the kernels of gpu_kernels.hpp, too; a scope
/// counts for tensors of both kinds of devices. An inner
/// scope overrides the outer one: `MatmulScope const plain(Matmul::libtorch);`.
class MatmulScope {
 public:
  explicit MatmulScope(Matmul how = Matmul::faster, c10::DeviceType device = c10::DeviceType::CPU)
      : marked_(how != Matmul::libtorch && is_possible(device) ? how : Matmul::libtorch) {}
  MatmulScope(MatmulScope const&) = delete;
  MatmulScope& operator=(MatmulScope const&) = delete;

 private:
  static bool is_possible(c10::DeviceType device) {
    if (device != c10::DeviceType::CPU) return libtorch::native::intercepts_on_gpu();
    using enum at::Float32Precision;
    auto const wanted = at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
    bool const exact = wanted == NONE || wanted == IEEE;  // LibTorch can be configured to compute in less than float32
    return exact && libtorch::native::intercepts();
  }

  libtorch::Marked marked_;
};

}  // namespace fulgurite

namespace fulgurite::libtorch::native {

/// The lines that a strategy prints about the products of the process so far.
std::vector<std::string> products_account(Matmul how);

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/matmul_scope.ipp>
#endif
