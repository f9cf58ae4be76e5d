#pragma once
// Captured{DistributedDataParallel{...}} and Captured of strategies derived from it: each process records its step once
// and replays it. The exchange of gradients and the update are not recorded.

#include <concepts>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace fulgurite {

/// Works as Captured{SingleDevice{...}}, on each rank separately:
///
///     auto trainer = make_trainer<Net>(options, Captured{DistributedDataParallel{.devices = 2}});
///
/// A rank whose replays were wrong cannot roll back alone, since the others have already used its gradients: the run
/// ends with an Error on all ranks. A SyncBatchNorm communicates in the middle of a step, which cannot be replayed:
/// with several ranks, such a model is refused before training.
template <std::derived_from<DistributedDataParallel> S>
class Captured<S> : public libtorch::capture::CapturingOf<S> {
  using Recorded = libtorch::capture::CapturingOf<S>;

 public:
  using Recorded::Recorded;
  void setup(auto& model, auto const& precision) {
    if (this->world() > 1 && !distributed::synchronized_norms(model).empty())
      throw Error("fulgurite.distributed.sync_captured",
                  "Captured{} replays what one rank computes, but a SyncBatchNorm of the model communicates with other "
                  "ranks in the middle of a step: remove Captured{}, or use a norm that does not depend on the batch, "
                  "such as GroupNorm");
    Recorded::setup(model, precision);
    this->fit.as_written = false;  // a recorded backward exchanges nothing
  }
  bool goes_back() const { return false; }
};

}  // namespace fulgurite
