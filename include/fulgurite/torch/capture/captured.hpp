#pragma once
// Captured{SingleDevice{...}}: a training step is recorded once and replayed from then on, with the same bits.

#include <fulgurite/core/known.hpp>
#include <fulgurite/policy/captured.hpp>
#include <fulgurite/torch/capture/capturing.hpp>
#include <fulgurite/torch/capture/graph/cuda_graph.hpp>
#include <fulgurite/torch/capture/graph/graphs.hpp>
#include <fulgurite/torch/capture/steps.hpp>
#include <fulgurite/torch/capture/tapes.hpp>
#include <fulgurite/torch/capture/tapes_or_graphs.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace fulgurite {

namespace libtorch::capture {

/// What the steps of a device are recorded as.
template <Known OnGpu>
struct StepsOf {
  using type = TapesOrGraphs;
};
template <>
struct StepsOf<Known::no> {
  using type = CapturedSteps<Tapes>;
};
template <>
struct StepsOf<Known::yes> {
  using type = CapturedSteps<graph::Graphs<graph::DeviceGraph>>;
};
template <class Strategy>
using CapturingOf = Capturing<Strategy, typename StepsOf<Strategy::on_gpu>::type>;

}  // namespace libtorch::capture

/// On the CPU the operators of a step are written down, and run again from then on. The first two steps of a kind
/// (place in the accumulation window, shape of the batch, answers of the context) are recorded and compared, the next
/// three are replayed and also run as they are written, bits compared; from then on they are replayed, with checks: now
/// and then, at the first replay and the last batch of each epoch, before a validation, before a file is written, and
/// where the model has changed on the host.
///
/// On a GPU a step becomes a CUDA graph: one launch in place of some hundred, with the same numbers. A kind of step
/// runs three times as it is written, is then recorded, and compared with its replays in every bit (or, where its
/// kernels do not repeat their own bits, within their own spread) before it is trusted, and later as on the CPU.
/// Clipping, unscaling and the optimizer's step follow as they are. Without CUDA, or without its headers, all steps run
/// as they are written.
///
/// training_step does not run in a replay: only what it computes with tensors happens, and what it logs as tensors is
/// logged. A step that cannot be replayed stays as it is, and a warning says why. Where a check finds that replays were
/// wrong, the fit goes back to the last state that was right, and on as it is written.
template <class Device>
class Captured<SingleDevice<Device>> : public libtorch::capture::CapturingOf<SingleDevice<Device>> {
  using Recorded = libtorch::capture::CapturingOf<SingleDevice<Device>>;

 public:
  using Recorded::Recorded;
};

}  // namespace fulgurite
