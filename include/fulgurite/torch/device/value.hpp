#pragma once
// Tensors as values: what a metric keeps, reading numbers on the host, and the gradient that backward starts from.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// The handle that a metric keeps of a logged value. It is read after the step (a captured step is recorded first), and
/// on a GPU many steps later. Until then it must not keep the graph alive; a parameter or a buffer has to be copied,
/// since it is updated in place. No operator is called for a loss that only the step holds.
at::Tensor keep(at::Tensor const& value);

inline bool reading_waits(at::Tensor const& value) { return !value.is_cpu(); }

/// The elements of a tensor on the CPU. LibTorch's const_data_ptr<T>() does not link under clang 18 and later: LibTorch
/// is built by g++, and the two compilers mangle the function's constraint differently.
template <class T>
T const* data_of(at::Tensor const& tensor) {
  return static_cast<T const*>(tensor.const_data_ptr());
}

/// The number in a one-element tensor; throws an Error for other sizes. On the CPU it is loaded from memory, without an
/// operator.
double read(at::Tensor const& value);

/// Reads many values and waits for each device only once: its values are gathered there, those of one type together,
/// by one operator.
void read_all(std::span<at::Tensor const> values, std::span<double> into);

/// Replaces one-element tensors by one of each type and device: their largest magnitude, which is nan or inf if one of
/// them is. Nothing is waited for.
void condense(std::vector<at::Tensor>& values);

void require_scalar(at::Tensor const& loss);

/// Throws an Error if the loss has no graph for backward. LibTorch's own message would come with a stack trace.
void require_graph(at::Tensor const& loss);

/// Finds tensors that receive gradients in the first two batches of a fit and that nothing updates, such as the weights
/// of a layer that is not registered. A leaf that a step makes for itself, as a gradient penalty does, is another one
/// in each batch; an input whose gradient each step needs may be a buffer.
class UntrainedLeaves {
 public:
  bool done() const { return done_; }
  /// Returns a warning's sentence, or nothing. `batch`: how many were before it; `known`: parameters and buffers of the
  /// model, and parameters of its optimizers.
  std::string look(at::Tensor const& loss, long batch, std::vector<at::Tensor> const& known);

 private:
  struct Leaf {
    c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl> tensor;  ///< its memory may go
    std::uint32_t version;
  };
  static std::vector<at::Tensor> leaves(at::Tensor const& loss, std::vector<at::Tensor> const& known);

  std::vector<Leaf> first_{};  ///< those of the first batch
  long batch_ = -1, second_ = -1;
  bool done_ = false;
};

bool same_kind(at::Tensor const& a, at::Tensor const& b);

/// The gradient to start backward with, so that `loss.backward(seed)` equals `(loss * factor).backward()` without
/// multiplying the loss. For a factor of 1 it is undefined, which is LibTorch's default. Others are cached for each
/// thread, factor and kind of loss.
at::Tensor seed(at::Tensor const& loss, double factor);

/// The loss times a factor, with its graph. A model's own `backward` receives it.
at::Tensor scaled(at::Tensor const& loss, double factor);

/// The value of the loss without its graph, for hooks that receive a step's outputs.
at::Tensor detached(at::Tensor const& loss, double factor);

// Switches of LibTorch that the whole process shares. Several trainers at once may use the same position of a switch; a
// trainer that needs the other position gets an Error.

/// Makes operators use deterministic algorithms, and throw if there is none, like
/// torch.use_deterministic_algorithms(true). cuBLAS is only reproducible with workspaces of one kind, which LibTorch
/// requires an environment variable for. If the variable is not set, this sets it, which is in time if nothing was
/// multiplied on a GPU before.
struct DeterministicSwitch {
  static constexpr char const* option = "deterministic";
  using State = std::pair<bool, bool>;
  static State now();
  static void put(State to);
  static State wanted(bool on) { return {on, false}; }
};

/// cuDNN measures several algorithms for each shape, and uses the fastest.
struct BenchmarkSwitch {
  static constexpr char const* option = "benchmark";
  using State = bool;
  static State now();
  static void put(State to);
  static State wanted(bool on) { return on; }
};

