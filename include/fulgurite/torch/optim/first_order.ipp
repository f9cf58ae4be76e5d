#pragma once
// The bodies of torch/optim/first_order.hpp.

#include <fulgurite/torch/optim/first_order.hpp>

namespace fulgurite::libtorch {

FULGURITE_CLIPPING(INSTANTIATE, ArenaParameters);
FULGURITE_INSTANTIATE(at::Tensor listed_twice(ArenaParameters const&));

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamWOptions, true>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::RMSprop);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adagrad);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::SGD);

}  // namespace fulgurite::optim
