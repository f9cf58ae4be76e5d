#pragma once
// The bodies of callback/backbone_finetuning.hpp.

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/core/archive.hpp>

namespace fulgurite {

FULGURITE_BODY BackboneFinetuning::BackboneFinetuning(BackboneFinetuningOptions options)
    : options_(std::move(options)) {
  auto const refuse = [](std::string const& what) {
    throw Error("fulgurite.callback.backbone_finetuning_options", "BackboneFinetuning: " + what);
  };
  if (options_.unfreeze_backbone_at_epoch < 0) refuse("unfreeze_backbone_at_epoch counts from 0");
  if (!(options_.backbone_initial_ratio_lr > 0)) refuse("backbone_initial_ratio_lr is above 0");
  if (options_.backbone_initial_lr && !(*options_.backbone_initial_lr > 0)) refuse("backbone_initial_lr is above 0");
  if (!options_.lambda_func)
    refuse("lambda_func is empty: leave it out for a factor of 2, or give a function of the epoch");
}

FULGURITE_BODY void BackboneFinetuning::refuse_optimizer() const {
  throw Error("fulgurite.callback.backbone_in_optimizer",
              "BackboneFinetuning adds the backbone to the optimizer in epoch " +
                  std::to_string(options_.unfreeze_backbone_at_epoch) +
                  ", but configure_optimizers has given it to it already: give it what trains from the start, as "
                  "head->parameters() or filter_params(*this)");
}

namespace finetuning {

void AddedGroup::state(auto& archive) {
  archive("optimizer", optimizer)("group", group)("epoch", epoch)("lr", lr)("lr_epoch", lr_epoch)("parameters",
                                                                                                  parameters);
}
FULGURITE_STATE(AddedGroup)

}  // namespace finetuning

void BackboneFinetuning::state(auto& archive) {
  Base::state(archive);
  archive.option("unfreeze_backbone_at_epoch", options_.unfreeze_backbone_at_epoch);
  archive.option("backbone_initial_ratio_lr", options_.backbone_initial_ratio_lr);
  archive.option("backbone_initial_lr", options_.backbone_initial_lr);
  archive.option("should_align", options_.should_align).option("train_bn", options_.train_bn);
}
FULGURITE_STATE(BackboneFinetuning)

}  // namespace fulgurite
