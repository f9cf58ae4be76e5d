#pragma once
// One operator on a tape: the recorded call, with the memory that its results go to, and how it is run again.

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/out_form.hpp>
#include <fulgurite/torch/capture/recorder.hpp>

namespace fulgurite::libtorch::capture {

/// What a replay does not pass through again: autograd, views and autocast have had their say while recording.
inline c10::DispatchKeySet above_kernels() {
  return c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView) |
         c10::autocast_dispatch_keyset;
}

/// A result whose memory takes the place of what the recorded call had made: `result` counts the call's, `element`
/// those of a list.
struct AdoptedResult {
  std::size_t result, element;
  bool listed;
  at::Tensor into;
};

/// A call that is run again in each replay.
struct TapeStep {
  c10::OperatorHandle op;
  Stack in;
  std::size_t returns;
  bool graph, straight;
  c10::DispatchKeySet keys;
  std::vector<AdoptedResult> adopted;

  /// `stack` is memory for arguments and results.
  void run(Stack& stack) const {
    if (c10::GradMode::is_enabled() != graph) c10::GradMode::set_enabled(graph);
    stack.clear();
    stack.insert(stack.end(), in.begin(), in.end());
    if (straight) op.redispatchBoxed(keys, &stack);
    else op.callBoxed(stack);
    if (adopted.empty()) return;
    auto const first = stack.size() - returns;
    for (auto const& one : adopted) {
      IValue const& value = stack[first + one.result];
      adopt(one.listed ? value.toListRef()[one.element].toTensor() : value.toTensor(), one.into);
    }
  }

  /// The call in a form that writes into memory it is given. `place`: where its only result goes, if not into the
  /// result's own memory.
  FULGURITE_BULK static TapeStep written_to(Call const& call, OutForm const& form, at::Tensor const* place,
                                            at::Tensor const& before) {
    Stack const results = place ? Stack{*place} : call.out;
    return finished({form.op, form.stack(call.in, results, before), results.size(), call.graph, false, {}, {}});
  }

  /// The call as it was; whatever it allocates is adopted.
  FULGURITE_BULK static TapeStep adopting(Call const& call) {
    std::unordered_set<Storage> seen;
    each_tensor_of(call.in, [&](at::Tensor const& tensor) { seen.insert(storage_of(tensor)); });
    std::vector<AdoptedResult> results;
    for (std::size_t i = 0; i != call.out.size(); ++i) {
      auto const one = [&](IValue const& value, std::size_t element, bool listed) {
        if (value.isTensor() && value.toTensor().defined() && seen.insert(storage_of(value.toTensor())).second)
          results.push_back({i, element, listed, value.toTensor()});
      };
      if (call.out[i].isTensorList())
        for (std::size_t e = 0; e != call.out[i].toListRef().size(); ++e) one(call.out[i].toListRef()[e], e, true);
      else one(call.out[i], 0, false);
    }
    return finished({call.op, call.in, call.out.size(), call.graph, false, {}, std::move(results)});
  }

  /// If the CPU's kernel would be called next in any case, it is called without the dispatcher.
  FULGURITE_BULK static TapeStep finished(TapeStep step) {
    c10::DispatchKeySet next;
    each_tensor_of(step.in, [&](at::Tensor const& tensor) { next = next | tensor.key_set(); });
    next = next - above_kernels();
    step.straight = next.highestPriorityTypeId() == c10::DispatchKey::CPU &&
                    step.op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    step.keys = next;
    return step;
  }

 private:
  /// Gives the memory of `made` to `into`, so that whoever looks at `into`, or at a view of it, sees the new values.
  FULGURITE_BULK void adopt(at::Tensor const& made, at::Tensor const& into) const {
    if (!made.defined() || !same_layout(made, into) || storage_of(made)->nbytes() != storage_of(into)->nbytes())
        [[unlikely]]
      throw Error("fulgurite.capture.layout", c10::toString(op.operator_name()) +
                                                  " returned a tensor of another shape in a replay than when the step "
                                                  "was recorded: use the strategy without Captured, and report this");
    swap_memory(*storage_of(made), *storage_of(into));
  }
};

}  // namespace fulgurite::libtorch::capture
