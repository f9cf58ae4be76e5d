#pragma once
// A CUDA graph of one step, and the stream on which steps are prepared for it.

#include <string>

#include <c10/core/Device.h>

// The build defines this macro if LibTorch's CUDA libraries are linked and the toolkit's headers compile.
#if defined(FULGURITE_HAS_CUDA_RUNTIME)

#include <exception>
#include <memory>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#endif

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
