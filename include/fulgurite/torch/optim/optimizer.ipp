#pragma once
// The bodies of torch/optim/optimizer.hpp.

#include <fulgurite/torch/optim/optimizer.hpp>

namespace fulgurite::libtorch {

FULGURITE_BODY std::string parameter_text(std::vector<std::string> const& names) {
  std::string what = "a parameter";
  for (std::size_t i = 0; i != names.size(); ++i) what += (i == 0 ? " '" : ", which is also '") + names[i] + "'";
  return what + (names.size() > 1 ? "," : "");
}

FULGURITE_BODY void refuse_listed_twice(std::string_view optimizer, std::vector<std::string> const& names) {
  throw Error("fulgurite.optimizer.twice",
              std::string(optimizer) + " lists " + parameter_text(names) +
                  " twice, so that each step would move it twice: give it filter_params(*this), which lists each "
                  "tensor once, or take an optimizer of fulgurite::optim");
}

FULGURITE_BULK_BODY InTwoGroups::InTwoGroups(std::string_view optimizer, at::Tensor const& parameter,
                                             std::vector<std::string> const& names)
    : Error("fulgurite.optimizer.twice", std::string(optimizer) + " lists " + parameter_text(names) +
                                             " in two groups, which may have different options: give it to one of "
                                             "them"),
      optimizer_(optimizer),
      parameter_(parameter) {}

FULGURITE_BODY std::vector<std::string> names_of(torch::nn::Module const* model, at::Tensor const& parameter) {
  std::vector<std::string> names;
  if (model != nullptr)
    for (auto const& named : model->named_parameters())
      if (named.value().is_same(parameter)) names.push_back(named.key());
  return names;
}

FULGURITE_INSTANTIATE(at::Tensor listed_twice(std::vector<at::Tensor> const&));

FULGURITE_BULK_BODY TorchGroups::TorchGroups() = default;
FULGURITE_MOVES_BODY(TorchGroups);

FULGURITE_BODY void TorchGroups::note_options(torch::optim::Optimizer const& optimizer) {
  auto const& groups = optimizer.param_groups();
  while (given_.size() < groups.size()) given_.push_back(groups[given_.size()].options().clone());
}

FULGURITE_BULK_BODY std::vector<at::Tensor>& TorchGroups::parameters(torch::optim::Optimizer const& optimizer) {
  std::size_t count = 0;
  for (auto const& group : optimizer.param_groups()) count += group.params().size();
  if (count != parameters_.size()) {
    parameters_.clear();
    parameters_.reserve(count);
    for (auto const& group : optimizer.param_groups())
      parameters_.insert(parameters_.end(), group.params().begin(), group.params().end());
  }
  return parameters_;
}

FULGURITE_BULK_BODY void TorchGroups::zero_grad(torch::optim::Optimizer const& optimizer) {
  for (auto& parameter : parameters(optimizer))
    if (auto& gradient = parameter.mutable_grad(); gradient.defined()) gradient.reset();
}

FULGURITE_BODY void TorchGroups::add_group(torch::optim::Optimizer& optimizer, std::string_view name,
                                           std::vector<at::Tensor> const& added, double lr) {
  auto all = parameters(optimizer);
  all.insert(all.end(), added.begin(), added.end());
  if (listed_twice(std::as_const(all)).defined()) refuse_listed_twice(name, {});
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(added));
  auto& groups = optimizer.param_groups();
  groups.back().set_options(groups.front().options().clone());
  groups.back().options().set_lr(lr);
  note_options(optimizer);
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BULK_BODY void Toggle::untoggle() noexcept {
  for (auto& [parameter, required] : others_) parameter.set_requires_grad(required);
  others_.clear();
}

}  // namespace fulgurite
