#pragma once
// Kernels in CUDA C++ that are compiled while the program runs, by the compiler that LibTorch itself loads (NVRTC), so
// that neither nvcc nor a header of CUDA is needed; and the operators on a GPU that Matmul::fastest computes by such
// kernels: layer norm, and sums over the rows of a matrix, which are the gradients of biases and of layer norms'
// weights. LibTorch's kernels keep few processors of the GPU busy where a matrix has many more rows than columns.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

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

// Operators in front of LibTorch's.

/// True if the operators below are in front of LibTorch's; the first call installs them.
bool intercepts_on_gpu();

/// In front of aten::sum over dimensions: while a scope of Matmul::fastest is open, our kernels for float32 and
/// bfloat16 on a GPU where the leading dimensions are summed. They add in float32, rows in parts of a fixed length, so
/// that a result has the same bits in each run.
at::Tensor sum_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, at::OptionalIntArrayRef dimensions,
                           bool keeps, std::optional<at::ScalarType> type);

/// In front of aten::native_layer_norm: likewise for float32 and rows of 128, 256, ... 1024 numbers, with a weight and
/// a bias.
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
#include <fulgurite/torch/native/gpu_kernels.ipp>
#endif
