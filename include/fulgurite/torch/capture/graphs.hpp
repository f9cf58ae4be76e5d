#pragma once
// Steps recorded on a GPU, as graphs: what the device was asked to do, launched at once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
#include <fulgurite/torch/capture/tape.hpp>
#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/internals.hpp>

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

// The batch that a graph reads: tensors that stay where they are, and are filled before each replay.

/// Takes batches of one layout only: copying into tensors of other sizes or types would broadcast and convert without a
/// word.
class Inputs {
 public:
  Inputs() = default;
  /// Puts tensors of its own into `batch`, which is a copy of the handles of a real one.
  template <class Batch>
  explicit Inputs(Batch& batch) {
    capture::each_leaf(
        batch,
        [&](at::Tensor& tensor) {
          if (tensor.defined()) tensor = fixed_.emplace_back(at::empty_like(tensor));
        },
        [](std::int64_t) {});
    for (auto const& tensor : fixed_) versions_.push_back(tensor._version());
  }

  /// `batch`: the tensors of a batch of the same layout as the one that this was made from; undefined ones are passed
  /// over. The host does not wait for the copies.
  void feed(std::vector<at::Tensor> const& batch);

  /// Whether the step has written into its batch.
  bool written() const;

 private:
  std::vector<at::Tensor> fixed_;
  std::vector<std::int64_t> versions_;
};

// Looks at a step that runs as it is written: would a graph know all that the step uses, and what does the step write?

/// Sees the operators that this thread calls. That leaves out backward, which runs on other threads: it uses what
/// forward has left, and writes gradients.
class Observer {
 public:
  explicit Observer(capture::World const& world);

  template <class F>
  auto run(F&& step) {
    capture::Recording const on(recorder_);
    return step();
  }

  /// The version counters that a replay has to move as the step did: those of the model's tensors, and those of other
  /// tensors in the same memory (as the one with which an arena is cleared as a whole).
  std::vector<c10::VariableVersion> written() const;

  /// Why a graph of this step would go wrong; empty if nothing is seen. `given`: the tensors of the batch; `left`: what
  /// leaves the step. Ends the observation.
  std::string wrong(std::vector<at::Tensor> const& given, std::vector<at::Tensor> const& left);

 private:
  static std::uint32_t version(at::Tensor const& tensor);

  capture::World const& world_;
  at::Device device_;
  capture::Recorder recorder_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> before_;
};

// All that a step may change, as it was at one moment: the model's memory and the random generators; and what left the
// step.

/// The copies stay on the device. Pieces of memory are copied whole, since a step may write to a part of one that
/// belongs to no tensor, as when an arena is cleared. No version counter is moved.
class Snapshot {
 public:
  explicit Snapshot(capture::World const& world, std::vector<at::Tensor> const& left = {});

  /// Puts memory and generators back.
  void restore() const;

  /// Whether both are equal in every bit, those of nan and -0 included. Waits for the device, once.
  bool same(Snapshot const& other) const;

  /// The sum of the squared differences; nan if a nan differs. Waits for the device.
  double distance(Snapshot const& other) const;

 private:
  /// Whether both have the same sizes and types, and as many random numbers were drawn.
  bool alike(Snapshot const& other) const;
  void save(at::Device device);

  std::vector<at::Tensor> memory_, copies_;
  std::vector<std::pair<at::Generator, at::Tensor>> generators_;
};

/// What is kept of one kind of step.
template <class Graph>
struct KeptGraph {
  int prepared = 0;  ///< steps that ran as they are written, on the stream where the graph will be recorded
  Inputs inputs = {};
  capture::Left left = {};
  std::shared_ptr<void> batch = nullptr, result = nullptr;
  std::vector<at::Tensor> seeds = {};              ///< that backward starts from in the graph
  std::vector<c10::VariableVersion> written = {};  ///< counters of what a replay writes, which it moves as the step did
  double spread = 0;                               ///< how far, squared, replays of one step were from each other
  std::unique_ptr<Graph> graph = nullptr;          ///< goes first, and waits for the device
};

