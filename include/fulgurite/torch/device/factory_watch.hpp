#pragma once
// Looks at one step of a fit whose precision is not LibTorch's default type, and says where the step relies on that
// default.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch {

/// The inputs are read from where they lie, and not by RecordFunction::inputs(): that function first asserts a member
/// which is only there in debug builds, while LibTorch itself is built without it, so a debug build of a program would
/// read beyond the object.
template <auto Inputs>
struct RecordedInputs {
  friend auto const& recorded_inputs(at::RecordFunction const& call) { return call.*Inputs; }
};
auto const& recorded_inputs(at::RecordFunction const& call);
template struct RecordedInputs<&at::RecordFunction::inputs_>;

/// Finds the first function of this thread that makes a floating tensor from nothing (torch::zeros, torch::randn)
/// without being given a type, so that the tensor has LibTorch's default type instead of `wanted`. There is one default
/// type for the whole process, and a fit leaves it alone, since other threads make tensors, too. `torch::tensor({0.5})`
/// cannot be told from one that names its type.
class FactoryWatch {
 public:
  using Tell = std::function<void(std::string const& function, std::string const& made, std::string const& wanted)>;

  /// Without somebody to tell, nothing is watched.
  FactoryWatch(at::ScalarType wanted, Tell tell) : wanted_(wanted), tell_(std::move(tell)) {
    if (!tell_) return;
    outer_ = std::exchange(watching(), this);
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begins, &ends)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  /// Tells in the destructor, and so before an exception of the step itself, which may well come from the wrong type.
  ~FactoryWatch() {
    if (!tell_) return;
    at::removeCallback(handle_);
    watching() = outer_;
    if (!function_.empty()) tell_(function_, c10::toString(made_), c10::toString(wanted_));
  }
  FactoryWatch(FactoryWatch const&) = delete;
  FactoryWatch& operator=(FactoryWatch const&) = delete;

 private:
  /// Looks at the outermost call alone: what it calls in turn is LibTorch's own affair.
  struct Call final : at::ObserverContext {
    explicit Call(FactoryWatch& of) : watch(&of) { watch->inside_ = true; }
    ~Call() override { watch->inside_ = false; }
    FactoryWatch* watch;
  };

  static FactoryWatch*& watching() {
    thread_local FactoryWatch* watch = nullptr;
    return watch;
  }

  FULGURITE_BULK static std::unique_ptr<at::ObserverContext> begins(at::RecordFunction const& call) {
    auto* const watch = watching();
    if (!watch || watch->inside_ || !watch->function_.empty()) return nullptr;
    auto const schema = call.operator_schema();
    if (!schema) return nullptr;
    auto const type = schema->argumentIndexWithName("dtype");
    auto const& inputs = recorded_inputs(call);
    if (!type || static_cast<std::size_t>(*type) >= inputs.size() || !inputs[static_cast<std::size_t>(*type)].isNone())
      return nullptr;
    for (auto const& input : inputs)
      if (input.isTensor() || input.isTensorList()) return nullptr;  // then the type comes from there
    return std::make_unique<Call>(*watch);
  }

  FULGURITE_BULK static void ends(at::RecordFunction const& call, at::ObserverContext* context) {
    if (!context) return;
    auto& watch = *static_cast<Call*>(context)->watch;
    for (auto const& output : call.outputs()) {
      if (!output.isTensor() || !output.toTensor().defined() || !output.toTensor().is_floating_point()) continue;
      watch.made_ = output.toTensor().scalar_type();
      if (watch.made_ != watch.wanted_)
        watch.function_ = std::string_view(call.name()).substr(std::string_view("aten::").size());
    }
  }

  at::ScalarType wanted_;
  Tell tell_;
  FactoryWatch* outer_ = nullptr;
  at::CallbackHandle handle_{};
  bool inside_ = false;
  at::ScalarType made_ = at::ScalarType::Undefined;
  std::string function_ = {};
};

}  // namespace fulgurite::libtorch
