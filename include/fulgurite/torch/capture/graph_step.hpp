#pragma once
// What a graph of a step is made from: its input batch, what the step uses and writes, its gradients, and copies of all
// that it may change; and replays that wait for others, to become one graph.

#include <cstddef>
#include <cstdint>
#include <memory>
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
#include <fulgurite/torch/optim/update_kernel.hpp>

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

  std::vector<at::Tensor> const& tensors() const { return fixed_; }

 private:
  /// Memory of the same strides, also if there are gaps, and with the same offset in a cache line: at another one,
  /// kernels may sum in another order.
  static at::Tensor memory_like(at::Tensor const& tensor);

  std::vector<at::Tensor> fixed_;
  std::vector<std::int64_t> versions_;
};

/// Copies the outputs of a replay into the tensors that were promised for them. Undefined ones are skipped.
void fulfil(std::vector<at::Tensor> const& promised, std::vector<at::Tensor> const& outputs);

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

// What is kept about a step that is recorded, and several steps in one replay.

/// A part of a step of manual optimization: what is between two updates.
template <class Graph>
struct Segment {
  loop::Turn turn;                                 ///< the update after it
  std::vector<c10::VariableVersion> written = {};  ///< counters that a replay increments before that
  std::vector<at::Tensor> losses = {};             ///< those that the trainer looks at, once the segment has run
  std::unique_ptr<Graph> graph = nullptr;
};

/// Several steps of one kind as one graph, each with a batch and outputs of its own. Their batches are copied when they
/// wait, so that a loader may use its memory again.
template <class Graph>
struct JoinedSteps {
  std::vector<Inputs> inputs = {};
  std::vector<std::shared_ptr<void>> batches = {};
  std::vector<capture::Left> left = {};
  std::vector<at::Tensor> seeds = {};
  bool refused = false;                    ///< such a graph cannot be made, so no step waits
  std::unique_ptr<Graph> graph = nullptr;  ///< recorded when as many steps wait for the first time
};

/// What is kept about one kind of step.
template <class Graph>
struct KeptGraph {
  int prepared = 0;  ///< steps that ran as they are written, on the stream where the graph will be recorded
  Inputs inputs = {};
  capture::Left left = {};
  std::shared_ptr<void> batch = nullptr, result = nullptr;
  std::vector<at::Tensor> seeds = {};                    ///< the tensors from which backward starts in the graph
  std::size_t followed = 0;                              ///< the number of the scaler's seeds that follow in the graph
  std::vector<c10::VariableVersion> written = {};        ///< counters that a replay increments as the step did
  double spread = 0;                                     ///< the squared distance between replays of one step
  std::unique_ptr<UpdateInGraph> update = nullptr;       ///< null: the optimizer's update is not in the graph
  bool skips = false, notes = false;                     ///< what the update asks of losses and gradients
  std::vector<Segment<Graph>> segments = {};             ///< what is before `graph`: none in automatic optimization
  std::vector<loop::Turn> turns = {};                    ///< the trainer's in the recorded step
  std::vector<at::Tensor> losses = {};                   ///< those of `graph`, as in a segment
  std::unique_ptr<JoinedSteps<Graph>> joined = nullptr;  ///< null: not recorded yet
  std::unique_ptr<Graph> graph = nullptr;                ///< destroyed first; waits for the device
};

/// Replays that wait for those after them, so that several steps are one launch: all of one kind, each with the numbers
/// of its update. Their results are promised: tensors that are filled when they run. So whoever reads what a step
/// computes calls `finish` before.
template <class Graph>
class WaitingReplays {
 public:
  using Kept = KeptGraph<Graph>;

  /// At most `steps` replays wait together; with 1 none waits.
  void join(long steps) { most_ = static_cast<std::size_t>(steps); }
  bool joins() const { return most_ > 1; }
  bool full() const { return steps_.size() == most_; }

  /// Recordings that may wait have `joined`, with inputs for as many steps.
  void add(Kept& kept, std::vector<at::Tensor> const& batch, std::vector<double> numbers) {
    if (kept_ != &kept) finish();
    kept_ = &kept;
    kept.joined->inputs[steps_.size()].feed(batch);
    steps_.push_back({std::move(numbers)});
    promises_ = true;
  }
  std::size_t most() const { return most_; }
  /// True from `add` to `promise`.
  bool promises() const { return promises_; }
  /// `outputs`: for each output of the last replay, where it is to be copied. Runs all of them if no more may wait.
  void promise(std::vector<at::Tensor> outputs) {
    promises_ = false;
    steps_.back().outputs = std::move(outputs);
    if (full()) finish();
  }
  /// Runs the replays that wait: as one graph if there is one of as many steps, or else one by one.
  void finish() {
    if (steps_.empty()) return;
    auto const steps = std::exchange(steps_, {});
    auto& kept = *std::exchange(kept_, nullptr);
    auto& joined = *kept.joined;
    promises_ = false;
    std::vector<double> rows;
    for (auto const& step : steps) rows.insert(rows.end(), step.numbers.begin(), step.numbers.end());
    kept.update->turn_on(std::move(rows));
    if (joined.graph && joined.inputs.size() == steps.size()) {
      joined.graph->replay();
      for (std::size_t i = 0; i != steps.size(); ++i) fulfil(steps[i].outputs, joined.left[i].tensors);
      joined_ += static_cast<long>(steps.size());
    } else {
      for (std::size_t i = 0; i != steps.size(); ++i) {
        kept.inputs.feed(joined.inputs[i].tensors());
        kept.graph->replay();
        fulfil(steps[i].outputs, kept.left.tensors);
      }
    }
    if (joined.refused) joined.inputs.clear();
  }
  /// The number of steps that ran in a graph of several since the last call.
  long joined() { return std::exchange(joined_, 0); }
  /// Forgets them, with the recordings that they are of.
  void drop() {
    steps_.clear();
    kept_ = nullptr;
    promises_ = false;
  }

 private:
  struct Step {
    std::vector<double> numbers;  ///< of its update
    std::vector<at::Tensor> outputs = {};
  };
  std::size_t most_ = 1;
  long joined_ = 0;
  Kept* kept_ = nullptr;  ///< the recording of those that wait
  std::vector<Step> steps_ = {};
  bool promises_ = false;
};

}  // namespace fulgurite::libtorch::graph

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/graph_step.ipp>
#endif
