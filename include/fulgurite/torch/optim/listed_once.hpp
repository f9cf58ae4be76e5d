#pragma once
// A parameter that an optimizer lists twice would be stepped, and clipped, twice.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>

namespace fulgurite::libtorch {

/// "a parameter 'a.weight', which is also 'b.weight'": `names` are all that the model has for the tensor.
FULGURITE_COLD std::string parameter_text(std::vector<std::string> const& names) {
  std::string what = "a parameter";
  for (std::size_t i = 0; i != names.size(); ++i) what += (i == 0 ? " '" : ", which is also '") + names[i] + "'";
  return what + (names.size() > 1 ? "," : "");
}

/// `names`: all that the model has for the tensor.
[[noreturn]] FULGURITE_COLD void refuse_listed_twice(std::string_view optimizer,
                                                     std::vector<std::string> const& names) {
  throw Error("fulgurite.optimizer.twice",
              std::string(optimizer) + " lists " + parameter_text(names) +
                  " twice, so that each step would move it twice: give it filter_params(*this), which lists each "
                  "tensor once, or take an optimizer of fulgurite::optim");
}

/// An optimizer of fulgurite::optim was given a tensor in two groups. The optimizer does not know the model, so that
/// the fit adds the names.
class InTwoGroups : public Error {
 public:
  InTwoGroups(std::string_view optimizer, at::Tensor const& parameter, std::vector<std::string> const& names = {})
      : Error("fulgurite.optimizer.twice", std::string(optimizer) + " lists " + parameter_text(names) +
                                               " in two groups, which may have different options: give it to one of "
                                               "them"),
        optimizer_(optimizer),
        parameter_(parameter) {}

  std::string const& optimizer() const { return optimizer_; }
  at::Tensor const& parameter() const { return parameter_; }

 private:
  std::string optimizer_;
  at::Tensor parameter_;
};

/// All names that the model has for a tensor; none if it is no torch::nn::Module.
template <class Model>
std::vector<std::string> names_of(Model& model, at::Tensor const& parameter) {
  std::vector<std::string> names;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& named : model.named_parameters())
      if (named.value().is_same(parameter)) names.push_back(named.key());
  return names;
}

/// What `make` returns: the optimizers of this model, whose refusals get the names that the model has.
template <class Model, class Make>
auto made_with_names(Model& model, Make const& make) {
  try {
    return make();
  } catch (InTwoGroups const& refused) {
    throw InTwoGroups(refused.optimizer(), refused.parameter(), names_of(model, refused.parameter()));
  }
}

/// The first tensor that comes twice in a list of parameters; an undefined one where there is none.
template <class Parameters>
at::Tensor listed_twice(Parameters&& parameters) {
  std::unordered_set<c10::TensorImpl const*> seen;
  for (at::Tensor const& parameter : parameters)
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) return parameter;
  return {};
}

/// The parameters of an optimizer, over all of its groups, against the model. A module that is registered under two
/// names has each of its tensors twice in `parameters()`, and an optimizer of torch::optim takes these for two. An
/// optimizer of the user's own need not have a name.
template <class Model, class Optimizer>
void require_listed_once(Model& model, Optimizer& optimizer) {
  auto const twice = listed_twice(optimizer.parameters());
  if (!twice.defined()) return;
  std::string_view called = type_name<Optimizer>();
  if constexpr (requires { Optimizer::name(); }) called = Optimizer::name();
  refuse_listed_twice(called, names_of(model, twice));
}

}  // namespace fulgurite::libtorch