/// Records, replays and compares for CapturedSteps. A kind of step runs three times as it is written, on the side
/// stream: the real steps of the fit, so that preparing changes nothing. The fourth is recorded, which executes
/// nothing, and replayed in its place. The code of the model runs once in each step that is not a replay; only where
/// recording fails half-way it runs a second time.
///
/// `Graph`: NoGraph and CudaGraph show what it takes. The optimizer's step is not part of it.
template <class Graph>
class Graphs {
  template <class Result>
  struct Ran {
    std::optional<Result> result = std::nullopt;
    bool changed = false;
  };

 public:
  using Kept = KeptGraph<Graph>;
  static constexpr bool records_checks = false;

  /// Why nothing can be recorded on this device; empty: it can.
  static std::string missing(at::Device device) { return Graph::missing(device); }
  void open(at::Device device) { side_ = std::make_unique<typename Graph::Side>(device); }
  void close() { side_.reset(); }

  /// run() is backward.
  template <class F>
  void backward(at::Tensor const& seed, F&& run) {
    if (recorded_ != nullptr) recorded_->seeds.push_back(seed);
    std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen;
    if (observes_) unseen.emplace(recording_key);
    run();
  }

  template <class Result, class Batch, class Step>
  capture::Prepared<Result> prepare(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step,
                                    CaptureReport& report) {
    if (kept.prepared == steps_before_recording) return record<Result>(scene, kept, batch, step, report);
    ++report.eager;
    std::string wrong;
    auto const run = [&] { return side_->run(wrong, [&] { return step(batch); }); };
    capture::Prepared<Result> made{.sound = true};
    if (++kept.prepared < steps_before_recording) {
      made.result.emplace(run());
      capture::cut_off(*made.result, step.board, scene.world);
      made.changed = scene.changed();
      return made;
    }
    // The last such step is looked at: the first ones may wait for the device, or keep, what is made once.
    Observer observer(scene.world);
    {
      capture::SetFor<bool> const here(observes_, true);
      made.result.emplace(observer.run(run));
    }
    auto const left = capture::cut_off(*made.result, step.board, scene.world);
    kept.written = observer.written();
    made.changed = scene.changed();
    for (auto const& why :
         {wrong, capture::out_of_reach(step.seam.questions()), observer.wrong(scene.batch, left.tensors), left.refusal})
      if (made.refusal.empty()) made.refusal = why;
    return made;
  }
  /// A step that was found to be another than its replay: the ones after it are prepared anew.
  template <class Result>
  capture::Prepared<Result> begin_anew(capture::Scene const&, Kept&, Ran<Result>& ran, loop::Questions const&,
                                       CaptureReport&) {
    return {.result = std::move(ran.result), .sound = true};
  }

  /// The step as it is written, then a replay from the same state, of which nothing remains.
  template <class Result, class Batch, class Step>
  capture::Compared<Ran<Result>> compare(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step) {
    Snapshot const before(scene.world);
    std::string waited;
    capture::Compared<Ran<Result>> compared;
    auto& ran = compared.ran;
    ran.result.emplace(side_->run(waited, [&] { return step(batch); }));
    auto const left = capture::cut_off(*ran.result, step.board, scene.world);
    ran.changed = scene.changed();
    if (ran.changed || left.logged != kept.left.logged || !left.refusal.empty()) {
      compared.wrong = left.refusal.empty() ? capture::other_bits : left.refusal;
      return compared;
    }
    Snapshot const as_written(scene.world, left.tensors);
    auto const replayed = [&] {
      before.restore();
      launch(kept, scene.batch);
      return Snapshot(scene.world, kept.left.tensors);
    };
    auto const first = replayed();
    if (as_written.same(first)) return compared;
    // Some kernels add in another order now and then (atomics): then replays differ, too, if not each from the next.
    double const far = as_written.distance(first);
    auto const within = [&] { return far <= most_noise * kept.spread; };
    bool right = within();
    for (int more = 0; !right && more != most_replays; ++more) {
      auto const next = replayed();
      kept.spread = std::max(kept.spread, next.distance(first));
      right = as_written.same(next) || within();
    }
    if (!right) compared.wrong = capture::other_bits;
    as_written.restore();
    return compared;
  }

