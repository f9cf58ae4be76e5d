#pragma once
// A fake accelerator: LibTorch's PrivateUse1 backend under the name "fake", two devices in the memory of the host. Its
// kernels are the CPU's, so results have the CPU's bits; what a library can get wrong on a GPU is counted or fails:
//   memory    no data pointer can be read by the host (SIGSEGV), and new memory is full of NaN.
//   devices   an operator on tensors of two devices throws, as on CUDA.
//   copies    are counted, with their bytes. One of pinned memory that need not block happens as late as it may: before
//             the device's next kernel, or when the host waits.
//   waits     of the host are counted, and so are the operators whose result it reads.
// fake_device.cpp registers it for the whole process, so its tests are a program of their own.

#include <mutex>

#include <ATen/core/Tensor.h>

namespace fake {

constexpr auto device_type = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex device_count = 2;
inline at::Device device(c10::DeviceIndex index = 0) { return {device_type, index}; }

struct Counts {
  long kernels = 0;      ///< operators that ran on a device
  long reads = 0;        ///< of them those that the host waited for: item(), nonzero(), a mask as an index
  long waits = 0;        ///< how often the host waited for a device, by a read, a copy or on purpose
  long uploads = 0;      ///< copies to a device
  long uploaded = 0;     ///< their bytes
  long downloads = 0;    ///< copies to the host
  long downloaded = 0;   ///< their bytes
  long overlapping = 0;  ///< of both those that the host did not wait for
  long pageable = 0;     ///< copies that should have overlapped, of memory that was not pinned
  long streams = 0;      ///< how often a thread changed its stream
  long overwritten = 0;  ///< pinned memory that the host wrote to before it had waited for the copy from it
};

/// Guards all that the device keeps.
inline std::recursive_mutex lock;
/// Since a test set it to {}.
inline Counts counts;

}  // namespace fake
