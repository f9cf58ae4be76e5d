#pragma once
// The parameters of a model by name, and of a part of it, however the part is held.

#include <algorithm>
#include <concepts>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::libtorch {

/// Each defined tensor once. A module that is registered under two names shows its parameters twice.
FULGURITE_BULK std::vector<at::Tensor> distinct(std::vector<at::Tensor> all) {
  std::unordered_set<c10::TensorImpl const*> seen;
  std::erase_if(all, [&](at::Tensor const& tensor) {
    return !tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second;
  });
  return all;
}

/// Each parameter once, under its first name: one that two modules share has two names. Empty if the model is no
/// torch::nn::Module.
template <class Model>
std::vector<std::pair<std::string, at::Tensor>> named_parameters(Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& parameter : model.named_parameters()) {
      bool const known =
          std::any_of(all.begin(), all.end(), [&](auto const& one) { return one.second.is_same(parameter.value()); });
      if (!known) all.emplace_back(parameter.key(), parameter.value());
    }
  return all;
}

/// The module behind an argument, which is a module, a holder of one (torch::nn::Linear, torch::nn::AnyModule) or a
/// smart pointer to one.
template <class Part>
torch::nn::Module& module_of(Part& part) {
  if constexpr (std::derived_from<Part, torch::nn::Module>) return part;
  else if constexpr (requires { *part.ptr(); }) return *part.ptr();
  else return module_of(*part);
}

template <class T>
concept PartOfModel = std::derived_from<T, torch::nn::Module> || requires(T& part) {
  { *part } -> std::convertible_to<torch::nn::Module&>;
} || requires(T& part) {
  { *part.ptr() } -> std::convertible_to<torch::nn::Module&>;
};

}  // namespace fulgurite::libtorch
