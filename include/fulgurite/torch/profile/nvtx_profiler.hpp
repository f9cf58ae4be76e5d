#pragma once
// Marks the parts of a run for NVIDIA's tools, such as Nsight Systems.

#include <fulgurite/core/body.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>

namespace fulgurite {

/// A callback that makes every action of a run an NVTX range: pass `NvtxProfiler{}` to make_trainer, then run the
/// program by `nsys profile`. While no tool is attached, a range costs one check of a pointer. The library's bodies are
/// compiled with NVTX's header, which comes with CUDA and with the wheels of LibTorch's CUDA build; nothing is linked.
/// Without that header the fit's start throws [fulgurite.callback.nvtx].
struct NvtxProfiler {
  using Hooks = Implements<hook::profile_action>;
  static constexpr Order order = Order::profiler;

  /// An open range.
  struct Range : Pinned {
    bool open;
    explicit Range(ProfiledAction const& action);
    ~Range();
  };
  Range profile_action(ProfiledAction const& action) { return Range(action); }
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/profile/nvtx_profiler.ipp>
#endif
