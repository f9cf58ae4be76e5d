#pragma once
// A stand-in for a CUDA graph on the CPU, and the strategy that records with it.

#include "fixtures.hpp"
#include "interpreted.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>
#include <fulgurite/torch/capture/graphs.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/step_kind.hpp>

namespace replayed {

using namespace fulgurite;
namespace graph = libtorch::graph;
namespace capture = libtorch::capture;

/// Like a CUDA graph: recording executes nothing (what the CPU has done meanwhile is undone and overwritten), a replay
/// computes the same operators into the same memory.
class Replayed {
 public:
  static inline torch::nn::Module* model = nullptr;
  static inline std::string fails = {};        ///< what recording complains of
  static inline bool watches = true;           ///< the side stream sees host reads
  static inline double noise = 0, offset = 0;  ///< what a replay adds to the first gradient: alternating, or always
  static inline int alive = 0, captures = 0, cuts = 0, launches = 0;
  static inline int sums = 0, additions = 0;  ///< calls that add to gradients: of all of them at once, and of one
  static inline int overwrites = 0;           ///< calls that overwrite gradients, of all of them at once
  static inline int clears = 0;               ///< calls that clear a tensor
  static inline bool has_kernels = true;      ///< for the optimizer's update

  static std::string missing(at::Device) { return {}; }
  struct Side {
    explicit Side(at::Device) {}
    template <class F>
    auto run(std::string& waited, F&& f) {
      fixtures::Operators const operators;
      capture::SetFor<fixtures::Operators const*> const here(operators_, &operators);
      unwatched_ = 0;
      auto result = f();
      if (watches && operators.host_reads() != unwatched_) waited = "the host waits";
      return result;
    }
    template <class F>
    void unwatched(F&& f) {
      int const before = operators_ ? operators_->host_reads() : 0;
      f();
      if (operators_) unwatched_ += operators_->host_reads() - before;
    }

   private:
    fixtures::Operators const* operators_ = nullptr;
    int unwatched_ = 0;
  };

  explicit Replayed(Side& side) : side_(side) { ++alive; }
  ~Replayed() { --alive; }
  Replayed(Replayed const&) = delete;
  Replayed& operator=(Replayed const&) = delete;

  template <class F>
  void capture(F&& f) {
    ++captures;
    capture::World const world(*model, model->parameters().front().device());
    capture::Recorder recorder(world.device());
    {
      Undone const undone{graph::Snapshot(world)};
      capture::Recording const on(recorder);
      capture::SetFor<capture::Recorder*> const here(recorder_, &recorder);
      f();
    }
    if (!fails.empty()) throw std::runtime_error(fails);
    if (!recorder.refusal.empty()) throw std::runtime_error(recorder.refusal);
    calls_ = std::move(recorder.calls);
    std::unordered_set<capture::Storage> given;
    for (auto* part : std::exchange(parts_, {})) part->overwrite(given);
    overwrite(given);
  }
  /// Its calls so far become a graph of their own.
  std::unique_ptr<Replayed> cut() {
    ++cuts;
    auto first = std::make_unique<Replayed>(side_);
    first->calls_ = std::exchange(recorder_->calls, {});
    parts_.push_back(first.get());
    return first;
  }

 private:
  /// Restores a model, also where recording fails.
  struct Undone {
    graph::Snapshot before;
    ~Undone() { before.restore(); }
  };
  /// Counts what adds to gradients, and overwrites what the calls have made.
  void overwrite(std::unordered_set<capture::Storage>& given) {
    for (auto const& call : calls_) {
      if (call.name() == "aten::_foreach_add_") ++sums;
      if (call.name() == "aten::_foreach_copy_") ++overwrites;
      if (call.name() == "aten::zero_") ++clears;
      if (call.name() != "aten::add_") continue;
      for (auto const& parameter : model->parameters())
        if (auto const& gradient = parameter.grad();
            gradient.defined() && call.in.front().toTensor().data_ptr() == gradient.data_ptr())
          ++additions;
    }
    for (auto const& call : calls_) {
      capture::each_tensor_of(call.in, [&](at::Tensor const& tensor) { given.insert(capture::storage_of(tensor)); });
      capture::each_tensor_of(call.out, [&](at::Tensor const& tensor) {
        if (given.insert(capture::storage_of(tensor)).second && tensor.storage().nbytes() != 0 && tensor.is_cpu())
          std::memset(tensor.storage().mutable_data(), 0xff, tensor.storage().nbytes());
      });
    }
  }

 public:
  template <class Optimizer, class Run>
  static bool can_update(Optimizer& optimizer, Run const&) {
    flat_.clear();
    for (auto const& buffer : optimizer.parameters().arena().buffers()) {
      flat_.insert(flat_.end(), {buffer.parameters, buffer.gradients_too});
      flat_.insert(flat_.end(), buffer.states.begin(), buffer.states.end());
    }
    return has_kernels;
  }
  void update(graph::UpdateInGraph const& update) { updates_.emplace_back(recorder_->calls.size(), &update); }

