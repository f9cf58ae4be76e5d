#pragma once
// A callback of one's own that thaws, for the tests of finetuning and of fits that resume.

#include <cstddef>
#include <type_traits>

#include <fulgurite/callback/backbone_finetuning.hpp>

// In a namespace, since other tests of the same program may use the same words.
namespace thaws {

/// Thaws two parts of a model one after the other, in epochs 1 and 2.
struct OneByOne : fulgurite::BaseFinetuning<OneByOne> {
  void freeze_before_training(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    for (auto& part : ctx.model().parts) Backend::freeze(part, false);
  }
  void finetune_function(int epoch, auto& optimizer, auto& ctx) {
    if (epoch >= 1 && epoch <= 2)
      unfreeze_and_add_param_group(ctx.model().parts[static_cast<std::size_t>(epoch - 1)], optimizer, ctx,
                                   {.initial_denom_lr = 2});
  }
};

}  // namespace thaws
