#pragma once
// The device that operators of this thread use where only its kind is named, as torch::kCUDA does.

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace fulgurite::libtorch {

/// From here on it is this one, for the CPU nothing changes.
inline void make_current(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

}  // namespace fulgurite::libtorch
