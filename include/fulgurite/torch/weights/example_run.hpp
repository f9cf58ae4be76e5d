#pragma once
// Runs a model once with its example input, for the sizes and operations in its summary, and leaves no trace.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/model_table.hpp>
#include <fulgurite/torch/data/move.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/weights/example_observer.hpp>
#include <fulgurite/torch/weights/tell_sizes.hpp>

namespace fulgurite::libtorch {

/// The model has `example_input_array`, a value or a function, for `forward`.
template <class Model>
concept HasExample = std::derived_from<Model, torch::nn::Module> &&
                     (requires(Model& model) { model.example_input_array(); } || (requires(Model& model) {
                        model.example_input_array;
                      } && !std::is_member_function_pointer_v<decltype(&Model::example_input_array)>));

/// Modes and buffers of a model, and random numbers, put back when this ends. The model is in eval mode meanwhile.
class LeavesNoTrace {
 public:
  explicit LeavesNoTrace(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) {
    for (auto const& module : model.modules(false)) modes_.emplace_back(module.get(), module->is_training());
    for (auto const& buffer : model.buffers())
      if (buffer.defined()) buffers_.emplace_back(buffer, buffer.clone());
    model.eval();
  }
  ~LeavesNoTrace() {
    model_.train(was_training_);
    for (auto const& [module, training] : modes_)
      module->train(training);  // from the outside in: each sets those below
    for (auto& [buffer, before] : buffers_) buffer.copy_(before);
    random_.restore();
  }
  LeavesNoTrace(LeavesNoTrace const&) = delete;
  LeavesNoTrace& operator=(LeavesNoTrace const&) = delete;

 private:
  RngState random_;
  torch::NoGradGuard no_grad_;
  torch::nn::Module& model_;
  bool was_training_;
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// A module of LibTorch's own.
inline bool is_builtin(torch::nn::Module const& module) {
  return std::string_view(typeid(module).name()).starts_with("N5torch2nn");
}

/// What is seen of a Sequential: its modules run one after the other. One without parameters, of LibTorch's own, is
/// known by the operator that is called as it is: MaxPool2d by max_pool2d.
class FollowedSequential {
 public:
  FollowedSequential(std::vector<SeenModule>& modules, std::vector<SeenOperator> const& operators)
      : modules_(modules), operators_(operators) {}

  FULGURITE_COLD void follow(SeenModule& whole) {
    std::vector<SeenModule*> parts;
    for (auto const& child : whole.module->named_children())
      parts.push_back(&*std::ranges::find(modules_, whole.name + "." + child.key(), &SeenModule::name));
    auto const anchor = std::ranges::find_if(parts, [&](auto* part) { return first_of(*part) < operators_.size(); });
    if (anchor == parts.end()) return;
    std::size_t at = first_of(**anchor);
    for (auto before = anchor; before != parts.begin() && at > 0;) {
      if (!is_of(operators_[at - 1], **--before)) break;
      take(**before, operators_[--at]);
    }
    Sizes const* last = nullptr;
    for (auto part = anchor; part != parts.end(); ++part) {
      last = nullptr;
      if (auto const own = first_of(**part, at); own < operators_.size()) at = own;
      else if (at < operators_.size() && is_of(operators_[at], **part)) take(**part, operators_[at]);
      else continue;
      ++at;
      last = &(*part)->out;
    }
    whole.in = parts.front()->in;
    if (last != nullptr) whole.out = *last;
  }

 private:
  /// The first operator of a module from `at` on.
  std::size_t first_of(SeenModule const& part, std::size_t at = 0) const {
    auto const module = static_cast<std::size_t>(&part - modules_.data());
    while (at < operators_.size() && operators_[at].module != module) ++at;
    return at;
  }
  FULGURITE_COLD static bool is_of(SeenOperator const& operation, SeenModule const& part) {
    std::string name = part.type;
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return operation.name == name && is_builtin(*part.module);
  }
  static void take(SeenModule& part, SeenOperator const& operation) {
    part.in = operation.in;
    part.out = operation.out;
  }

  std::vector<SeenModule>& modules_;
  std::vector<SeenOperator> const& operators_;
};

/// Sizes and operations for the rows of a summary.
FULGURITE_COLD void add_seen(std::vector<report::ModelRow>& rows, ExampleObserver& observer) {
  auto& modules = observer.modules();
  for (auto& seen : modules) {
    bool const is_one = is_builtin(*seen.module) && seen.module->children().empty();
    if (!is_one) seen.in = seen.out = {};  // what its operators were given need not be what it was given
  }
  for (auto& seen : modules)
    if (seen.type == "Sequential" && is_builtin(*seen.module))
      FollowedSequential(modules, observer.operators()).follow(seen);
  for (auto& row : rows) {
    if (row.name.empty()) continue;
    row.flops = 0;
    for (auto const& seen : modules) {
      if (seen.name == row.name && !seen.in.empty()) row.in = sizes_text(seen.in);
      if (seen.name == row.name && !seen.out.empty()) row.out = sizes_text(seen.out);
      if (seen.name == row.name && seen.told) row.in = seen.told_in, row.out = seen.told_out;
      if (seen.name == row.name || seen.name.starts_with(row.name + ".")) row.flops += seen.flops;
    }
  }
}

/// Runs `forward` with the example, on the model's device and in its type. Error
/// [fulgurite.model.example_input] with what `forward` threw.
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

}  // namespace fulgurite::libtorch
