#pragma once
// The bodies of torch/data/stack.hpp.

#include <ATen/DeviceAccelerator.h>

#include <fulgurite/torch/data/stack.hpp>

namespace fulgurite::data {

FULGURITE_BODY void refuse_pinning_without_gpu() {
  if (at::accelerator::deviceCount() == 0)
    throw Error("fulgurite.data.pin_memory",
                ".pin_memory is on, and there is no GPU to copy to: say .pin_memory = torch::cuda::is_available()");
}

FULGURITE_BULK_BODY Batch Stack::operator()(std::vector<Batch> samples) const {
  return {column(samples, [](Batch& s) -> auto& { return s.data; }),
          column(samples, [](Batch& s) -> auto& { return s.target; })};
}

FULGURITE_BULK_BODY std::function<void()> one_thread_each() {
  int const others = torch::get_num_threads();  // this call also fixes the number for the calling thread
  return [others] { libtorch::run_in_this_thread(others); };
}

}  // namespace fulgurite::data
