#pragma once
// The rows of a model summary, read from a torch::nn::Module.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {
namespace libtorch {

// The class of an object whose dynamic type is only known at run time, as people write it: "Linear".

/// Without leading namespaces, with template arguments, and without the Impl that module holders add:
/// "torch::nn::LinearImpl" becomes "Linear".
template <class T>
std::string class_name(T const& object) {
  std::string name = c10::demangle(typeid(object).name());
  if (auto const colons = name.substr(0, name.find('<')).rfind("::"); colons != std::string::npos)
    name.erase(0, colons + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// The number of an operator's floating-point operations: only matrix products and convolutions count, and a
// multiplication and an addition are two.

/// Calls `f(tensor)` for the defined tensors in the inputs or outputs of an operator, including those in lists.
template <class Values, class F>
void each_tensor_in(Values const& values, F&& f) {
  for (c10::IValue const& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && value.toTensor().has_storage()) f(value.toTensor());
    } else if (value.isTensorList()) {
      for (at::Tensor const& tensor : value.toTensorVector())
        if (tensor.defined() && tensor.has_storage()) f(tensor);
    }
  }
}

/// The counted operations of an operator: a known number, or a number for each element of its output.
struct Operation {
  enum Kind : std::uint8_t { none, known, for_each_output } kind = none;
  std::int64_t count = 0;

  std::int64_t flops(std::span<std::int64_t const> out) const;
};

/// Counts like PyTorch's FlopCounterMode; recurrent layers count their weights once per time step.
Operation operation_of(std::string_view name, c10::ArrayRef<c10::IValue const> inputs);

// Modules in C++ have no hooks, so a user's own module reports its input and output sizes itself.

/// The sizes of all tensors in the values.
template <class... Ts>
std::string all_sizes(Ts const&... values) {
  std::string text;
  auto const add = [&](at::Tensor const& tensor) { append_item(text, shape_text(tensor.sizes())); };
  (each_tensor(values, add), ...);
  return text;
}

/// The receiver of reported sizes, one per thread.
class SizeListener {
 public:
  virtual void report(torch::nn::Module const& module, std::string in, std::string out) = 0;
  static SizeListener*& current();

 protected:
  ~SizeListener() = default;
};

}  // namespace libtorch

/// Reports a module's input and output sizes for the model's summary, which otherwise shows a `?`. Call it in `forward`
/// of your own module:
///
///     torch::Tensor forward(torch::Tensor x) { return fulgurite::tell_sizes(*this, body->forward(x), x); }
///
/// Returns `out`. While no summary is made, it only checks a pointer.
template <class Out, class... In>
Out tell_sizes(torch::nn::Module const& module, Out out, In const&... in) {
  if (auto* const listener = libtorch::SizeListener::current()) [[unlikely]]
    listener->report(module, libtorch::all_sizes(in...), libtorch::all_sizes(out));
  return out;
}

}  // namespace fulgurite

namespace fulgurite::libtorch {

// Observes the operators that a model runs, and finds the modules that they belong to, the sizes of their inputs and
// outputs, and the operations of the matrix products among them.

using Sizes = std::vector<std::int64_t>;

/// The observations for one module: sizes of its first input and its last output, and operations of its own operators.
struct SeenModule {
  std::string name, type;
  torch::nn::Module const* module = nullptr;
  Sizes in = {}, out = {};
  std::int64_t flops = 0;
  bool reported = false;  ///< true if the module itself reported the sizes of its last call, see tell_sizes
  std::string reported_in = {}, reported_out = {};
};

/// An operator that no other operator called; it belongs to a module, or to none that has parameters.
struct SeenOperator {
  std::string name = {};  ///< as in the module's name, "maxpool2d"
  std::size_t module = static_cast<std::size_t>(-1);
  Sizes in = {}, out = {};
};

/// While it lives, it observes operators of this thread. LibTorch's modules in C++ have no hooks, so an operator is
/// attributed to the module whose parameters it receives.
class ExampleObserver final : private SizeListener {
 public:
  explicit ExampleObserver(torch::nn::Module const& model);
  ~ExampleObserver();
  ExampleObserver(ExampleObserver const&) = delete;
  ExampleObserver& operator=(ExampleObserver const&) = delete;

