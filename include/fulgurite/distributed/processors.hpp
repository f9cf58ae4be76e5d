#pragma once
// How the processes of one machine share its processors.

#include <cstdlib>

#include <ATen/Parallel.h>

namespace fulgurite::distributed {

/// As torchrun does: where nobody has said with how many threads a process computes, it is one, so that the processes
/// of a machine do not crowd each other out.
inline void share_processors() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr && at::get_num_threads() == at::intraop_default_num_threads())
    at::set_num_threads(1);
}

}  // namespace fulgurite::distributed
