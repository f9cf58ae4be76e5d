#pragma once
// The bodies of torch/optim/adam.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/adam.hpp>

namespace fulgurite::optim {

void AdamOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamOptions, false>);

void AdamWOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamWOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamWOptions, true>);

}  // namespace fulgurite::optim