  /// Those who count operators do not see its own.
  void replay() {
    at::DisableRecordFunctionGuard const unseen;
    at::NoGradGuard const no_graph;
    at::AutoDispatchBelowADInplaceOrView const below;
    ++launches;
    auto update = updates_.begin();
    auto const run_updates = [&](std::size_t until) {
      for (; update != updates_.end() && update->first <= until; ++update) {
        run(*update->second);
        update->second->make_average();
      }
    };
    for (std::size_t i = 0; i != calls_.size(); ++i) {
      run_updates(i);
      auto const& call = calls_[i];
      at::AutoGradMode const as_recorded(call.graph);  // an LSTM's kernel asks for it
      torch::jit::Stack stack = call.in;
      call.op.callBoxed(&stack);
      std::vector<at::Tensor> made;
      capture::each_tensor_of(stack, [&](at::Tensor const& tensor) { made.push_back(tensor); });
      std::size_t next = 0;
      capture::each_tensor_of(call.out, [&](at::Tensor const& tensor) {
        if (made[next].data_ptr() != tensor.data_ptr()) capture::detached(tensor).copy_(made[next]);
        ++next;
      });
    }
    run_updates(calls_.size());
    sign_ = -sign_;
    if (noise != 0 || offset != 0) capture::detached(model->parameters().front().grad()).add_(sign_ * noise + offset);
  }

 private:
  /// The numbers from this address on, which the host may not be able to read.
  static at::Tensor memory_at(void const* at, std::int64_t count) {
    for (auto const& flat : flat_) {
      if (at == nullptr || !flat.defined()) continue;
      auto const bytes = static_cast<char const*>(at) - static_cast<char const*>(flat.const_data_ptr());
      if (bytes >= 0 && bytes < static_cast<std::ptrdiff_t>(flat.nbytes()))
        return flat.narrow(0, bytes / static_cast<std::ptrdiff_t>(flat.itemsize()), count);
    }
    return {};
  }

  /// What the kernels do.
  static void run(graph::UpdateInGraph const& update) {
    auto const table = update.table().cpu();
    auto const* const numbers = static_cast<double const*>(table.const_data_ptr());
    if (numbers[0] == 0 || numbers[3] != 0) return;
    auto const most = libtorch::UpdateTrace::most, length = most * update.runs().size();
    auto const* row =
        numbers + static_cast<std::size_t>(libtorch::UpdateTable::head) + static_cast<std::size_t>(numbers[1]) * length;
    for (auto const& run : update.runs()) {
      std::vector<at::Tensor> inputs;
      for (auto const* const at : run.inputs()) inputs.push_back(memory_at(at, run.count));
      interpreted::interpret(run.trace, {row, most}, inputs);
      row += most;
    }
    update.table().select(0, 1).add_(1);
  }

  Side& side_;
  capture::Recorder* recorder_ = nullptr;
  std::vector<Replayed*> parts_ = {};
  std::vector<capture::Call> calls_;
  static inline std::vector<at::Tensor> flat_ = {};                                ///< of the optimizer
  std::vector<std::pair<std::size_t, graph::UpdateInGraph const*>> updates_ = {};  ///< each before this call
  double sign_ = 1;
};

/// Counts the operators of each batch that no graph calls.
struct CountsOperators {
  using Stateless = ByChoice;
  std::shared_ptr<std::map<std::size_t, int>> counts = std::make_shared<std::map<std::size_t, int>>();
  std::shared_ptr<std::optional<fixtures::Operators>> now = std::make_shared<std::optional<fixtures::Operators>>();
  void on_train_batch_start() { now->emplace(); }
  void on_train_batch_end() {
    ++(*counts)[(*now)->all()];
    now->reset();
  }
  /// The number of operators that most batches call, and how many these are.
  std::pair<std::size_t, int> most() const {
    return *std::max_element(counts->begin(), counts->end(),
                             [](auto const& a, auto const& b) { return a.second < b.second; });
  }
  /// The number of operators of all batches.
  std::size_t sum() const {
    std::size_t all = 0;
    for (auto const& [operators, batches] : *counts) all += operators * static_cast<std::size_t>(batches);
    return all;
  }
};

struct GraphedCpu : capture::Capturing<SingleDevice<Cpu>, graph::Graphs<Replayed>> {
  using Capturing::Capturing;
  /// Its graphs overwrite gradients. Products are LibTorch's, since the stand-in does not replay others.
  static GraphedCpu overwriting() {
    GraphedCpu strategy(SingleDevice{cpu}, kernels::fastest);
    strategy.matmul = Matmul::libtorch;
    return strategy;
  }
};

}  // namespace replayed
