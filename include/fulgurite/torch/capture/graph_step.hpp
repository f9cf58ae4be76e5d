#pragma once
// What a graph of a step is made from: its input batch, what the step uses and writes, its gradients, and copies of all
// that it may change.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::graph {

// The input batch of a graph: tensors at fixed addresses that are filled before each replay.

/// Accepts batches of one layout only, since copying into tensors of other sizes or types would silently broadcast and
/// convert.
class Inputs {
 public:
  Inputs() = default;
  /// Replaces the tensors in `batch`, a shallow copy of a real one, by the graph's own.
  template <class Batch>
  explicit Inputs(Batch& batch) {
    capture::each_leaf(
        batch,
        [&](at::Tensor& tensor) {
          if (tensor.defined()) tensor = fixed_.emplace_back(memory_like(tensor));
        },
        [](std::int64_t) {});
    for (auto const& tensor : fixed_) versions_.push_back(tensor._version());
  }

  /// Copies a batch of the same layout in. Undefined tensors are skipped. The host does not wait for the copies.
  void feed(std::vector<at::Tensor> const& batch);

  /// True if the step has written into its batch.
  bool written() const;

 private:
  /// Memory of the same strides, also if there are gaps, and with the same offset in a cache line: at another one,
  /// kernels may sum in another order.
  static at::Tensor memory_like(at::Tensor const& tensor);

  std::vector<at::Tensor> fixed_;
  std::vector<std::int64_t> versions_;
};

// Observes a step that runs as it is written: which tensors does it use that a graph would not know, and what does it
// write?

/// Sees the operators that this thread calls. Backward runs on other threads and is not seen: it uses what forward has
/// saved, and writes gradients.
class Observer {
 public:
  explicit Observer(capture::World const& world);

  template <class F>
  auto run(F&& step) {
    capture::Recording const on(recorder_);
    return step();
  }

  /// `f()`: the trainer acts in the middle of the step. That is not observed, and the trainer may keep the loss.
  void turn(loop::Turn turn, at::Tensor const& loss, FunctionRef<void()> f);
  /// The updates in the middle of the step, each with what `written` was before it.
  std::vector<std::pair<loop::Turn, std::vector<c10::VariableVersion>>> turns = {};

  /// The version counters that a replay has to increment as the step did since its last update: those of the model's
  /// tensors, and those of other tensors on the same memory (such as the one that clears a whole arena).
  std::vector<c10::VariableVersion> written();

  /// The reason why a graph of this step would be wrong; empty if none was found. `given`: the batch's tensors; `left`:
  /// the step's outputs. Ends the observation.
  std::string wrong(std::vector<at::Tensor> const& given, std::vector<at::Tensor> const& left);

 private:
  static std::uint32_t version(at::Tensor const& tensor);

  capture::World const& world_;
  at::Device device_;
  capture::Recorder recorder_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> before_;
  std::size_t next_call_ = 0;  ///< the first one after the last update
  std::vector<capture::Storage> looked_at_ = {};
};

// The gradients of a step that is being recorded.

/// While this object lives, parameters whose gradients are defined have none, so that backward leaves the new gradients
/// where it computes them. `add` adds these to the earlier ones in a single kernel, where backward would take one for
/// each parameter; the sums have the same bits. At the end the parameters have their earlier gradients again.
class GradientsApart : Pinned {
 public:
  explicit GradientsApart(capture::World const& world);
  ~GradientsApart();

  void add() const;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> earlier_;  ///< parameters and their gradients
};

// A copy of all that a step may change: the model's memory, the random generators, and the step's outputs.

/// The copies stay on the device. Pieces of memory are copied whole, since a step may write to a part that belongs to
/// no tensor, as when an arena is cleared. Version counters are not incremented.
class Snapshot {
 public:
  explicit Snapshot(capture::World const& world, std::vector<at::Tensor> const& left = {});

  /// Restores memory and generators.
  void restore() const;

  /// True if both are equal in every bit, including those of nan and -0. Waits for the device once.
  bool same(Snapshot const& other) const;

  /// The sum of the squared differences; nan if a nan differs. Waits for the device.
  double distance(Snapshot const& other) const;

 private:
  /// True if both have the same sizes and types, and the same number of random numbers was drawn.
  bool alike(Snapshot const& other) const;
  void save(at::Device device);

  std::vector<at::Tensor> memory_, copies_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

/// The same of a step's snapshots, one after the other.
bool same(std::vector<Snapshot> const& a, std::vector<Snapshot> const& b);
double distance(std::vector<Snapshot> const& a, std::vector<Snapshot> const& b);

// The trainer's turns in a step of manual optimization.

/// A step that runs as it is written, while it is observed or compared.
struct Underway {
  FunctionRef<std::size_t()> pending;  ///< the number of values logged so far
  Observer* observer;                  ///< nullptr: the step is compared
  capture::World const& world;
  std::vector<loop::Turn> turns = {};           ///< in their order
  std::vector<Snapshot> found = {}, left = {};  ///< before and after each update, if the step is compared
  std::string refusal = {};

  /// `act()`: the trainer acts.
  void turn(loop::Turn turn, at::Tensor const& loss, FunctionRef<void()> act);
};

/// Losses that the trainer looks at where the graph that is being recorded ends.
class Looks {
 public:
  void add(at::Tensor const& loss);
  /// Returns them, at the end of their graph. Throws if one was changed meanwhile: the trainer would see another number
  /// than in the step as it is written.
  std::vector<at::Tensor> take();

 private:
  std::vector<at::Tensor> losses_ = {};
  std::vector<std::pair<c10::VariableVersion, std::uint32_t>> versions_ = {};
};

}  // namespace fulgurite::libtorch::graph

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/graph_step.ipp>
#endif
