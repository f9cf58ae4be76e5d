#pragma once
// NCCL as LibTorch brings it: sums on GPUs. Compiled where the headers of CUDA and NCCL are.

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/cuda.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>

#if defined(FULGURITE_HAS_NCCL)
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace fulgurite::distributed {

/// Whether this program and this machine have it, with a GPU for each of these processes; else an Error that says what
/// is missing.
inline void require_nccl(int local_world) {
#if !defined(FULGURITE_HAS_NCCL)
  static_cast<void>(local_world);
  throw Error(
      "fulgurite.distributed.nccl_absent",
      "NCCL was asked for, and this program was compiled without it: it needs a LibTorch with CUDA, the headers "
      "of the CUDA toolkit, and nccl.h; or take Collectives::gloo, which computes on the CPU");
#else
  if (!torch::cuda::is_available())
    throw Error("fulgurite.distributed.nccl_absent",
                "NCCL was asked for, and LibTorch sees no GPU here: install a driver, or take Collectives::gloo, which "
                "computes on the CPU");
  if (torch::cuda::device_count() < local_world)
    throw Error("fulgurite.distributed.gpus", "there are " + std::to_string(torch::cuda::device_count()) +
                                                  " GPUs for " + std::to_string(local_world) +
                                                  " processes of this machine: each needs one of its own; start "
                                                  "fewer, or take Collectives::gloo, which computes on the CPU");
#endif
}

#if defined(FULGURITE_HAS_NCCL)
/// This process's GPU becomes the thread's own, and is taken into use at once, so that CUDA is closed after whatever is
/// closed at the end of the process.
inline c10::intrusive_ptr<c10d::Backend> nccl_engine(Store const& store, Place const& place,
                                                     std::chrono::milliseconds timeout) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(place.local_rank), true);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.world, options);
}
#endif

}  // namespace fulgurite::distributed
