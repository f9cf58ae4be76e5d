#pragma once
// A CUDA graph of one step, and the stream on which steps are prepared for it.

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>

#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>
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

// The build defines this macro if LibTorch's CUDA libraries are linked and the toolkit's headers compile.

/// Replaces CudaGraph in builds without CUDA, and gives the reason why nothing can be recorded.
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
    template <class F>
    void unwatched(F&& f) {
      f();
    }
  };
  explicit NoGraph(Side&) {}
  template <class F>
  void capture(F&&) {}
  std::unique_ptr<NoGraph> cut() { return nullptr; }
  void replay() {}
  template <class Optimizer, class Run>
  static bool can_update(Optimizer&, Run const&) {
    return false;
  }
  void update(UpdateInGraph const&) {}
};

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
    template <class F>
    auto run(std::string& waited, F&& f) {
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
    template <class F>
    void unwatched(F&& f) {
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
  template <class F>
  void capture(F&& f) {
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
  template <class Optimizer, class Run>
  static bool can_update(Optimizer& optimizer, Run const& run) {
    return optimizer.fits_graph(run);
  }
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

/// The type with which `Captured{SingleDevice{cuda}}` records in this build.
using DeviceGraph = CudaGraph;
#else
using DeviceGraph = NoGraph;
#endif

}  // namespace fulgurite::libtorch::graph
