#pragma once
// The bodies of torch/device/single_device.hpp.

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite::libtorch {

/// True if LibTorch was built for this accelerator, and there is such a device.
FULGURITE_BODY bool is_seen(at::Device device) {
  auto const& hooks = at::globalContext().getAcceleratorHooksInterface(device.type());
  return hooks.isAvailable() && device.index() < hooks.deviceCount();
}

FULGURITE_BULK_BODY at::Device device_of(Cpu) { return at::Device(at::kCPU); }

/// Throws for a GPU that is not there.
[[noreturn]] FULGURITE_BODY void refuse_index(int index) {
  throw Error("fulgurite.strategy.cuda_index", "SingleDevice{cuda}: GPU " + std::to_string(index) +
                                                   " was asked for, but there are " +
                                                   std::to_string(int(torch::cuda::device_count())) +
                                                   ", counted from 0: choose one of them, or see CUDA_VISIBLE_DEVICES");
}

FULGURITE_BULK_BODY at::Device device_of(Cuda device) {
  if (!std::in_range<at::DeviceIndex>(device.index)) refuse_index(device.index);
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
}

/// The CPU or an accelerator, by LibTorch's name for it and an index; nullopt for any other text.
FULGURITE_BODY std::optional<at::Device> known_device(std::string_view name) {
  auto const colon = std::min(name.find(':'), name.size());
  int index = 0;
  if (colon != name.size()) {
    char const* const end = name.data() + name.size();
    auto const [stopped, fault] = std::from_chars(name.data() + colon + 1, end, index);
    if (fault != std::errc{} || stopped != end || !std::in_range<at::DeviceIndex>(index) || index < 0) return {};
  }
  try {
    auto const type = at::Device(std::string(name.substr(0, colon))).type();
    if (type == at::kCPU && colon == name.size()) return at::Device(at::kCPU);
    if (at::isAccelerator(type)) return at::Device(type, static_cast<at::DeviceIndex>(index));
  } catch (c10::Error const&) {
    // LibTorch's message lists the names of devices, most of which it was not built for.
  }
  return {};
}

FULGURITE_BODY at::Device device_of(Accelerator const& device) {
  auto const known = known_device(device.name);
  if (!known || known->is_cpu())
    throw Error("fulgurite.strategy.accelerator",
                "Accelerator{\"" + device.name +
                    "\"}: LibTorch has no accelerator of that name: write xpu, mps, xpu:1 "
                    "(the second one) or the name that your backend has registered");
  return *known;
}

FULGURITE_BULK_BODY at::Device device_of(AutomaticDevice) {
  if (torch::cuda::is_available()) return device_of(cuda);
  auto const type = at::getAccelerator();
  return type && is_seen(at::Device(*type, 0)) ? at::Device(*type, 0) : device_of(cpu);
}

FULGURITE_BODY at::Device device_of(NamedDevice const& device) {
  if (device.name == "auto") return device_of(automatic);
  if (auto const known = known_device(device.name)) return *known;
  throw Error("fulgurite.strategy.device", "NamedDevice{\"" + device.name +
                                               "\"}: no device is called that: write cpu, cuda, cuda:1 (the second "
                                               "GPU), auto, or LibTorch's name of another accelerator, such as xpu");
}

FULGURITE_BODY void require_device(at::Device device) {
  if (device.is_cuda()) {
    if (!torch::cuda::is_available())
      throw Error("fulgurite.strategy.cuda_absent",
                  "SingleDevice{cuda}: GPU " + std::to_string(int(device.index())) +
                      " was asked for, but LibTorch sees no CUDA device: install a driver and a LibTorch "
                      "built with CUDA, link the program with torch_cuda and c10_cuda, as tools/dev flags does, or "
                      "use SingleDevice{cpu} or SingleDevice{automatic}");
    if (device.index() < 0 || device.index() >= torch::cuda::device_count()) refuse_index(device.index());
  } else if (!device.is_cpu() && !is_seen(device)) {
    throw Error("fulgurite.strategy.accelerator_absent",
                device.str() + " was asked for, but LibTorch sees no such device: take a LibTorch that was built for "
                               "it, install its driver, count from 0, or use SingleDevice{automatic}");
  }
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BODY bool keep_freed_memory([[maybe_unused]] std::size_t bytes) {
#if defined(__GLIBC__)
  // The largest threshold that every glibc accepts is 32 MB.
  auto const kept = static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  return ::mallopt(M_MMAP_THRESHOLD, 1 << 25) == 1 && ::mallopt(M_TRIM_THRESHOLD, kept) == 1;
#else
  return false;
#endif
}

}  // namespace fulgurite
