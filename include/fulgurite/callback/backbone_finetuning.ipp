#pragma once
// The bodies of callback/backbone_finetuning.hpp.

#include <fulgurite/callback/backbone_finetuning.hpp>

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

}  // namespace fulgurite
