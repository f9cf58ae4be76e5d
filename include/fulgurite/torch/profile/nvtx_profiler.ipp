#pragma once
// The bodies of torch/profile/nvtx_profiler.hpp.

#include <fulgurite/torch/profile/nvtx_profiler.hpp>

#if __has_include(<nvtx3/nvToolsExt.h>)

namespace fulgurite {

FULGURITE_BULK_BODY NvtxProfiler::Range::Range(ProfiledAction const& action) : open(action.counts) {
  if (open) nvtxRangePushA(action.name);
}

}  // namespace fulgurite

#endif
