#pragma once
// Kernels in CUDA C++ that are compiled while the program runs, by the compiler that LibTorch itself loads (NVRTC), so
// that neither nvcc nor a header of CUDA is needed.

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include <fulgurite/core/body.hpp>

namespace fulgurite::libtorch::native {

/// A kernel that is loaded on one GPU.
class GpuKernel {
 public:
  /// The kernel `name` of this source, compiled at the first call for a device and kept for the process; null if it
  /// cannot be compiled here. Products and sums are not contracted: the source calls `fma` where it means one. Must not
  /// be called for the first time while a CUDA graph is being recorded.
  static GpuKernel const* of(std::string const& source, std::string const& name, c10::Device device);

  /// Launches `blocks` blocks of `threads` threads on the current stream. `arguments`: a pointer to each argument.
  void launch(std::int64_t blocks, int threads, void** arguments) const;

 private:
  GpuKernel(void* function, c10::Device device) : function_(function), device_(device) {}
  void* function_;
  c10::Device device_;
};

}  // namespace fulgurite::libtorch::native

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/native/gpu_kernel.ipp>
#endif
