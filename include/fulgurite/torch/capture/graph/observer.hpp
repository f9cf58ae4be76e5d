#pragma once
// Looks at a step that runs as it is written: would a graph know all that the step uses, and what does the step write?

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/capture/world.hpp>

namespace fulgurite::libtorch::graph {

/// Sees the operators that this thread calls. That leaves out backward, which runs on other threads: it uses what
/// forward has left, and writes gradients.
class Observer {
 public:
  explicit Observer(capture::World const& world) : world_(world), device_(world.device()), recorder_(device_) {
    world.each_tensor([&](at::Tensor const& tensor) { before_.emplace_back(tensor, version(tensor)); });
  }

  template <class F>
  auto run(F&& step) {
    capture::Recording const on(recorder_);
    return step();
  }

  /// The version counters that a replay has to move as the step did: those of the model's tensors, and those of other
  /// tensors in the same memory (as the one with which an arena is cleared as a whole).
  FULGURITE_BULK std::vector<c10::VariableVersion> written() const {
    std::vector<c10::VariableVersion> all;
    for (auto const& [tensor, then] : before_)
      if (version(tensor) != then) all.push_back(tensor.unsafeGetTensorImpl()->version_counter());
    for (auto const& call : recorder_.calls)
      for (auto const& [storage, counter] : call.written)
        if (world_.number(storage)) all.push_back(counter);
    return all;
  }

  /// Why a graph of this step would go wrong; empty if nothing is seen. `given`: the tensors of the batch; `left`: what
  /// leaves the step. Ends the observation.
  FULGURITE_BULK std::string wrong(std::vector<at::Tensor> const& given, std::vector<at::Tensor> const& left) {
    if (!recorder_.refusal.empty()) return recorder_.refusal;
    std::unordered_set<capture::Storage> known, leaving;
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
    for (auto const& tensor : given)
      if (tensor.defined()) known.insert(capture::storage_of(tensor));
    std::string reason;
    for (auto const& call : recorder_.calls) {
      capture::each_tensor_of(call.in, [&](at::Tensor const& tensor) {
        auto const storage = capture::storage_of(tensor);
        bool const number = tensor.unsafeGetTensorImpl()->is_wrapped_number() ||
                            tensor.device() != device_;  // the recorder lets these pass
        if (!number && !known.contains(storage) && !world_.number(storage))
          reason = call.name() + " uses a tensor that is not in the batch, the parameters or the buffers, so a graph "
                                 "would keep using this one: "
                                 "register it as a buffer";
      });
      capture::each_tensor_of(call.out, [&](at::Tensor const& tensor) {
        if (!world_.number(capture::storage_of(tensor)) && known.insert(capture::storage_of(tensor)).second)
          made.push_back(tensor.storage().getWeakStorageImpl());
      });
    }
    recorder_.calls.clear();
    for (auto const& tensor : left) leaving.insert(capture::storage_of(tensor));
    for (auto const& storage : made)
      if (auto const alive = storage.lock(); reason.empty() && alive && !leaving.contains(alive.get()))
        reason = "a tensor made in the step is kept after it, where a replay would not change it: return it or log it";
    return reason;
  }

 private:
  static std::uint32_t version(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }

  capture::World const& world_;
  at::Device device_;
  capture::Recorder recorder_;
  std::vector<std::pair<at::Tensor, std::uint32_t>> before_;
};

}  // namespace fulgurite::libtorch::graph