  void replay(Kept& kept, std::vector<at::Tensor> const& batch) {
    launch(kept, batch);
    for (auto& counter : kept.written) counter.bump();
  }
  /// What the last replay gives. What leaves twice, as a loss that is also logged, is copied once.
  template <class Result, class Board>
  Result outcome(Kept& kept, Board& board) {
    at::NoGradGuard const no_graph;
    auto const& tensors = kept.left.tensors;
    std::vector<at::Tensor> copies(tensors.size());
    return capture::give_away(kept.left, *static_cast<Result const*>(kept.result.get()), board,
                              [&](std::size_t number) {
                                auto const same = [&](at::Tensor const& other) {
                                  return other.const_data_ptr() == tensors[number].const_data_ptr() &&
                                         capture::same_layout(other, tensors[number]);
                                };
                                auto const first = std::find_if(tensors.begin(), tensors.end(), same);
                                auto& copy = copies[static_cast<std::size_t>(first - tensors.begin())];
                                if (!copy.defined()) copy = first->clone();
                                return copy;
                              });
  }
  static Snapshot before(capture::World const& world, Kept const&) { return Snapshot(world); }

 private:
  static constexpr int steps_before_recording = 3;
  /// Of squares: a replay may differ eight times as much from the step as from itself.
  static constexpr double most_noise = 64;
  static constexpr int most_replays = 32;  ///< to find out how much it differs from itself

  template <class Result, class Batch, class Step>
  capture::Prepared<Result> record(capture::Scene const& scene, Kept& kept, Batch& batch, Step& step,
                                   CaptureReport& report) {
    capture::Prepared<Result> made;
    auto& wrong = made.refusal;
    auto fixed = std::make_shared<std::remove_const_t<Batch>>(batch);
    kept.inputs = Inputs(*fixed);
    kept.inputs.feed(scene.batch);
    kept.graph = std::make_unique<Graph>(*side_);
    std::optional<Result> result;
    try {
      capture::SetFor<Kept*> const here(recorded_, &kept);
      kept.graph->capture([&] {
        result.emplace(step(*fixed));
        kept.left = capture::cut_off(*result, step.board, scene.world);
      });
    } catch (std::exception const& error) {
      wrong = std::string("it cannot be recorded: ") + error.what();
      wrong = wrong.substr(0, wrong.find('\n'));
    }
    step.board.discard_step();
    if (wrong.empty() && kept.inputs.written())
      wrong = "the step writes into its batch, and a graph would write into a copy of it";
    if (wrong.empty()) wrong = kept.left.refusal;
    if (!wrong.empty()) return made;
    made.changed = scene.changed();
    if (made.changed) return made;
    ++report.recorded;
    kept.batch = std::move(fixed);
    kept.result = std::make_shared<Result>(std::move(*result));
    made.sound = made.ready = true;
    return made;
  }

  static void launch(Kept& kept, std::vector<at::Tensor> const& batch) {
    kept.inputs.feed(batch);
    kept.graph->replay();
  }

  std::unique_ptr<typename Graph::Side> side_;
  Kept* recorded_ = nullptr;  ///< while a graph is recorded
  bool observes_ = false;     ///< while a step is looked at
};

}  // namespace fulgurite::libtorch::graph

// A CUDA graph of one step, and the stream on which steps are prepared for it.

// The build defines this macro if LibTorch's CUDA libraries are linked and the toolkit's headers compile.

namespace fulgurite::libtorch::graph {

/// Stands for a graph in builds without CUDA, and says why nothing can be recorded.
class NoGraph {
 public:
  static std::string missing(at::Device) {
    return "this program was built without CUDA or without the headers of its toolkit";
  }
  struct Side {
    explicit Side(at::Device) {}
    template <class F>
    auto run(std::string&, F&& f) {
      return f();
    }
  };
  explicit NoGraph(Side&) {}
  template <class F>
  void capture(F&&) {}
  void replay() {}
};

#if defined(FULGURITE_HAS_CUDA_RUNTIME)
/// LibTorch can be asked to warn wherever the host waits for the device. While this lives, such a warning is remembered
/// instead of printed.
class Waits : public c10::WarningHandler {
 public:
  Waits()
      : outer_(c10::WarningUtils::get_warning_handler()),
        guard_(this),
        mode_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~Waits() override { c10::cuda::warning_state().set_sync_debug_mode(mode_); }
  Waits(Waits const&) = delete;
  Waits& operator=(Waits const&) = delete;

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

class CudaGraph {
 public:
  static std::string missing(at::Device device) { return device.is_cuda() ? "" : "the model is not on a GPU"; }

