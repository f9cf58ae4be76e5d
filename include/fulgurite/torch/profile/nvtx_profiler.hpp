#pragma once
// Names the parts of a run for NVIDIA's tools, Nsight Systems and the like. Only where NVTX's header is: it comes with
// CUDA, and with the wheels that LibTorch's CUDA build brings along. Nothing is linked.

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>

namespace fulgurite {

/// Every action of a run is a range: `NvtxProfiler{}`, then `nsys profile ./program`. While no tool watches, a range
/// costs a look at a pointer.
struct NvtxProfiler {
  using Hooks = Implements<hook::profile_action>;
  static constexpr Order order = Order::profiler;

  /// A range that is open.
  struct Range {
    bool open;
    explicit Range(ProfiledAction const& action) : open(action.counts) {
      if (open) nvtxRangePushA(action.name);
    }
    Range(Range const&) = delete;
    Range& operator=(Range const&) = delete;
    ~Range() {
      if (open) nvtxRangePop();
    }
  };
  Range profile_action(ProfiledAction const& action) { return Range(action); }
};

}  // namespace fulgurite

#endif
