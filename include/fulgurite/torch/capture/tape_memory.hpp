#pragma once
// The memory of a tape: what a recorded step computes gets places of its own, and shares them where it can.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/known_operators.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/live_calls.hpp>
#include <fulgurite/torch/capture/memory.hpp>
#include <fulgurite/torch/capture/memory_plan.hpp>
#include <fulgurite/torch/capture/tape_looks.hpp>
#include <fulgurite/torch/capture/tape_product.hpp>
#include <fulgurite/torch/capture/tape_step.hpp>
#include <fulgurite/torch/native/small_call.hpp>

namespace fulgurite::libtorch::capture {

/// The calls of a step, the steps of its tape, and their memory.
class TapeMemory {
 protected:
  struct Entry {
    std::variant<TapeStep, Memory, Product, native::SmallCall, TapeLook> what;
    std::vector<Storage>
        done;  ///< adopted memory that is not needed any more; what is made next finds it in the caches
  };

  TapeMemory(std::vector<Call> calls, std::vector<at::Tensor> leaving)
      : calls_(std::move(calls)), leaving_(std::move(leaving)) {}

  FULGURITE_BULK bool is_constant(Call const& call) const {
    if (!is_constant_factory(call.name())) return false;
    bool constant = true;
    each_tensor_of(call.out,
                   [&](at::Tensor const& tensor) { constant = constant && !rewritten_.contains(storage_of(tensor)); });
    return constant;
  }

  /// Gives the batch, and all that the step computes, storages that nobody else has seen. Those of the latter have no
  /// memory yet.
  FULGURITE_BULK void own_memory(Listing const& listing, std::vector<at::Tensor> const& batch) {
    std::unordered_map<Storage, at::Storage> own;
    for (auto const& tensor : batch) {
      if (!tensor.defined()) {
        inputs_.emplace_back();
        continue;
      }
      auto const item = static_cast<std::int64_t>(tensor.itemsize());
      auto const offset =
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64) / item;
      auto input = frozen(tensor);
      input.unsafeGetTensorImpl()->set_storage_keep_dtype(
          without_memory(static_cast<std::size_t>(tensor.numel() + offset) * static_cast<std::size_t>(item)));
      fill(storage_of(input));
      input.unsafeGetTensorImpl()->set_storage_offset(offset);
      inputs_.push_back(std::move(input));
    }
    auto const change = [&](at::Tensor const& tensor) {
      auto const [kind, number] = listing.role(tensor);
      auto* impl = tensor.unsafeGetTensorImpl();
      if (kind == Role::Kind::batch) {
        auto const offset = tensor.storage_offset() - batch[number].storage_offset() + inputs_[number].storage_offset();
        impl->set_storage_keep_dtype(inputs_[number].storage());
        impl->set_storage_offset(offset);
      } else if (kind == Role::Kind::made) {
        auto const storage = storage_of(tensor);
        auto const found = own.find(storage);
        auto const mine =
            found != own.end() ? found->second : own.emplace(storage, without_memory(storage->nbytes())).first->second;
        made_.insert(mine.unsafeGetStorageImpl());
        if (listing.rewritten.contains(storage)) rewritten_.insert(mine.unsafeGetStorageImpl());
        retired_.push_back(tensor.storage());
        impl->set_storage_keep_dtype(mine);
      }
    };
    for (auto& call : calls_) {
      each_tensor_of(call.in, change);
      each_tensor_of(call.out, change);
    }
    for (auto const& tensor : leaving_) change(tensor);
    retired_.clear();
  }
  static at::Storage without_memory(std::size_t bytes) {
    return {at::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::kCPU), c10::GetCPUAllocator(), true};
  }
  /// A tensor of the same shape that only the tape knows.
  FULGURITE_BULK at::Tensor scratch_like(at::Tensor const& tensor) {
    auto scratch = detached(tensor);
    scratch.unsafeGetTensorImpl()->set_storage_keep_dtype(without_memory(tensor.nbytes()));
    scratch.unsafeGetTensorImpl()->set_storage_offset(0);
    made_.insert(storage_of(scratch));
    return scratch;
  }
  /// Gives the storage memory in which bytes that no call sets are easy to notice.
  FULGURITE_BULK void fill(Storage storage) {
    if (storage->nbytes() == 0) return;
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(storage->nbytes()));
    std::memset(storage->mutable_data(), 0xff, storage->nbytes());
    facts_.bytes += storage->nbytes();
  }

  /// Gives memory to what the step computes. What leaves the step, constants, and memory that the step itself asks for
  /// and may fill in part have places of their own. Results that are adopted bring their memory along, which is freed
  /// after its last use.
  FULGURITE_BULK void share_memory(std::vector<TapeStep> const& constants) {
    std::unordered_set<Storage> alone;
    for (auto const& tensor : leaving_) alone.insert(storage_of(tensor));
    for (auto const& step : constants) {
      each_tensor_of(step.in, [&](at::Tensor const& tensor) { alone.insert(storage_of(tensor)); });
      for (auto const& adopted : step.adopted) alone.insert(storage_of(adopted.into));
    }
    for (auto const& call : calls_)
      if (is_empty_factory(call.name()))
        each_tensor_of(call.out, [&](at::Tensor const& tensor) { alone.insert(storage_of(tensor)); });
    for (auto const storage : alone) {
      plan_.leave_out(storage);
      if (made_.contains(storage)) fill(storage);
    }
    std::vector<Storage> adopted;
    for (std::size_t i = 0; i != steps_.size(); ++i) {
      auto const use = [&](at::Tensor const& tensor) {
        if (made_.contains(storage_of(tensor))) plan_.use(storage_of(tensor), i);
      };
      each_tensor_of_step(steps_[i].what, use);
      if (auto const* call = std::get_if<TapeStep>(&steps_[i].what))
        for (auto const& result : call->adopted) {
          plan_.leave_out(storage_of(result.into));
          if (!alone.contains(storage_of(result.into))) adopted.push_back(storage_of(result.into));
        }
    }
    for (auto const storage : adopted) steps_[plan_.last_use(storage)].done.push_back(storage);
    plan_.lay_out();
    facts_.bytes += plan_.bytes();
  }

  MemoryPlan plan_;
  std::vector<Call> calls_;
  std::vector<Entry> steps_;
  std::vector<at::Tensor> inputs_, leaving_;
  std::vector<at::Storage> retired_;
  std::unordered_set<Storage> made_, rewritten_;
  TapeFacts facts_;
};

}  // namespace fulgurite::libtorch::capture
