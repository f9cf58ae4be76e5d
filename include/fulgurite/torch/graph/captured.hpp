#pragma once
// Captured{SingleDevice{cuda}}: training steps recorded as CUDA graphs and replayed. Not yet run on a GPU; its logic is tested on the CPU with
// another kind of graph.

#include <memory>
#include <utility>

#include <fulgurite/policy/captured.hpp>
#include <fulgurite/policy/device.hpp>
#include <fulgurite/torch/graph/cuda_graph.hpp>
#include <fulgurite/torch/graph/steps.hpp>
#include <fulgurite/torch/single_device.hpp>

namespace fulgurite {

namespace libtorch::graph {

/// `Base` with steps recorded by `Graph`; see GraphSteps.
template <class Base, class Graph>
class Graphed : public Base {
 public:
  static constexpr bool captures = true;

  explicit Graphed(Base strategy) : Base(std::move(strategy)) {}

  std::shared_ptr<CaptureReport const> report() const { return steps_.report(); }

  template <class Model, class Precision>
  void setup(Model& model, Precision const& precision) {
    steps_.teardown();
    Base::setup(model, precision);
    steps_.setup(model, this->device());
  }
  template <class Model>
  void teardown(Model& model) {
    steps_.teardown();
    Base::teardown(model);
  }

  template <class Batch, class Board, class Body>
  auto gradients(StepKey key, Batch& batch, Board& board, Body&& body) {
    auto as_written = [&](Batch& taken) { return Base::gradients(key, taken, board, body); };
    return steps_.gradients(key, batch, board, as_written);
  }
  void backward(at::Tensor const& loss, at::Tensor const& seed) {
    steps_.backward(seed, [&] { Base::backward(loss, seed); });
  }

 private:
  GraphSteps<Graph> steps_;
};

}  // namespace libtorch::graph

/// On a GPU a captured step is a CUDA graph: one launch in place of some hundred, with the same numbers. A kind of step (place in the
/// accumulation window, shape of the batch) runs three times as it is written, is then recorded, and compared with its replays in every bit
/// (or, where its kernels do not repeat their own bits, within their own spread) before it is trusted, and now and then later. training_step
/// does not run in a replay. Where the host waits for the device in it (an .item()), it stays eager, and a warning says so. Clipping,
/// unscaling and the optimizer's step follow as they are. Without CUDA, or without its headers, all steps are eager.
template <>
class Captured<SingleDevice<Cuda>> : public libtorch::graph::Graphed<SingleDevice<Cuda>, libtorch::graph::DeviceGraph> {
 public:
  using Graphed::Graphed;
};

}  // namespace fulgurite
