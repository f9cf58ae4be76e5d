#pragma once
// Memory that runs out: which exceptions of LibTorch say so, and what its caches hold.

#include <array>
#include <exception>
#include <optional>
#include <string_view>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

namespace fulgurite::libtorch {

/// Whether a text of LibTorch says that there was no memory for something. LibTorch has a type for it on GPUs alone;
/// its allocator on the CPU, the CUDA runtime and NVIDIA's libraries say it in words.
inline bool tells_of_no_memory(std::string_view text) {
  static constexpr std::array<std::string_view, 11> words{
      "DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory",
      "CUDA out of memory",
      "CUDA error: out of memory",
      "CUDA driver error: out of memory",
      "CUBLAS_STATUS_ALLOC_FAILED",
      "CUSOLVER_STATUS_ALLOC_FAILED",
      "CUDNN_STATUS_ALLOC_FAILED",
      "DEVICE_ALLOCATION_FAILED",  // of cuDNN 9, with its name before it
      "HOST_ALLOCATION_FAILED",
      // What cuDNN of old says where it finds no algorithm whose workspace can be had.
      "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
  };
  for (auto const& word : words)
    if (text.find(word) != text.npos) return true;
  return false;
}

inline bool out_of_memory(std::exception const& error) {
  return dynamic_cast<c10::OutOfMemoryError const*>(&error) != nullptr || tells_of_no_memory(error.what());
}

/// The allocator of a GPU that is in use; null for the CPU.
inline c10::DeviceAllocator* device_allocator(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

/// Gives back what is kept for later and in use by nobody: of the device's allocator, and of the C library.
inline void free_caches(c10::Device device) {
  if (auto* const allocator = device_allocator(device)) allocator->emptyCache();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

/// The most bytes of the device that tensors had at one time since `restart_peak_memory`; nothing for the CPU.
inline std::optional<double> peak_memory(c10::Device device) {
  auto* const allocator = device_allocator(device);
  if (allocator == nullptr) return std::nullopt;
  auto const known = allocator->getDeviceStats(device.index());
  return static_cast<double>(
      known.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}
inline void restart_peak_memory(c10::Device device) {
  if (auto* const allocator = device_allocator(device)) allocator->resetPeakStats(device.index());
}

}  // namespace fulgurite::libtorch
