#pragma once
// What holds while a metric is updated: no gradients, and no inference mode.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/value.hpp>

namespace fulgurite::libtorch {

/// Tensors that a metric keeps are normal ones, also where an evaluation makes tensors for inference, so that a later
/// epoch may write to them.
class MetricScope {
 public:
  MetricScope() = default;
  /// What is kept by somebody of whom a recording does not know would stand still while the step is replayed.
  static void refuse_recording() {
    if (c10::impl::tls_is_dispatch_key_included(recording_key))
      throw Error("fulgurite.metric.captured",
                  "a metric object is updated inside a training step that is being recorded, and a replay would leave "
                  "it out: declare the metric with its definition and call ctx.update, or update the object in "
                  "on_train_batch_end");
  }
  MetricScope(MetricScope const&) = delete;
  MetricScope& operator=(MetricScope const&) = delete;

 private:
  c10::InferenceMode const normal_{false};
  at::NoGradGuard const no_graph_;  // after the above, which turns gradients on
};

/// A tensor where the other one lies. One that a file has left on the CPU moves to the device of what is added to it;
/// a number of the host goes to the device where the sums are. Neither waits for the device.
inline void meet(at::Tensor& kept, at::Tensor& added) {
  if (kept.device() == added.device()) return;
  if (kept.is_cpu()) kept = kept.to(added.device());
  else added = added.to(kept.device());
}

/// The elements of a tensor on the host, in double precision, in row-major order.
FULGURITE_BULK std::vector<double> host_numbers(at::Tensor const& tensor) {
  at::NoGradGuard const no_graph;
  auto const host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  auto const* const first = data_of<double>(host);
  return {first, first + host.numel()};
}

}  // namespace fulgurite::libtorch
