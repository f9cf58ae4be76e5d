#pragma once
// The strategy of one process and one device: SingleDevice{cpu}, SingleDevice{cuda}, SingleDevice{Cuda{1}},
// SingleDevice{automatic}, SingleDevice{NamedDevice{"cuda:1"}}.

#include <string>
#include <type_traits>
#include <utility>

#include <torch/cuda.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/step_key.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/device.hpp>
#include <fulgurite/torch/backend.hpp>
#include <fulgurite/torch/move.hpp>
#include <fulgurite/torch/relocate.hpp>

namespace fulgurite {

/// Model and batches live on one device. `automatic` decides when it is constructed: the first GPU, where LibTorch sees
/// one. For a device chosen on the command line: `NamedDevice`.
template <class Device>
class SingleDevice {
 public:
  using Backend = LibTorch;
  using Stateless = ByChoice;
  static constexpr Known on_gpu = Device::on_gpu;
  static constexpr bool is_distributed = false;
  static constexpr bool captures = false;

  explicit SingleDevice(Device device) : device_(choose(device)) {}

  /// Moves the model, and converts it to the precision's type. Error, before anything is touched, where the device is
  /// not there.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    check();
    libtorch::relocate(model, device_, libtorch::scalar_type(Precision::parameters));
  }

  /// The model is back on the CPU, in the type it was trained in.
  template <class Model>
  void teardown(Model& model) {
    libtorch::relocate(model, at::Device(at::kCPU), std::nullopt);
  }

  at::Device device() const { return device_; }
  /// What rules about GPUs ask where only the machine can tell.
  bool is_on_gpu() const { return device_.is_cuda(); }

  /// A class that cannot be looked into keeps its tensors where they are: wrong where they are to move.
  template <class B>
  static constexpr bool moves = on_gpu != Known::yes || !libtorch::is_opaque<B>;

  /// On the CPU the batch itself: no copy, no reference count. For a GPU a copy of its handles with the tensors moved.
  template <class B>
  decltype(auto) move(B&& batch) {
    if constexpr (on_gpu == Known::no) return static_cast<Same<B>>(std::forward<B>(batch));
    else return libtorch::moved(std::forward<B>(batch), device_);
  }

  /// The seam of a step: a strategy that records steps comes in here.
  template <class Batch, class Board, class Body>
  auto gradients(StepKey, Batch& batch, Board&, Body&& body) {
    return body(batch);
  }

  void backward(at::Tensor const& loss, at::Tensor const& seed) { loss.backward(seed); }

  /// An accumulation window ended early: its gradients become the mean over the batches it had.
  template <class Optimizer>
  void flush(Optimizer& optimizer, double scale) {
    Backend::scale_gradients(optimizer.parameters(), scale);
  }

  bool agree(bool any_rank_says) const { return any_rank_says; }
  template <class V>
  V reduce(V value, Reduce) const {
    return value;
  }
  int rank() const { return 0; }
  int world() const { return 1; }
  void state(auto&) {}

 private:
  /// A temporary must not be returned by reference: it is moved into the result.
  template <class B>
  using Same = std::conditional_t<std::is_lvalue_reference_v<B>, B, std::remove_reference_t<B>>;

  static at::Device gpu(int index) { return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index)); }
  static at::Device choose(Cpu) { return at::Device(at::kCPU); }
  static at::Device choose(Cuda device) { return gpu(device.index); }
  static at::Device choose(AutomaticDevice) { return torch::cuda::is_available() ? gpu(0) : choose(cpu); }
  static at::Device choose(NamedDevice device) {
    using enum NamedDevice::Kind;
    return device.kind == cuda ? gpu(device.index) : device.kind == cpu ? choose(Cpu{}) : choose(AutomaticDevice{});
  }

  void check() const {
    if (device_.is_cuda()) {
      auto const wanted = "SingleDevice{cuda}: GPU " + std::to_string(int(device_.index()));
      if (!torch::cuda::is_available())
        throw Error("fulgurite.strategy.cuda_absent",
                    wanted + " was asked for, but LibTorch sees no CUDA device: install a driver and a LibTorch "
                             "built with CUDA, or use SingleDevice{cpu} or SingleDevice{automatic}");
      if (device_.index() < 0 || device_.index() >= torch::cuda::device_count())
        throw Error("fulgurite.strategy.cuda_index",
                    wanted + " was asked for, but there are " + std::to_string(int(torch::cuda::device_count())) +
                        ", counted from 0: choose one of them, or see CUDA_VISIBLE_DEVICES");
    }
  }

  at::Device device_;
};

template <class Device>
SingleDevice(Device) -> SingleDevice<Device>;

}  // namespace fulgurite
