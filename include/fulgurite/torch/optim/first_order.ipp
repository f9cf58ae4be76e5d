#pragma once
// The bodies of torch/optim/first_order.hpp.

#include <fulgurite/torch/optim/first_order.hpp>

namespace fulgurite::libtorch {

FULGURITE_INSTANTIATE(at::Tensor clip_norm(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void clip_value(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void scale_gradients(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&, SeenGradients const&));
FULGURITE_INSTANTIATE(bool weights_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_gradients(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_weights(std::vector<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(at::Tensor listed_twice(ArenaParameters const&));

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamWOptions, true>);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::RMSprop);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adagrad);
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::SGD);

}  // namespace fulgurite::optim
