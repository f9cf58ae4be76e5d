#pragma once
// The part of the table that is about what drives a run: optimizers, their schedules, strategies. Each kind has names
// of its own, which mean something else elsewhere (`step`, `move`), so each is probed by a decoy of its own. A
// precision is not here: nothing is called on it, rules and loops read its constants.

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite::hook {

// clang-format off
// What an optimizer has to have; `step()`, or `step(closure)` where it says `needs_closure`.
#define FULGURITE_OPTIMIZER_FUNCTIONS(ROW)                                                             \
  ROW(zero_grad,                     Takes::nothing, Answer::none,  Where::train)                      \
  ROW(step,                          Takes::nothing, Answer::none,  Where::train)                      \
  ROW(parameters,                    Takes::nothing, Answer::value, Where::train)                      \
  ROW(groups,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(lr,                            Takes::one,     Answer::value, Where::fit)                        \
  ROW(set_lr,                        Takes::two,     Answer::none,  Where::fit)
// What it may have.
#define FULGURITE_OPTIMIZER_HOOKS(ROW)                                                                 \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  ROW(set_momentum,                  Takes::two,     Answer::none,  Where::fit)                        \
  ROW(weight_decay,                  Takes::one,     Answer::value, Where::fit)                        \
  ROW(group_name,                    Takes::one,     Answer::value, Where::fit)                        \
  ROW(gradients_finite,              Takes::nothing, Answer::value, Where::train)                      \
  ROW(received,                      Takes::nothing, Answer::value, Where::fit)                        \
  ROW(set_received,                  Takes::one,     Answer::none,  Where::fit)
// What a schedule may have beside its call operator. The first three are what one has in its place that says
// `sets_rates`.
#define FULGURITE_SCHEDULE_HOOKS(ROW)                                                                  \
  ROW(move,                          Takes::one,     Answer::none,  Where::fit)                        \
  ROW(observe,                       Takes::two,     Answer::none,  Where::fit)                        \
  ROW(metric,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(strict,                        Takes::nothing, Answer::value, Where::fit)                        \
  ROW(attach,                        Takes::one,     Answer::none,  Where::fit)                        \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  ROW(moves_momentum,                Takes::nothing, Answer::value, Where::fit)                        \
  ROW(check,                         Takes::nothing, Answer::none,  Where::fit)
// What a strategy has to have.
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
// What one of several processes has to have beside them.
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
// What it may have of the same kind: hooks.hpp has those that are called around a step.
#define FULGURITE_STRATEGY_ANSWERS(ROW)                                                                \
  ROW(matmul_scope,                  Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(share_state,                   Takes::one,     Answer::none,  Where::fit)                        \
  ROW(whole_state,                   Takes::one,     Answer::value, Where::fit)                        \
  ROW(share_statistics,              Takes::one,     Answer::none,  Where::fit)
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
