#pragma once
// Captured{DistributedDataParallel{...}}, and of what derives from it: each process records its step once and replays
// it. The exchange of gradients is no part of the recording, and neither is the update.

#include <concepts>

#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/policy/captured.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace fulgurite {

/// As Captured{SingleDevice{...}}, on each rank for itself. A rank whose replays were wrong cannot go back alone, since
/// the others have gone on with what it sent: its run ends with an Error, and the others' with it.
template <std::derived_from<DistributedDataParallel> S>
class Captured<S> : public libtorch::capture::CapturingOf<S> {
  using Recorded = libtorch::capture::CapturingOf<S>;

 public:
  using Recorded::Recorded;
  bool goes_back() const { return false; }
};

}  // namespace fulgurite
