#pragma once
// Writes down every operator that LibTorch dispatches on this thread, below autograd, while a step runs.

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/own_random.hpp>

namespace fulgurite::libtorch::capture {

using torch::jit::Stack;

/// A piece of memory that was written, and the counter by which others notice that.
struct Version {
  Storage storage;
  c10::VariableVersion counter;
};

/// One call: the operator, its arguments and results, whether graphs were being made (grad mode), and the version
/// counters of what it wrote.
struct Call {
  c10::OperatorHandle op;
  Stack in, out;
  bool graph;
  std::vector<Version> written = {};
  std::string name() const { return op.operator_name().name; }
};

class Recorder {
 public:
  explicit Recorder(at::Device device = at::kCPU) : device_(device) {}

  std::vector<Call> calls;
  std::string refusal;  ///< why the step cannot be recorded; from then on nothing is kept

  void refuse(std::string reason) {
    if (!refusal.empty()) return;
    refusal = std::move(reason);
    calls.clear();
  }

  FULGURITE_BULK void take(c10::OperatorHandle const& op, c10::DispatchKeySet below, Stack* stack) {
    auto const& schema = op.schema();
    std::size_t const arguments = schema.arguments().size(), returns = schema.returns().size();
    name_generator(op, *stack);  // a replay calls kernels past the place where that happens
    Stack const given(stack->end() - static_cast<std::ptrdiff_t>(arguments), stack->end());
    Stack in = keep(given);
    bool const graph = c10::GradMode::is_enabled();
    op.redispatchBoxed(below, stack);
    if (!refusal.empty()) return;
    Stack out = keep(Stack(stack->end() - static_cast<std::ptrdiff_t>(returns), stack->end()));
    if (!refusal.empty()) return;
    std::vector<Version> written;
    for (std::size_t i = 0; i != arguments; ++i) {
      auto const* alias = schema.arguments()[i].alias_info();
      if (!alias || !alias->isWrite()) continue;
      if (moved(in[i], given[i])) return refuse(op.operator_name().name + " changes the shape of a tensor in place");
      each_tensor_in(given[i], [&](at::Tensor const& tensor) {
        if (!tensor.is_inference())
          written.push_back({storage_of(tensor), tensor.unsafeGetTensorImpl()->version_counter()});
      });
    }
    calls.push_back({op, std::move(in), std::move(out), graph, std::move(written)});
  }

  static Recorder*& current() {
    thread_local Recorder* recorder = nullptr;
    return recorder;
  }
  /// How many calls were intercepted on threads where nobody records.
  static std::atomic<long>& strays() {
    static std::atomic<long> count = 0;
    return count;
  }

 private:
  at::Device device_;

  FULGURITE_BULK Stack keep(Stack const& values) {
    Stack kept;
    if (!refusal.empty()) return kept;
    each_tensor_of(values, [&](at::Tensor const& tensor) {
      bool const number = !device_.is_cpu() && tensor.is_cpu() &&
                          tensor.dim() == 0;  // a number of the host, which kernels of a device take by value
      if (!number && !is_plain(tensor, device_))
        refuse("the step uses a tensor that is not a dense real one of " + name_of(device_));
    });
    if (!refusal.empty()) return kept;
    kept.reserve(values.size());
    for (IValue const& value : values)
      kept.push_back(with_tensors(value, [](at::Tensor const& tensor) { return frozen(tensor); }));
    return kept;
  }

  FULGURITE_BULK static bool moved(IValue const& before, IValue const& after) {
    std::vector<at::Tensor> old;
    each_tensor_in(before, [&](at::Tensor const& tensor) { old.push_back(tensor); });
    bool differs = false;
    std::size_t i = 0;
    each_tensor_in(after, [&](at::Tensor const& tensor) {
      differs = differs || i == old.size() || storage_of(old[i]) != storage_of(tensor) || !same_layout(old[i], tensor);
      ++i;
    });
    return differs || i != old.size();
  }
};

FULGURITE_BULK void intercept(c10::OperatorHandle const& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard const inner(recording_key);
  auto const below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, recording_key);
  if (auto* recorder = Recorder::current()) return recorder->take(op, below, stack);
  ++Recorder::strays();
  op.redispatchBoxed(below, stack);
}

/// Whether steps can be recorded. They cannot if someone else has taken the dispatch key, as another copy of this
/// library with hidden symbols would have.
inline bool available() {
  static torch::Library* const library = [] {
    torch::Library* made = nullptr;
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(recording_key)) return made;
    made = new torch::Library(torch::Library::IMPL, "_", recording_key, __FILE__,
                              __LINE__);  // lives as long as the process
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
    return made;
  }();
  return library != nullptr;
}

/// While it lives, calls of operators on this thread go to the recorder.
class Recording {
 public:
  explicit Recording(Recorder& recorder)
      : recorder_(recorder), outer_(Recorder::current()), strays_(Recorder::strays()), on_(recording_key) {
    Recorder::current() = &recorder;
  }
  ~Recording() {
    Recorder::current() = outer_;
    if (Recorder::strays() != strays_) recorder_.refuse("operators were called on another thread");
  }
  Recording(Recording const&) = delete;
  Recording& operator=(Recording const&) = delete;

 private:
  Recorder& recorder_;
  Recorder* outer_;
  long strays_;
  c10::impl::IncludeDispatchKeyGuard on_;
};

}  // namespace fulgurite::libtorch::capture
