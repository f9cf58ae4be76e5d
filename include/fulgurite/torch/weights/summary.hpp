#pragma once
// The rows of a model summary, read from a torch::nn::Module.

#include <concepts>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/model_table.hpp>
#include <fulgurite/torch/weights/class_name.hpp>

namespace fulgurite::libtorch {

/// The row of one module with all modules below it. A tensor that two modules share counts once.
FULGURITE_COLD report::ModelRow model_row(std::string name, torch::nn::Module const& module) {
  report::ModelRow row{.name = std::move(name), .type = class_name(module)};
  row.training = module.is_training();
  std::unordered_set<void const*> seen;
  auto const is_new = [&](at::Tensor const& tensor) { return seen.insert(tensor.unsafeGetTensorImpl()).second; };
  for (auto const& parameter : module.parameters()) {
    if (!is_new(parameter)) continue;
    row.parameters += parameter.numel();
    if (parameter.requires_grad()) row.trainable += parameter.numel();
    row.bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  for (auto const& buffer : module.buffers())
    if (is_new(buffer)) row.bytes += static_cast<std::int64_t>(buffer.nbytes());
  return row;
}

FULGURITE_COLD void add_children(std::vector<report::ModelRow>& rows, torch::nn::Module const& module,
                                 std::string const& prefix, int depth) {
  if (depth == 0) return;
  for (auto const& child : module.named_children()) {
    rows.push_back(model_row(prefix + child.key(), *child.value()));
    add_children(rows, *child.value(), prefix + child.key() + '.', depth - 1);
  }
}

/// Marks parameters that a module has together with one above it in the list: tied weights. `rows` are of this model.
FULGURITE_COLD void mark_shared(std::vector<report::ModelRow>& rows, torch::nn::Module const& model) {
  auto const modules = model.named_modules({}, false);
  auto const is_below = [](std::string const& name, std::string const& of) {
    return name == of || name.starts_with(of + ".");
  };
  std::unordered_map<void const*, std::string> first;  // the module that a parameter was met in first
  for (auto const& module : modules)
    for (auto const& parameter : module.value()->parameters(false))
      first.emplace(parameter.unsafeGetTensorImpl(), module.key());
  for (auto& row : rows) {
    if (row.name.empty()) continue;
    std::unordered_set<void const*> seen;
    for (auto const& module : modules) {
      if (!is_below(module.key(), row.name)) continue;
      for (auto const& parameter : module.value()->parameters(false)) {
        auto const& owner = first.at(parameter.unsafeGetTensorImpl());
        if (is_below(owner, row.name) || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
        row.shared += parameter.numel();
        if (row.shared_with.empty()) row.shared_with = owner;
      }
    }
  }
}

/// The whole model first, then its modules depth first; a negative depth means all of them.
template <class Model>
std::vector<report::ModelRow> summarize(Model const& model, int max_depth) {
  std::vector<report::ModelRow> rows;
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    rows.push_back(model_row("", model));
    add_children(rows, model, "", max_depth);
    mark_shared(rows, model);
  } else {
    rows.push_back({.type = class_name(model)});
  }
  return rows;
}

}  // namespace fulgurite::libtorch
