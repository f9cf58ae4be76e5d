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
#include <fulgurite/core/types.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {
namespace libtorch {

// The class of an object whose dynamic type is only known at run time, as people write it: "Linear".

/// Without leading namespaces, with template arguments, and without the Impl that module holders add:
/// "torch::nn::LinearImpl" becomes "Linear".
std::string class_name(auto const& object) {
  std::string name = c10::demangle(typeid(object).name());
  if (auto const colons = name.substr(0, name.find('<')).rfind("::"); colons != std::string::npos)
    name.erase(0, colons + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// The number of an operator's floating-point operations: only matrix products and convolutions count, and a
// multiplication and an addition are two.

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
  explicit LeavesNoTrace(torch::nn::Module& model) : buffers_(model), modes_(model) {}

 private:
  RngScope random_;
  torch::NoGradGuard no_grad_;
  BuffersKept buffers_;
  EvaluationScope modes_;
};

/// Adds to the rows of a summary what the model does while `forward()`, which returns the sizes of its results, runs it
/// with the example: the part of run_example that is the same for all models.
void observe_example(torch::nn::Module const& model, std::vector<report::ModelRow>& rows,
                     FunctionRef<std::string()> forward);

/// Runs `forward` with the example, on the model's device and in its type. Throws [fulgurite.model.example_input] with
/// the message of `forward`'s exception.
void run_example(HasExample auto& model, std::vector<report::ModelRow>& rows) {
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
  auto const forward = [&](auto&... arguments) { return all_sizes(model.forward(arguments...)); };
  observe_example(model, rows, [&] {
    if constexpr (walk::TupleLike<decltype(example)>) return std::apply(forward, example);
    else return forward(example);
  });
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
