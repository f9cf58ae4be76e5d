#pragma once
// Adam, AdamW, RMSprop, Adagrad and SGD, each in one pass over flat buffers.

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/optim/arena_optimizer.hpp>
#include <fulgurite/torch/optim/rules.hpp>

namespace fulgurite::optim {

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamWOptions, true>);

/// The updates of torch::optim::Adam in one pass over flat buffers; see ArenaOptimizer. In a model's
/// configure_optimizers: `return optim::Adam(*this, {.lr = 1e-3});`. States: exp_avg, exp_avg_sq, and max_exp_avg_sq
/// with amsgrad.
class Adam : public ArenaOptimizer<rule::Adam<AdamOptions, false>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(Adam);
};

/// The updates of torch::optim::AdamW in one pass over flat buffers: `optim::AdamW(*this, {.lr = 1e-3})`. States as
/// Adam's.
class AdamW : public ArenaOptimizer<rule::Adam<AdamWOptions, true>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(AdamW);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::RMSprop);

/// The updates of torch::optim::RMSprop in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::RMSprop(*this, {.lr = 0.01})`. States: square_avg, momentum_buffer with momentum, grad_avg if centered.
class RMSprop : public ArenaOptimizer<rule::RMSprop> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(RMSprop);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adagrad);

/// The updates of torch::optim::Adagrad in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::Adagrad(*this, {.lr = 0.01})`. State: sum.
class Adagrad : public ArenaOptimizer<rule::Adagrad> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(Adagrad);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::SGD);

/// The updates of torch::optim::SGD in one pass over flat buffers; see ArenaOptimizer. Use it as `optim::SGD(*this,
/// {.lr = 0.1, .momentum = 0.9})`. State: momentum_buffer, if momentum is not 0.
class SGD : public ArenaOptimizer<rule::SGD> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(SGD);
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/first_order.ipp>
#endif
