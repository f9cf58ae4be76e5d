#pragma once
// The bodies of callback/model_pruning.hpp.

#include <algorithm>

#include <fulgurite/callback/model_pruning.hpp>

namespace fulgurite {

FULGURITE_BODY double PruningAmount::operator()(int epoch) const {
  double const share = of_epoch_(epoch);
  if (!(share >= 0 && share <= 1))
    throw Error("fulgurite.callback.pruning_amount", "ModelPruning: amount = " + report::exact(share) +
                                                         " is no share of the weights: give a number from 0 to 1");
  return share;
}

FULGURITE_BODY ModelPruning::ModelPruning(ModelPruningOptions options) : options_(std::move(options)) {
  if (options_.amount.constant()) options_.amount(0);
}

FULGURITE_BODY double ModelPruning::sparsity() const {
  return size_ == 0 ? 0.0 : static_cast<double>(masked_) / static_cast<double>(size_);
}

FULGURITE_BODY void ModelPruning::check(std::vector<std::string> const& names) const {
  for (auto const& wanted : options_.parameters)
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      throw Error("fulgurite.callback.pruning_parameters",
                  "ModelPruning: the model has no parameter '" + wanted +
                      "': take the names from model.named_parameters(), or leave .parameters out");
  if (names.empty())
    throw Error("fulgurite.callback.pruning_parameters",
                "ModelPruning: the model has no parameter whose name ends in one of .parameter_names: list whole "
                "names in .parameters");
}

}  // namespace fulgurite
