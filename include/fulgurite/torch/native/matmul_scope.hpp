#pragma once
// MatmulScope: until it ends, matrix products of this thread use LIBXSMM if that gives the same bits, and with
// Matmul::fastest some operators on a GPU use kernels of this library. Separate from products.hpp, so that a program
// that trains includes neither that header nor the operators of LibTorch behind it.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <c10/core/Device.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::native {

// Kernels in CUDA C++ that are compiled while the program runs, by the compiler that LibTorch itself loads (NVRTC), so
// that neither nvcc nor a header of CUDA is needed; and the operators on a GPU that Matmul::fastest computes by such
// kernels: layer norm, and sums over the rows of a matrix, which are the gradients of biases and of layer norms'
// weights. LibTorch's kernels keep few processors of the GPU busy where a matrix has many more rows than columns.

/// A kernel that is loaded on one GPU.
class GpuKernel {
 public:
  /// The kernel `name` of this source, compiled at the first call for a device and kept for the process. Products and
  /// sums are not contracted: the source calls `fma` where it means one. Null if it cannot be compiled here, or not now
  /// because the current stream records a CUDA graph.
  static GpuKernel const* of(std::string const& source, std::string const& name, c10::Device device);

  /// Launches `blocks` blocks of `threads` threads on the device's current stream. `arguments`: a pointer to each
  /// argument.
  void launch(std::int64_t blocks, int threads, void** arguments) const;

  GpuKernel(void* function, c10::Device device) : function_(function), device_(device) {}

 private:
  void* function_;
  c10::Device device_;
};

/// True while the device's current stream records a CUDA graph, in which nothing can be compiled or compared.
bool is_recording_graph(c10::Device device);

/// True if operators on a GPU are in front of LibTorch's; the first call installs them.
bool intercepts_on_gpu();

// Matrix products on the CPU in front of LibTorch's.

/// True if the kernels are in place; the first call installs them. Their key is the one below that of the recorder of
/// captured steps, so both work at once. Every thread includes this key anyway, and LibTorch has no kernels there for
/// these operators, so nothing is replaced. If no scope is open, the kernels only check that and forward the call.
/// False if the program has no LIBXSMM, or other code has registered kernels there (such as another copy of this
/// library with hidden symbols).
bool intercepts();

/// The lines that a strategy prints about the products of the process so far.
std::vector<std::string> products_account(Matmul how);

}  // namespace fulgurite::libtorch::native

namespace fulgurite {

/// While this object lives, mm, addmm, bmm, baddbmm and linear of float32 tensors on the CPU are computed by LIBXSMM's
/// kernels instead of MKL's, forward and backward, on this thread and on those that autograd starts from it. No bit of
/// a result changes, except with `Matmul::fastest`: each product is certified before it is used. Without LIBXSMM
/// nothing happens. `MatmulScope(Matmul::fastest, torch::kCUDA)` installs the kernels for GPUs, too; a scope counts for
/// tensors of both kinds of devices. An inner scope overrides the outer one, such as
/// `MatmulScope const plain(Matmul::libtorch);`.
class MatmulScope : Pinned {
 public:
  explicit MatmulScope(Matmul how = Matmul::faster, c10::DeviceType device = c10::DeviceType::CPU)
      : marked_(how != Matmul::libtorch && is_possible(device) ? how : Matmul::libtorch) {}

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/matmul_scope.ipp>
#endif
