#pragma once
// Tensors as values: what a metric keeps, how numbers are read on the host, and the gradient that backward starts from.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// Whether anybody but the owner of this handle may write to the tensor's memory: it is a parameter or a buffer, or a
/// view or a detached handle of one.
FULGURITE_BULK bool held_elsewhere(at::Tensor const& value) {
  if (!value.defined()) return false;
  if (value.use_count() > 1) return true;
  return value.is_inference() ? value.storage().use_count() > 1
                              : !value.unsafeGetTensorImpl()->version_counter().unique();
}

/// The handle that a metric keeps of a logged value. It is read after the step (a captured step is recorded first), and
/// on a GPU many steps later. Until then it must not keep the graph alive, and a parameter or a buffer, which is
/// updated in place, has to be copied.
inline at::Tensor keep(at::Tensor const& value) {
  if (held_elsewhere(value)) return value.detach().clone();
  return value.is_cpu() || !value.requires_grad() ? value : value.detach();
}

inline bool reading_waits(at::Tensor const& value) { return !value.is_cpu(); }

/// The elements of a tensor on the CPU. LibTorch's const_data_ptr<T>() does not link under clang 18 and later: LibTorch
/// is built by g++, and the two compilers mangle the function's constraint differently.
template <class T>
T const* data_of(at::Tensor const& tensor) {
  return static_cast<T const*>(tensor.const_data_ptr());
}

/// The number in a tensor of one element; else an Error. On the CPU it is loaded from memory, without an operator.
FULGURITE_BULK double read(at::Tensor const& value) {
  if (!value.defined() || value.numel() != 1)
    throw Error("fulgurite.metric.one_element",
                "a logged value has " + (value.defined() ? std::to_string(value.numel()) : std::string("no")) +
                    " elements, it must have exactly one: log its mean(), or the sum()");
  if (value.is_cpu() && value.layout() == at::kStrided && !value.is_neg()) {
    switch (value.scalar_type()) {
    case at::ScalarType::Float: return static_cast<double>(*data_of<float>(value));
    case at::ScalarType::Double: return *data_of<double>(value);
    case at::ScalarType::Long: return static_cast<double>(*data_of<std::int64_t>(value));
    case at::ScalarType::BFloat16: return static_cast<double>(float(*data_of<at::BFloat16>(value)));
    case at::ScalarType::Half: return static_cast<double>(float(*data_of<at::Half>(value)));
    default: break;
    }
  }
  return value.item<double>();
}

/// Reads many values and waits for the device once: values on a device are gathered there, and copied together.
FULGURITE_BULK void read_all(std::span<at::Tensor const> values, std::span<double> into) {
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> remote;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i != values.size(); ++i) {
    if (!values[i].defined() || values[i].is_cpu() || values[i].numel() != 1) {
      into[i] = read(values[i]);  // which also throws the error, if there is one
      continue;
    }
    auto const flat = values[i].reshape({}).to(at::kDouble);
    remote.push_back(remote.empty() ? flat : flat.to(remote.front().device()));
    place.push_back(i);
  }
  if (remote.empty()) return;
  auto const host = at::stack(remote).cpu();
  auto const* numbers = data_of<double>(host);
  for (std::size_t i = 0; i != place.size(); ++i) into[place[i]] = numbers[i];
}

FULGURITE_COLD void require_scalar(at::Tensor const& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  throw Error("fulgurite.torch.scalar_loss",
              "the loss has " + (loss.defined() ? std::to_string(loss.numel()) : std::string("no")) +
                  " elements, backward starts from exactly one: return its mean() or sum()");
}

/// Throws an Error if backward has nothing to run through. LibTorch would say that in its own words, with a stack
/// trace.
inline void require_graph(at::Tensor const& loss) {
  if (!loss.defined() || loss.requires_grad()) return;
  throw Error("fulgurite.torch.loss_without_graph",
              "the loss depends on no parameter that learns, so there is nothing to run backward through: look for "
              "detach(), a NoGradGuard, item() or argmax() between the parameters and the loss, and whether every "
              "parameter is frozen");
}

inline bool same_kind(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes();
}

/// The gradient to start backward with, so that `loss.backward(seed)` equals `(loss * factor).backward()` without
/// touching the loss. For a factor of 1 it is undefined, which is LibTorch's own default. Others are made once for each
/// thread, factor and kind of loss.
FULGURITE_BULK at::Tensor seed(at::Tensor const& loss, double factor) {
  require_scalar(loss);
  if (factor == 1.0) return {};
  struct Made {
    double factor;
    at::Tensor seed;
  };
  thread_local std::vector<Made> cache;
  for (auto const& made : cache)
    if (made.factor == factor && same_kind(made.seed, loss)) return made.seed;
  if (cache.size() == 64) cache.clear();  // a factor that changes every step must not grow it for ever
  at::NoGradGuard const no_graph;
  return cache.emplace_back(Made{factor, at::full_like(loss.detach(), factor)}).seed;
}

