#pragma once
// What a graph of a step is made from: its input batch, what the step uses and writes, its gradients, and copies of all
// that it may change; replays that wait for others, to become one graph; and that graph on CUDA.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
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
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#endif

namespace fulgurite::libtorch::graph {

// The input batch of a graph: tensors at fixed addresses that are filled before each replay.

/// Accepts batches of one layout only, since copying into tensors of other sizes or types would silently broadcast and
/// convert.
class Inputs {
 public:
  Inputs() = default;
  /// Replaces the tensors in `batch`, a shallow copy of a real one, by the graph's own.
  explicit Inputs(auto& batch) {
    capture::each_leaf(
        batch,
        [&](at::Tensor& tensor) {
          if (tensor.defined()) tensor = fixed_.emplace_back(capture::memory_like(tensor));
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

  auto run(auto&& step) {
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

  /// True if an operator of the step draws from the CPU's generator.
  bool draws() const;

  /// The reason why a graph of this step would be wrong; empty if none was found. `given`: the batch's tensors; `left`:
  /// the step's outputs. Ends the observation.
  std::string wrong(std::vector<at::Tensor> const& given, std::vector<at::Tensor> const& left);

 private:
  capture::World const& world_;
  at::Device device_;
  capture::Recorder recorder_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> before_;
  std::size_t next_call_ = 0;  ///< the first one after the last update
  std::vector<capture::Storage> looked_at_ = {};
};

// The gradients of a step that is being recorded.

/// Something other than GradientsApart has written to a gradient that was to be overwritten: a model's own backward, or
/// a step that changes gradients. It has added to a number that should have been 0.
struct WrittenMeanwhile : std::exception {};

/// Clears slices of gradients without a sign, in their version counters, that they were written to: a gradient that is
/// cleared after the optimizer's zero_grad() has not been received. Throws WrittenMeanwhile.
void clear_silently(std::vector<Arena::Stale> const& stale);

/// While this object lives, parameters whose gradients are defined have none, so that backward leaves the new gradients
/// where it computes them. `add` adds these to the earlier ones, or overwrites these, in a kernel for many parameters,
/// where backward would take one for each; the sums have the same bits. At the end the parameters have their earlier
/// gradients again.
///
/// `to_overwrite`: earlier gradients that should have been cleared and were not. They are overwritten: a new gradient
/// of -0 stays -0, where added to 0 it would become 0. Those that backward does not compute are cleared. Throws
/// WrittenMeanwhile.
class GradientsApart : Pinned {
 public:
  explicit GradientsApart(capture::World const& world, std::vector<Arena::Stale> const& to_overwrite = {});
  ~GradientsApart();

  void add() const;

 private:
  struct Earlier {
    at::Tensor parameter, gradient;
    bool overwrite;
  };
  std::vector<Earlier> earlier_;
};

// A copy of all that a step may change: the model's memory, the random generators, and the step's outputs.

/// The copies stay on the device. Pieces of memory are copied whole, since a step may write to a part that belongs to
/// no tensor, as when an arena is cleared. Version counters are not incremented.
class Snapshot {
 public:
  /// `draws`: the CPU's generator is one of them. A step that draws nothing from it leaves it alone, since other
  /// threads may draw meanwhile.
  explicit Snapshot(capture::World const& world, std::vector<at::Tensor> const& left = {}, bool draws = true);

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
  bool draws = true;                            ///< from the CPU's generator
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
  bool draws = true;                                     ///< the step draws from the CPU's generator
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

// A CUDA graph of one step, and the stream on which steps are prepared for it.

// The build defines this macro if LibTorch's CUDA libraries are linked and the toolkit's headers compile.

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
/// Notices when the host waits for the device, by LibTorch's own warning about that. While this object lives, such a
/// warning is noted and not printed.
class Waits : public c10::WarningHandler, Pinned {
 public:
  Waits()
      : outer_(c10::WarningUtils::get_warning_handler()),
        guard_(this),
        mode_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~Waits() override { c10::cuda::warning_state().set_sync_debug_mode(mode_); }

  void process(c10::Warning const& warning) override {
    if (warning.msg().find("synchronizing CUDA operation") != std::string::npos) seen = true;
    else outer_->process(warning);
  }
  bool seen = false;

 private:
  c10::WarningHandler* outer_;
  c10::WarningUtils::WarningHandlerGuard guard_;
  c10::cuda::SyncDebugMode mode_;
};

class CudaGraph : Pinned {
 public:
  static std::string missing(at::Device device) { return device.is_cuda() ? "" : "the model is not on a GPU"; }

  /// What the graphs of one model share: the stream on which they are recorded, and a memory pool. They can share the
  /// pool since only one of them runs at a time, and a graph's results are not read after the next one has begun.
  struct Side {
    explicit Side(at::Device where) : device(where), stream(stream_of(where)) {}

    /// Runs f() on this stream: after the current stream's work so far, and before its later work. `waited` receives
    /// the reason why f cannot be part of a graph, if one was found.
    auto run(std::string& waited, auto&& f) {
      Waits waits;
      capture::SetFor<Waits*> const here(waits_, &waits);
      auto result = [&] {
        Turn const turn(*this);
        return f();
      }();
      if (waits.seen)
        waited = "the host waits for the device in it (an .item(), a tensor copied to the CPU, a size that depends on "
                 "values)";
      return result;
    }

    /// Runs f() in the middle of it, where the host may wait.
    void unwatched(auto&& f) {
      bool const seen = waits_ && waits_->seen;
      f();
      if (waits_) waits_->seen = seen;
    }

    at::Device device;
    c10::Stream stream;
    c10::MempoolId_t pool{0, 0};
    int graphs = 0;  ///< number of graphs that use the pool

   private:
    Waits* waits_ = nullptr;  ///< of the run in progress

    /// One stream for each thread and device, since cuBLAS keeps about 60 MB for each stream that it was ever used on.
    static c10::Stream stream_of(at::Device where) {
      thread_local std::vector<c10::Stream> made;
      for (auto const& one : made)
        if (one.device() == where) return one;
      return made.emplace_back(c10::cuda::getStreamFromPool(false, where.index()).unwrap());
    }
  };

  explicit CudaGraph(Side& side) : side_(side) {}
  /// Waits for the device, since the graph's memory may be reused after this.
  ~CudaGraph() {
    try {
      wait();
    } catch (std::exception const&) {  // a failed device reports its error again in the next operation
    }
    if (graph_) --side_.graphs;
  }

  /// Records the work that f gives to the device, without executing it. Throws what f throws, or what LibTorch throws
  /// for something that cannot be recorded. Only this thread is restricted meanwhile: other threads, such as those that
  /// load batches, may allocate memory.
  void capture(auto&& f) {
    wait();
    c10::cuda::CUDACachingAllocator::emptyCache();  // a graph being recorded cannot use cached memory
    c10::StreamGuard const guard(side_.stream);
    if (side_.graphs == 0) side_.pool = at::cuda::graph_pool_handle();  // LibTorch refuses a pool without users
    try {
      begin();
      f();
      end();
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// Called within `capture`: returns what was recorded so far as a graph of its own, and records on.
  std::unique_ptr<CudaGraph> cut() {
    auto first = std::make_unique<CudaGraph>(side_);
    end();
    first->graph_ = std::move(graph_);
    begin();
    at::zeros({1}, at::TensorOptions(side_.device));  // LibTorch warns of an empty graph
    return first;
  }

  void replay() { graph_->replay(); }

  /// True if the kernel for this run of the optimizer's update is known, or can be made now.
  static bool can_update(auto& optimizer, auto const& run) { return optimizer.fits_graph(run); }
  /// Adds the update to the graph that is being recorded.
  void update(UpdateInGraph const& update) { update.launch(); }

 private:
  /// While this object lives, the side stream is the current one and waits for the outer stream's work; at the end the
  /// outer stream waits for the side stream.
  class Turn : Pinned {
   public:
    explicit Turn(Side& side)
        : side_(side), outer_(c10::cuda::getCurrentCUDAStream(side.device.index()).unwrap()), guard_(side.stream) {
      follow(outer_, side_.stream);
    }
    ~Turn() {
      try {
        follow(side_.stream, outer_);
      } catch (std::exception const&) {}
    }

   private:
    static void follow(c10::Stream const& first, c10::Stream const& second) {
      c10::Event done(c10::DeviceType::CUDA);
      done.record(first);
      done.block(second);
    }
    Side& side_;
    c10::Stream outer_;
    c10::StreamGuard guard_;
  };

  void begin() {
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    graph_->capture_begin(side_.pool,
                          cudaStreamCaptureModeThreadLocal);  // this also registers the default generator
  }
  void end() {
    graph_->capture_end();
    ++side_.graphs;
  }

  void wait() const { c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(side_.device.index()); }

  /// After a failed recording, LibTorch 2.11 leaves the allocators in recording mode, and the generator in a state in
  /// which it refuses to draw. This stops the allocators; the generator recovers at the next recording that succeeds.
  void abandon() noexcept {
    auto const quietly = [](auto&& f) {
      try {
        f();
      } catch (std::exception const&) {  // it had been stopped already
      }
    };
    quietly([&] { graph_->capture_end(); });
    quietly([&] {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(side_.device.index(), side_.pool);
      c10::cuda::CUDACachingAllocator::releasePool(side_.device.index(), side_.pool);
    });
    quietly([&] {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(side_.pool);
      at::getHostAllocator(at::kCUDA)->release_pool(side_.pool);
    });
    graph_.reset();
    quietly([&] {
      at::cuda::CUDAGraph good;
      good.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      at::zeros({1}, at::TensorOptions(side_.device));
      good.capture_end();
    });
  }

  Side& side_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

#endif

}  // namespace fulgurite::libtorch::graph

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/graph_step.ipp>
#endif
