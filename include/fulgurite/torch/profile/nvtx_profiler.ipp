#pragma once
// The bodies of torch/profile/nvtx_profiler.hpp. NVTX's header emits some sixty functions into each unit that includes
// it, so only this file does.

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

#include <fulgurite/torch/profile/nvtx_profiler.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY NvtxProfiler::Range::Range(ProfiledAction const& action) : open(action.counts) {
  if (open) nvtxRangePushA(action.name);
}

FULGURITE_BULK_BODY NvtxProfiler::Range::~Range() {
  if (open) nvtxRangePop();
}

}  // namespace fulgurite

#endif
