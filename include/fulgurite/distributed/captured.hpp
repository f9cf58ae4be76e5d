#pragma once
// Captured{DistributedDataParallel{...}}: each process records its step once and replays it. The exchange of gradients
// is no part of the recording.

#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/policy/captured.hpp>
#include <fulgurite/torch/capture/captured.hpp>

namespace fulgurite {

/// As Captured{SingleDevice{...}}, on each rank for itself. A rank whose replays were wrong cannot go back alone, since
/// the others have gone on with what it sent: its run ends with an Error, and the others' with it.
template <>
class Captured<DistributedDataParallel> : public libtorch::capture::CapturingOf<DistributedDataParallel> {
  using Recorded = libtorch::capture::CapturingOf<DistributedDataParallel>;

 public:
  using Recorded::Recorded;
  bool goes_back() const { return false; }
};

}  // namespace fulgurite
