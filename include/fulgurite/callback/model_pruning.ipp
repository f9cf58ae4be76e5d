#pragma once
// The bodies of callback/model_pruning.hpp.

#include <algorithm>

#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/core/archive.hpp>

namespace fulgurite {

FULGURITE_BODY double PruningAmount::operator()(int epoch) const {
  double const share = of_epoch_(epoch);
  if (!(share >= 0 && share <= 1))
    throw Error("fulgurite.callback.pruning_amount", "ModelPruning: amount = " + exact_number(share) +
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

FULGURITE_BODY void ModelPruning::keep_for_files() {
  ended_ = masks_.save();
  std::vector<SavedTensor*> handles;
  for (auto& mask : ended_) {
    handles.push_back(&mask.bits);
    if (mask.initial) handles.push_back(&*mask.initial);
  }
  copy_handles(handles, CopyTo::host);
  masks_.reset();
}

void ModelPruning::state(auto& archive) {
  using Archive = std::remove_cvref_t<decltype(archive)>;
  if constexpr (Archive::loading) {
    ended_.clear();
    archive("masks", restored_);
    if (masks_ && !restored_.empty()) masked_ = masks_.load(std::exchange(restored_, {}));
  } else {
    auto saved = masks_ ? masks_.save() : restored_.empty() ? ended_ : restored_;
    archive("masks", saved);
  }
  if (options_.amount.constant()) archive.option("amount", options_.amount(0));
  archive.option("parameters", options_.parameters).option("parameter_names", options_.parameter_names);
  archive.option("use_global_unstructured", options_.use_global_unstructured);
  archive.option("make_pruning_permanent", options_.make_pruning_permanent);
  archive.option("use_lottery_ticket_hypothesis", options_.use_lottery_ticket_hypothesis);
  archive.option("prune_on_train_epoch_end", options_.prune_on_train_epoch_end);
}
FULGURITE_STATE(ModelPruning)

}  // namespace fulgurite
