#pragma once
// The bodies of torch/profile/nvtx_profiler.hpp. NVTX's header emits some sixty functions into each unit that includes
// it, so only this file does.

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#include <fulgurite/core/error.hpp>
#endif

#include <fulgurite/torch/profile/nvtx_profiler.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY NvtxProfiler::Range::Range(ProfiledAction const& action) : open(action.counts) {
#if __has_include(<nvtx3/nvToolsExt.h>)
  if (open) nvtxRangePushA(action.name);
#else
  throw Error("fulgurite.callback.nvtx", "NvtxProfiler: the library was compiled without NVTX's header, "
                                         "nvtx3/nvToolsExt.h: compile it with the include folder of the CUDA toolkit");
#endif
}

FULGURITE_BULK_BODY NvtxProfiler::Range::~Range() {
#if __has_include(<nvtx3/nvToolsExt.h>)
  if (open) nvtxRangePop();
#endif
}

}  // namespace fulgurite