  std::vector<SeenModule>& modules() { return seen_; }
  /// The operators in the order in which they ran.
  std::vector<SeenOperator> const& operators() const { return operators_; }
  /// The operations of all operators, including those of no module.
  std::int64_t flops() const { return flops_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  /// An operator that is running.
  struct Running {
    std::size_t module = none;  ///< the outermost operator with a module's parameters stands for those inside of it
    std::size_t at = none;      ///< index in the list of operators that no other one called
    bool outermost = false;
    bool counted = false;  ///< counted, so that operators inside of it are not
    Operation operation = {};
  };

  static ExampleObserver*& current();
  static std::unique_ptr<at::ObserverContext> began(at::RecordFunction const& function);
  static void ended(at::RecordFunction const& function, at::ObserverContext*);

  void report(torch::nn::Module const& module, std::string in, std::string out) override;

  void begin(at::RecordFunction const& function);

  void end(at::RecordFunction const& function);

  /// Converts aten::max_pool2d to maxpool2d.
  static std::string plain(std::string_view name);

  /// The module that has the most parameters among the inputs. If weights are tied, an embedding owns those that are
  /// looked up.
  std::size_t owner(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) const;

  std::unordered_map<void const*, std::vector<std::size_t>> owners_;
  std::vector<SeenModule> seen_;
  std::vector<SeenOperator> operators_;
  std::vector<Running> running_;
  std::int64_t flops_ = 0;
  at::CallbackHandle handle_ = 0;
};

// Runs a model once with its example input, for the sizes and operations in its summary, without side effects.

/// The model has `example_input_array`, a value or a function, as input for `forward`.
template <class Model>
concept HasExample = std::derived_from<Model, torch::nn::Module> &&
                     (requires(Model& model) { model.example_input_array(); } || (requires(Model& model) {
                        model.example_input_array;
                      } && !std::is_member_function_pointer_v<decltype(&Model::example_input_array)>));

/// Puts the model in eval mode. At the end it restores modes and buffers of the model, and random numbers.
class LeavesNoTrace : Pinned {
 public:
  explicit LeavesNoTrace(torch::nn::Module& model);
  ~LeavesNoTrace();

 private:
  RngState random_;
  torch::NoGradGuard no_grad_;
  torch::nn::Module& model_;
  bool was_training_;
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// Completes the observations of a Sequential: its modules run one after the other. A LibTorch module without
/// parameters is recognised by the operator with its name: MaxPool2d by max_pool2d.
class FollowedSequential {
 public:
  FollowedSequential(std::vector<SeenModule>& modules, std::vector<SeenOperator> const& operators)
      : modules_(modules), operators_(operators) {}

  void follow(SeenModule& whole);

 private:
  /// The first operator of a module at or after `at`.
  std::size_t first_of(SeenModule const& part, std::size_t at = 0) const;
  static bool is_of(SeenOperator const& operation, SeenModule const& part);
  static void take(SeenModule& part, SeenOperator const& operation);

  std::vector<SeenModule>& modules_;
  std::vector<SeenOperator> const& operators_;
};

/// Adds sizes and operations to the rows of a summary.
void add_seen(std::vector<report::ModelRow>& rows, ExampleObserver& observer);

/// Runs `forward` with the example, on the model's device and in its type. Throws [fulgurite.model.example_input] with
/// the message of `forward`'s exception.
template <HasExample Model>
void run_example(Model& model, std::vector<report::ModelRow>& rows) {
  LeavesNoTrace const unchanged(model);
  auto example = [&] {
    if constexpr (requires { model.example_input_array(); }) return model.example_input_array();
    else return model.example_input_array;
  }();
  for (auto const& parameter : model.parameters())
    if (parameter.is_floating_point()) {
      move_in_place(example, parameter.device());
      convert_in_place(example, parameter.scalar_type());
      break;
    }
  rows.front().in = all_sizes(example);
  ExampleObserver observer(model);
  try {
    auto const run = [&](auto&... arguments) { rows.front().out = all_sizes(model.forward(arguments...)); };
    if constexpr (walk::TupleLike<decltype(example)>) std::apply(run, example);
    else run(example);
  } catch (std::exception const& failed) {
    std::throw_with_nested(
        Error("fulgurite.model.example_input", "forward failed with the model's example_input_array of " +
                                                   rows.front().in + ": " + std::string(failed.what()).substr(0, 300) +
                                                   "; give it sizes and a type that forward takes, or remove it"));
  }
  rows.front().flops = observer.flops();
  add_seen(rows, observer);
}

/// The rows of the whole model, then of its modules depth first; a negative depth means all of them.
std::vector<report::ModelRow> module_rows(torch::nn::Module const& model, int max_depth);
template <class Model>
std::vector<report::ModelRow> summarize(Model const& model, int max_depth) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return module_rows(model, max_depth);
  else return {{.type = class_name(model)}};
}

}  // namespace fulgurite::libtorch

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/summary.ipp>
#endif