/// The loss times a factor, with its graph: what a model's own `backward` receives.
inline at::Tensor scaled(at::Tensor const& loss, double factor) { return factor == 1.0 ? loss : loss.mul(factor); }

/// The value of the loss without its graph, for hooks that receive a step's outputs.
inline at::Tensor detached(at::Tensor const& loss, double factor) {
  auto value = loss.detach();
  return factor == 1.0 ? value : value.mul(factor);
}

// Switches of LibTorch that the whole process shares. Several trainers at once may want the same position of one; a
// trainer that wants another is refused.

/// Operators take deterministic algorithms, and throw where there is none: what
/// torch.use_deterministic_algorithms(true) does. cuBLAS repeats its bits in workspaces of one kind alone, which the
/// environment names and LibTorch asks for: it is set where nobody has, in time if nothing was multiplied on a GPU yet.
struct DeterministicSwitch {
  static constexpr char const* option = "deterministic";
  using State = std::pair<bool, bool>;
  static State now() {
    return {at::globalContext().deterministicAlgorithms(), at::globalContext().deterministicAlgorithmsWarnOnly()};
  }
  static void put(State to) {
    if (to.first && at::hasCUDA()) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::globalContext().setDeterministicAlgorithms(to.first, to.second);
  }
  static State wanted(bool on) { return {on, false}; }
};

/// cuDNN tries several algorithms for each shape, and takes the fastest.
struct BenchmarkSwitch {
  static constexpr char const* option = "benchmark";
  using State = bool;
  static State now() { return at::globalContext().benchmarkCuDNN(); }
  static void put(State to) { at::globalContext().setBenchmarkCuDNN(to); }
  static State wanted(bool on) { return on; }
};

/// An exception in backward names the function that returned a nan.
struct AnomalySwitch {
  static constexpr char const* option = "detect_anomaly";
  using State = std::pair<bool, bool>;
  static State now() {
    return {torch::autograd::AnomalyMode::is_enabled(), torch::autograd::AnomalyMode::should_check_nan()};
  }
  static void put(State to) { torch::autograd::AnomalyMode::set_enabled(to.first, to.second); }
  static State wanted(bool on) { return {on, on}; }
};

/// Holds one switch in the wanted position, or leaves it alone if none is wanted. The first holder sets it, others
/// join, and the last one puts it back. Throws an Error if another holder wants the other position.
template <class Switch>
class SharedSwitch {
 public:
  explicit SharedSwitch(std::optional<bool> wish) : wish_(wish) {
    if (!wish_) return;
    std::lock_guard const lock(holders().mutex);
    if (holders().count != 0 && holders().position != *wish_) refuse();
    if (holders().count++ == 0) {
      holders().position = *wish_;
      holders().before = Switch::now();
      Switch::put(Switch::wanted(*wish_));
    }
  }
  ~SharedSwitch() {
    if (!wish_) return;
    std::lock_guard const lock(holders().mutex);
    if (--holders().count == 0) Switch::put(holders().before);
  }
  SharedSwitch(SharedSwitch const&) = delete;
  SharedSwitch& operator=(SharedSwitch const&) = delete;

 private:
  struct Holders {
    std::mutex mutex;
    int count = 0;
    bool position = false;
    typename Switch::State before{};
  };
  static Holders& holders() {
    static Holders all;
    return all;
  }
  [[noreturn]] void refuse() const {
    auto const said = [](bool on) { return std::string(Switch::option) + (on ? " = true" : " = false"); };
    throw Error("fulgurite.options.shared_switch", "this trainer needs " + said(*wish_) +
                                                       ", another one that is running needs " + said(!*wish_) +
                                                       " (deterministic asks for benchmark = false, where benchmark is "
                                                       "not set): LibTorch has one such switch for the whole process. "
                                                       "Give both the same options, or run one after the other");
  }

  std::optional<bool> wish_;
};

/// Which algorithms operators may take, for the length of a fit or an evaluation. A trainer that asks for nothing
/// changes nothing, and computes with what another one has asked for.
class AlgorithmScope {
 public:
  AlgorithmScope(bool deterministic, std::optional<bool> benchmark)
      : deterministic_(deterministic ? std::optional(true) : std::nullopt),
        benchmark_(benchmark || !deterministic ? benchmark : std::optional(false)) {}

 private:
  SharedSwitch<DeterministicSwitch> deterministic_;
  SharedSwitch<BenchmarkSwitch> benchmark_;
};

/// LibTorch's anomaly detection. While one trainer asks for it, backward looks for a nan in all of them.
class AnomalyScope {
 public:
  explicit AnomalyScope(bool on) : on_(on ? std::optional(true) : std::nullopt) {}

 private:
  SharedSwitch<AnomalySwitch> on_;
};

// Looks at one step of a fit whose precision is not LibTorch's default type, and says where the step relies on that
// default.

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
