#pragma once
// Steps of a device that only the running program knows: tapes on the CPU, graphs on a GPU.

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <fulgurite/torch/capture/graph/cuda_graph.hpp>
#include <fulgurite/torch/capture/graph/graphs.hpp>
#include <fulgurite/torch/capture/steps.hpp>
#include <fulgurite/torch/capture/tapes.hpp>

namespace fulgurite::libtorch::capture {

/// Has the members of CapturedSteps, and is one or the other from `setup` on.
class TapesOrGraphs {
  using OnCpu = CapturedSteps<Tapes>;
  using OnGpu = CapturedSteps<graph::Graphs<graph::DeviceGraph>>;

 public:
  explicit TapesOrGraphs(std::shared_ptr<CaptureReport> report)
      : report_(report), steps_(std::in_place_type<OnCpu>, std::move(report)) {}

  template <class Model>
  void setup(Model& model, at::Device device) {
    if (device.is_cuda()) steps_.emplace<OnGpu>(report_).setup(model, device);
    else steps_.emplace<OnCpu>(report_).setup(model, device);
  }
  void teardown() {
    std::visit([](auto& steps) { steps.teardown(); }, steps_);
  }
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    std::visit([&](auto& steps) { steps.backward(seed, run); }, steps_);
  }
  template <class Strategy, class Batch, class Board, class Seam>
  auto gradients(Strategy& strategy, StepKey key, Batch& batch, Board& board, Seam& seam) {
    return std::visit([&](auto& steps) { return steps.gradients(strategy, key, batch, board, seam); }, steps_);
  }
  long unchecked() const {
    return std::visit([](auto const& steps) { return steps.unchecked(); }, steps_);
  }
  bool half_checked() const {
    return std::visit([](auto const& steps) { return steps.half_checked(); }, steps_);
  }
  bool may_replay() const {
    return std::visit([](auto const& steps) { return steps.may_replay(); }, steps_);
  }
  template <class Strategy, class Board, class Seam>
  void confirm(Strategy& strategy, Board& board, Seam& seam) {
    std::visit([&](auto& steps) { steps.confirm(strategy, board, seam); }, steps_);
  }
  void give_up(std::string const& reason) {
    std::visit([&](auto& steps) { steps.give_up(reason); }, steps_);
  }

 private:
  std::shared_ptr<CaptureReport> report_;
  std::variant<OnCpu, OnGpu> steps_;
};

}  // namespace fulgurite::libtorch::capture
