#pragma once
// The bodies of torch/optim/first_order.hpp.

#include <fulgurite/torch/optim/first_order.hpp>

namespace fulgurite::optim {

FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamWOptions, true>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::RMSprop);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adagrad);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::SGD);

}  // namespace fulgurite::optim
