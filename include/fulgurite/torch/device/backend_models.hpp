#pragma once
// The part of the Backend of LibTorch that is about the tensors of a model: averages of weights, batch norms,
// parameters by name, summaries.

#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/torch/optim/gradient_norm.hpp>
#include <fulgurite/torch/weights/averaging.hpp>
#include <fulgurite/torch/weights/example_run.hpp>
#include <fulgurite/torch/weights/parameters.hpp>
#include <fulgurite/torch/weights/pruning.hpp>
#include <fulgurite/torch/weights/summary.hpp>

namespace fulgurite::libtorch {

/// A base of fulgurite::LibTorch.
struct OfModels {
  using Value = at::Tensor;

  // Averages of weights: see averaging.hpp.
  template <class Model>
  static std::vector<Value> weights(Model& model) {
    return libtorch::weights(model);
  }
  template <class Model>
  static std::vector<Value> buffers(Model& model) {
    return libtorch::buffers(model);
  }
  /// The names of both, in their order.
  template <class Model>
  static std::vector<std::string> weight_names(Model& model) {
    std::vector<std::string> names;
    libtorch::each_named_tensor(model, [&](std::string const& name, Value const&) { names.push_back(name); });
    return names;
  }
  static bool averages(Value const& value) { return libtorch::averages(value); }
  static Value clone(Value const& value) { return libtorch::clone(value); }
  static std::vector<Value> clones(std::span<Value const> values) { return libtorch::clones(values); }
  static void copy_into(Value& to, Value const& from) { libtorch::copy_into(to, from); }
  static void copy_into(std::span<Value const> to, std::span<Value const> from) { libtorch::copy_into(to, from); }
  static void lerp_into(Value& average, Value const& value, double t) { libtorch::lerp_into(average, value, t); }
  static void lerp_into(std::span<Value> averages, std::span<Value const> values, double t) {
    libtorch::lerp_into(averages, values, t);
  }
  static SavedTensor saved(Value const& value) { return libtorch::saved(value); }
  static void restore(Value& to, SavedTensor const& from) {
    libtorch::require_average(to, from);
    libtorch::restore(to, from);
  }
  /// Whether what was saved fits, else an Error; and the way back for many, which does not fail.
  static void require_fit(Value const& to, SavedTensor const& from) { libtorch::require_average(to, from); }
  static void restore(std::span<Value const> to, std::span<SavedTensor const> from) { libtorch::restore(to, from); }
  /// A new tensor of saved bytes, beside another one.
  static Value made_from(SavedTensor const& from, Value const& beside) {
    Value made;
    TensorState<Value>::load(made, from, "a tensor of the saved state");
    return made.to(beside.device());
  }
  template <class Model>
  static bool has_batch_norm(Model& model) {
    return libtorch::has_batch_norm(model);
  }
  template <class Model>
  [[nodiscard]] static auto reset_batch_norm(Model& model) {
    return libtorch::reset_batch_norm(model);
  }
  template <class Model>
  static std::vector<SavedTensor> norm_statistics(Model& model) {
    return libtorch::norm_statistics(model);
  }
  template <class Model>
  static void restore_norm_statistics(Model& model, std::span<SavedTensor const> from) {
    libtorch::restore_norm_statistics(model, from);
  }

  // Parameters, their gradients' norms and masks over them: see parameters.hpp, gradient_norm.hpp, pruning.hpp.
  template <class Model>
  static auto named_parameters(Model& model) {
    return libtorch::named_parameters(model);
  }
  template <class Model, class Optimizer>
  static auto gradient_norms(Model& model, Optimizer& optimizer, double type) {
    return libtorch::gradient_norms(model, optimizer, type);
  }
  template <class Model>
  static auto masks(Model& model, PruningChoice const& choice) {
    return libtorch::masks(model, choice);
  }

  template <class Model>
  static auto summarize(Model const& model, int max_depth) {
    return libtorch::summarize(model, max_depth);
  }
  /// Adds what a run of the model's example shows, where it has one.
  template <class Model>
  static void run_example(Model& model, std::vector<report::ModelRow>& rows) {
    if constexpr (libtorch::HasExample<Model>) libtorch::run_example(model, rows);
  }
};

}  // namespace fulgurite::libtorch
