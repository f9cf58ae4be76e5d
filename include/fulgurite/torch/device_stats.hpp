#pragma once
// What LibTorch's allocator of a device tells of the memory it holds, and the wait for a device.

#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <torch/cuda.h>

#if __has_include(<c10/core/CachingDeviceAllocator.h>)
#include <c10/core/CachingDeviceAllocator.h>
#endif

namespace fulgurite::libtorch {

/// Bytes and counts under PyTorch's names of torch.cuda.memory_stats ("allocated_bytes.all.current", "... .peak", "num_ooms"). Empty for
/// the CPU, and where this LibTorch (before 2.9) has no common interface to its allocators.
inline std::vector<std::pair<std::string, double>> device_stats([[maybe_unused]] c10::Device device) {
  std::vector<std::pair<std::string, double>> stats;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
  if (device.is_cpu()) return stats;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return stats;
  auto const known = allocator->getDeviceStats(device.index());
  auto const add = [&](std::string const& name, c10::CachingAllocator::StatArray const& of) {
    auto const& all = of[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    stats.emplace_back(name + ".all.current", static_cast<double>(all.current));
    stats.emplace_back(name + ".all.peak", static_cast<double>(all.peak));
  };
  add("allocation", known.allocation);
  add("segment", known.segment);
  add("allocated_bytes", known.allocated_bytes);
  add("reserved_bytes", known.reserved_bytes);
  add("active_bytes", known.active_bytes);
  add("inactive_split_bytes", known.inactive_split_bytes);
  stats.emplace_back("num_alloc_retries", static_cast<double>(known.num_alloc_retries));
  stats.emplace_back("num_ooms", static_cast<double>(known.num_ooms));
#endif
  return stats;
}

/// Waits until the device has done what it was given; at once on the CPU.
inline void synchronize(c10::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

}  // namespace fulgurite::libtorch
