#pragma once
// The part of the hook table for optimizers, their schedules and strategies. Some of their names mean something else
// elsewhere (`step`, `move`), so each kind is probed by a decoy of its own. Precisions have no hooks: rules and loops
// only read their constants.

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite::hook {

// clang-format off
// Functions that every optimizer must have; `step(closure)` instead of `step()` if it declares `needs_closure`.
#define FULGURITE_OPTIMIZER_FUNCTIONS(ROW)                                                             \
  ROW(zero_grad,                     Takes::nothing, Answer::none,  Where::train)                      \
  ROW(step,                          Takes::nothing, Answer::none,  Where::train)                      \
  ROW(parameters,                    Takes::nothing, Answer::value, Where::train)                      \
  ROW(groups,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(lr,                            Takes::one,     Answer::value, Where::fit)                        \
  ROW(set_lr,                        Takes::two,     Answer::none,  Where::fit)
// Functions that an optimizer may have.
#define FULGURITE_OPTIMIZER_HOOKS(ROW)                                                                 \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  ROW(set_momentum,                  Takes::two,     Answer::none,  Where::fit)                        \
  ROW(weight_decay,                  Takes::one,     Answer::value, Where::fit)                        \
  ROW(group_name,                    Takes::one,     Answer::value, Where::fit)                        \
  ROW(gradients_finite,              Takes::nothing, Answer::value, Where::train)                      \
  ROW(received,                      Takes::nothing, Answer::value, Where::fit)                        \
  ROW(set_received,                  Takes::one,     Answer::none,  Where::fit)
// Functions that a schedule may have besides its call operator. A schedule that declares `sets_rates` has the first
// three instead of the call operator.
#define FULGURITE_SCHEDULE_HOOKS(ROW)                                                                  \
  ROW(move,                          Takes::one,     Answer::none,  Where::fit)                        \
  ROW(observe,                       Takes::two,     Answer::none,  Where::fit)                        \
  ROW(metric,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(strict,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(attach,                        Takes::one,     Answer::none,  Where::fit)                        \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  ROW(moves_momentum,                Takes::nothing, Answer::value, Where::fit)                        \
  ROW(check,                         Takes::nothing, Answer::none,  Where::fit)
// Functions that every strategy must have.
#define FULGURITE_STRATEGY_FUNCTIONS(ROW)                                                              \
  ROW(setup,                         Takes::two,     Answer::none,  Where::every_stage)                \
  ROW(teardown,                      Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(device,                        Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(is_on_gpu,                     Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(move,                          Takes::one,     Answer::value, Where::every_stage)                \
  ROW(gradients,                     Takes::two,     Answer::value, Where::train)                      \
  ROW(backward,                      Takes::two,     Answer::none,  Where::train)                      \
  ROW(flush,                         Takes::two,     Answer::none,  Where::train)                      \
  ROW(rank,                          Takes::nothing, Answer::value, Where::every_stage)
// Functions that a strategy for several processes must have in addition.
#define FULGURITE_DISTRIBUTED_FUNCTIONS(ROW)                                                           \
  ROW(world,                         Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(local_rank,                    Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(agree,                         Takes::one,     Answer::value, Where::every_stage)                \
  ROW(reduce,                        Takes::two,     Answer::value, Where::every_stage)                \
  ROW(reduce_in_place,               Takes::two,     Answer::none,  Where::every_stage)                \
  ROW(reduce_gradients,              Takes::two,     Answer::none,  Where::train)                      \
  ROW(broadcast,                     Takes::one,     Answer::value, Where::every_stage)                \
  ROW(gather,                        Takes::one,     Answer::value, Where::every_stage)                \
  ROW(barrier,                       Takes::one,     Answer::none,  Where::every_stage)
// Further functions that a strategy may have; hooks.hpp has those that are called around a step.
#define FULGURITE_STRATEGY_ANSWERS(ROW)                                                                \
  ROW(matmul_scope,                  Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(share_state,                   Takes::one,     Answer::none,  Where::fit)                        \
  ROW(whole_state,                   Takes::one,     Answer::value, Where::fit)                        \
  ROW(share_statistics,              Takes::one,     Answer::none,  Where::fit)                        \
  ROW(abort,                         Takes::one,     Answer::none,  Where::every_stage)
// clang-format on

#define FULGURITE_ROW(...) FULGURITE_HOOK(__VA_ARGS__);
#define FULGURITE_DECOY(NAME, ...) void NAME();
namespace of_optimizer {
struct Decoy {
  FULGURITE_OPTIMIZER_FUNCTIONS(FULGURITE_DECOY)
  FULGURITE_OPTIMIZER_HOOKS(FULGURITE_DECOY)
};
template <class T>
struct Probe : T, Decoy {};
FULGURITE_OPTIMIZER_FUNCTIONS(FULGURITE_ROW)
FULGURITE_OPTIMIZER_HOOKS(FULGURITE_ROW)
}  // namespace of_optimizer
namespace of_schedule {
struct Decoy {
  FULGURITE_SCHEDULE_HOOKS(FULGURITE_DECOY)
};
template <class T>
struct Probe : T, Decoy {};
FULGURITE_SCHEDULE_HOOKS(FULGURITE_ROW)
}  // namespace of_schedule
namespace of_strategy {
struct Decoy {
  FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_DECOY)
  FULGURITE_DISTRIBUTED_FUNCTIONS(FULGURITE_DECOY)
  FULGURITE_STRATEGY_ANSWERS(FULGURITE_DECOY)
};
template <class T>
struct Probe : T, Decoy {};
FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW)
FULGURITE_DISTRIBUTED_FUNCTIONS(FULGURITE_ROW)
FULGURITE_STRATEGY_ANSWERS(FULGURITE_ROW)
}  // namespace of_strategy
#undef FULGURITE_DECOY
#undef FULGURITE_ROW

}  // namespace fulgurite::hook
