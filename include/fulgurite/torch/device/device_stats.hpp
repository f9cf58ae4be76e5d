#pragma once
// How much memory LibTorch's allocator of a device holds, and how to wait for a device.

#include <string>
#include <utility>
#include <vector>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <torch/cuda.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch {

/// Bytes and counts under the names of PyTorch's torch.cuda.memory_stats ("allocated_bytes.all.current", "... .peak",
/// "num_ooms"). Empty for the CPU.
FULGURITE_COLD std::vector<std::pair<std::string, double>> device_stats(c10::Device device) {
  std::vector<std::pair<std::string, double>> stats;
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
  return stats;
}

/// Returns when the device has done all that it was given; at once for the CPU.
inline void synchronize(c10::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

}  // namespace fulgurite::libtorch