/// An exception in backward names the function that returned a NaN.
struct AnomalySwitch {
  static constexpr char const* option = "detect_anomaly";
  using State = std::pair<bool, bool>;
  static State now();
  static void put(State to);
  static State wanted(bool on) { return {on, on}; }
};

/// Holds one switch in the given position, or does nothing if none is given. The first holder sets it, others join, and
/// the last one restores it. Throws an Error if another holder needs the other position.
template <class Switch>
class SharedSwitch : Pinned {
 public:
  explicit SharedSwitch(std::optional<bool> wanted) : wanted_(wanted) {
    if (!wanted_) return;
    std::lock_guard const lock(holders().mutex);
    if (holders().count != 0 && holders().position != *wanted_) refuse();
    if (holders().count++ == 0) {
      holders().position = *wanted_;
      holders().before = Switch::now();
      Switch::put(Switch::wanted(*wanted_));
    }
  }
  ~SharedSwitch() {
    if (!wanted_) return;
    std::lock_guard const lock(holders().mutex);
    if (--holders().count == 0) Switch::put(holders().before);
  }

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
    throw Error("fulgurite.options.shared_switch", "this trainer needs " + said(*wanted_) +
                                                       ", another one that is running needs " + said(!*wanted_) +
                                                       " (deterministic asks for benchmark = false, where benchmark is "
                                                       "not set): LibTorch has one such switch for the whole process. "
                                                       "Give both the same options, or run one after the other");
  }

  std::optional<bool> wanted_;
};

/// Restricts the algorithms of operators during a fit or an evaluation. A trainer without such options changes nothing,
/// and runs under the restrictions of another trainer.
class AlgorithmScope {
 public:
  AlgorithmScope(bool deterministic, std::optional<bool> benchmark);
  ~AlgorithmScope();

 private:
  SharedSwitch<DeterministicSwitch> deterministic_;
  SharedSwitch<BenchmarkSwitch> benchmark_;
};

/// LibTorch's anomaly detection. While one trainer uses it, it is on for all trainers.
class AnomalyScope {
 public:
  explicit AnomalyScope(bool on);
  ~AnomalyScope();

 private:
  SharedSwitch<AnomalySwitch> on_;
};

// Observes one step of a fit whose precision is not LibTorch's default type, and reports where the step relies on that
// default.

/// The inputs are read directly, and not by RecordFunction::inputs(): that function first asserts a member that only
/// exists in debug builds, while LibTorch itself is a release build, so a debug build of a program would read beyond
/// the object.
template <auto Inputs>
struct RecordedInputs {
  friend auto const& recorded_inputs(at::RecordFunction const& call) { return call.*Inputs; }
};
auto const& recorded_inputs(at::RecordFunction const& call);
template struct RecordedInputs<&at::RecordFunction::inputs_>;

/// Finds the first function of this thread that creates a floating-point tensor (torch::zeros, torch::randn) without a
/// type argument, so that the tensor has LibTorch's default type instead of `wanted`. The default type belongs to the
/// whole process, and a fit does not change it, since other threads create tensors, too. `torch::tensor({0.5})` cannot
/// be distinguished from a call that names its type.
class FactoryWatch : Pinned {
 public:
  using Report = std::function<void(std::string const& function, std::string const& made, std::string const& wanted)>;

  /// Does not observe anything if `report` is empty.
  FactoryWatch(at::ScalarType wanted, Report report);
  /// Reports in the destructor, and so before an exception of the step itself, whose cause may be the wrong type.
  ~FactoryWatch();

 private:
  /// Marks an outermost call: calls inside of it are made by LibTorch, not by the user.
  struct Call final : at::ObserverContext {
    explicit Call(FactoryWatch& of);
    ~Call() override { watch->inside_ = false; }
    FactoryWatch* watch;
  };

  static FactoryWatch*& watching() {
    thread_local FactoryWatch* watch = nullptr;
    return watch;
  }

  static std::unique_ptr<at::ObserverContext> begins(at::RecordFunction const& call);

  static void ends(at::RecordFunction const& call, at::ObserverContext* context);

  at::ScalarType wanted_;
  Report report_;
  FactoryWatch* outer_ = nullptr;
  at::CallbackHandle handle_{};
  bool inside_ = false;
  at::ScalarType made_ = at::ScalarType::Undefined;
  std::string function_ = {};
};

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/value.ipp>
#endif