  /// What the graphs of one model share: the stream on which they are recorded, and memory. They can share memory,
  /// since only one of them runs at a time, and nobody reads what it has computed after the next one has begun.
  struct Side {
    explicit Side(at::Device where) : device(where), stream(stream_of(where)) {}

    /// Runs f() on this stream, after the work of the current stream and before what is given to that later. `waited`:
    /// why f cannot be part of a graph, if that is seen already.
    template <class F>
    auto run(std::string& waited, F&& f) {
      Waits waits;
      auto result = [&] {
        Turn const turn(*this);
        return f();
      }();
      if (waits.seen)
        waited = "the host waits for the device in it (an .item(), a tensor copied to the CPU, a size that depends on "
                 "values)";
      return result;
    }

    at::Device device;
    c10::Stream stream;
    c10::MempoolId_t pool{0, 0};
    int graphs = 0;  ///< that use the pool

   private:
    /// One for each thread and device: cuBLAS keeps some 60 MB for each stream that it was used on, for good.
    static c10::Stream stream_of(at::Device where) {
      thread_local std::vector<c10::Stream> made;
      for (auto const& one : made)
        if (one.device() == where) return one;
      return made.emplace_back(c10::cuda::getStreamFromPool(false, where.index()).unwrap());
    }
  };

  explicit CudaGraph(Side& side) : side_(side) {}
  /// Waits for the device, since the graph's memory may be used for something else from here on.
  ~CudaGraph() {
    try {
      wait();
    } catch (std::exception const&) {  // a device that has failed says so again in the next operation
    }
    if (graph_) --side_.graphs;
  }
  CudaGraph(CudaGraph const&) = delete;
  CudaGraph& operator=(CudaGraph const&) = delete;

  /// Records what f asks of the device, without executing it. Throws what f throws, or what LibTorch throws for
  /// something that cannot be recorded. Meanwhile only this thread is restricted: others, as those that load batches,
  /// may allocate memory.
  template <class F>
  void capture(F&& f) {
    wait();
    c10::cuda::CUDACachingAllocator::emptyCache();  // a graph that is being recorded cannot get cached memory
    c10::StreamGuard const guard(side_.stream);
    if (side_.graphs == 0) side_.pool = at::cuda::graph_pool_handle();  // LibTorch takes none that nobody uses any more
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    try {
      graph_->capture_begin(side_.pool,
                            cudaStreamCaptureModeThreadLocal);  // this also registers the default generator
      f();
      graph_->capture_end();
      ++side_.graphs;
    } catch (...) {
      abandon();
      throw;
    }
  }

  /// Runs the graph on the current stream.
  void replay() { graph_->replay(); }

 private:
  /// While it lives the side stream is the current one, and it follows the work of the outer stream; at the end the
  /// outer stream follows the side stream.
  class Turn {
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
    Turn(Turn const&) = delete;
    Turn& operator=(Turn const&) = delete;

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

  void wait() const { c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(side_.device.index()); }

  /// After a failed recording LibTorch 2.11 leaves the allocators recording, and the generator in a state in which it
  /// refuses to draw. The allocators are told to stop by hand; the generator recovers with a recording that succeeds.
  void abandon() noexcept {
    auto const quietly = [](auto&& f) {
      try {
        f();
      } catch (std::exception const&) {  // was done already
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

/// What `Captured{SingleDevice{cuda}}` records with in this build.
using DeviceGraph = CudaGraph;
#else
using DeviceGraph = NoGraph;
#endif

}  // namespace fulgurite::libtorch::graph

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/graphs.ipp>
#endif
