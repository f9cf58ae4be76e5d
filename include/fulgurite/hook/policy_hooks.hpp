#pragma once
// The part of the hook table for optimizers, their schedules and strategies. Some of their names mean something else
// elsewhere (`step`, `move`), so each kind is probed by a decoy of its own. Precisions have no hooks: rules and loops
// only read their constants.

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite::hook {

// clang-format off
// Functions that every optimizer must have; `step(closure)` instead of `step()` if it declares `needs_closure`.
#define FULGURITE_OPTIMIZER_FUNCTIONS(ROW)                                                             \
  /* Each accumulation window: clears the gradients. */ \
  ROW(zero_grad,                     Takes::nothing, Answer::none,  Where::train)                      \
  /* Each step: updates the parameters from their gradients. */ \
  ROW(step,                          Takes::nothing, Answer::none,  Where::train)                      \
  /* Returns a range of all parameters. */ \
  ROW(parameters,                    Takes::nothing, Answer::value, Where::train)                      \
  /* Returns the number of parameter groups. */ \
  ROW(groups,                        Takes::nothing, Answer::value, Where::fit)                        \
  /* Returns the learning rate of a group. */ \
  ROW(lr,                            Takes::one,     Answer::value, Where::fit)                        \
  /* Each move of a schedule: sets the learning rate of a group. */ \
  ROW(set_lr,                        Takes::two,     Answer::none,  Where::fit)
// Functions that an optimizer may have.
#define FULGURITE_OPTIMIZER_HOOKS(ROW)                                                                 \
  /* Returns the momentum of a group, or its first beta; nullopt if it has none. */ \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  /* Each move of a schedule that moves the momentum: sets that of a group. */ \
  ROW(set_momentum,                  Takes::two,     Answer::none,  Where::fit)                        \
  /* Returns the weight decay of a group; nullopt if it has none. LearningRateMonitor logs it. */ \
  ROW(weight_decay,                  Takes::one,     Answer::value, Where::fit)                        \
  /* Returns the name of a group for LearningRateMonitor; empty if it has none. */ \
  ROW(group_name,                    Takes::one,     Answer::value, Where::fit)                        \
  /* Each step that is checked. Returns whether all gradients are finite; nullopt if it does not know, so that \
     each is read. */ \
  ROW(gradients_finite,              Takes::nothing, Answer::value, Where::train)                      \
  /* When the gradients of an open accumulation window are saved. Returns for each parameter whether it has \
     received a gradient. */ \
  ROW(received,                      Takes::nothing, Answer::value, Where::fit)                        \
  /* When the gradients of an open accumulation window are restored: takes what `received` has returned. */ \
  ROW(set_received,                  Takes::one,     Answer::none,  Where::fit)
// Functions that a schedule may have besides its call operator. A schedule that declares `sets_rates` has the first
// three instead of the call operator.
#define FULGURITE_SCHEDULE_HOOKS(ROW)                                                                  \
  /* Each move: sets the optimizer's rates. */ \
  ROW(move,                          Takes::one,     Answer::none,  Where::fit)                        \
  /* Each new value of the metric, after the validation of a step or at an epoch's end: may set the optimizer's \
     rates. */ \
  ROW(observe,                       Takes::two,     Answer::none,  Where::fit)                        \
  /* Returns the metric constant that the schedule follows. */ \
  ROW(metric,                        Takes::nothing, Answer::value, Where::fit)                        \
  /* When the metric has no value. Returns true if that is an Error; false: the move is skipped. */ \
  ROW(strict,                        Takes::nothing, Answer::value, Where::fit)                        \
  /* Once a fit, when the optimizer exists, before the first move. */ \
  ROW(attach,                        Takes::one,     Answer::none,  Where::fit)                        \
  /* Each move. Returns the momentum for all groups; nullopt leaves it unchanged. */ \
  ROW(momentum,                      Takes::one,     Answer::value, Where::fit)                        \
  /* Once a fit. Returns false if `momentum` always returns nullopt, so that the optimizer needs no momentum. */ \
  ROW(moves_momentum,                Takes::nothing, Answer::value, Where::fit)                        \
  /* Once a fit, when the optimizers are made: throws an Error for wrong constants. */ \
  ROW(check,                         Takes::nothing, Answer::none,  Where::fit)
// Functions that every strategy must have, beside the type `Backend` and the constants `on_gpu`, `is_distributed` and
// `captures`. The `seed` of `backward(loss, seed)` is a tensor.
#define FULGURITE_STRATEGY_FUNCTIONS(ROW)                                                              \
  /* Once a run, after the hooks `setup` and `configure_model`: takes the model to its device, in the type of the \
     precision. */ \
  ROW(setup,                         Takes::two,     Answer::none,  Where::every_stage)                \
  /* Once a run, also if it failed: gives the model back, on the CPU. */ \
  ROW(teardown,                      Takes::one,     Answer::none,  Where::every_stage)                \
  /* Returns the device of batches and weights, in the tensor library's type. */ \
  ROW(device,                        Takes::nothing, Answer::value, Where::every_stage)                \
  /* Returns true if the device is a GPU. */ \
  ROW(is_on_gpu,                     Takes::nothing, Answer::value, Where::every_stage)                \
  /* Each batch of every stage. Returns it on the device. */ \
  ROW(move,                          Takes::one,     Answer::value, Where::every_stage)                \
  /* Each training batch under `Automatic`: `gradients(key, batch, board, body)` runs `body(batch)`, which is the \
     step, clearing and backward, and returns its result. */ \
  ROW(gradients,                     Takes::two,     Answer::value, Where::train)                      \
  /* Each backward of a loss: adds to the gradients, beginning with `seed`. */ \
  ROW(backward,                      Takes::two,     Answer::none,  Where::train)                      \
  /* Each accumulation window that ends early: multiplies its gradients by `scale`. */ \
  ROW(flush,                         Takes::two,     Answer::none,  Where::train)                      \
  /* Returns the number of this process, from 0. */ \
  ROW(rank,                          Takes::nothing, Answer::value, Where::every_stage)
// Functions that a strategy for several processes must have in addition.
#define FULGURITE_DISTRIBUTED_FUNCTIONS(ROW)                                                           \
  /* Returns the number of processes. */ \
  ROW(world,                         Takes::nothing, Answer::value, Where::every_stage)                \
  /* Returns the number of this process on its machine, from 0. */ \
  ROW(local_rank,                    Takes::nothing, Answer::value, Where::every_stage)                \
  /* A collective. Returns true if `any` is true on any rank. */ \
  ROW(agree,                         Takes::one,     Answer::value, Where::every_stage)                \
  /* A collective. Returns the value over all ranks. */ \
  ROW(reduce,                        Takes::two,     Answer::value, Where::every_stage)                \
  /* A collective: replaces each value by that over all ranks. */ \
  ROW(reduce_in_place,               Takes::two,     Answer::none,  Where::every_stage)                \
  /* Each step, before the gradients are read: replaces them by their means over all ranks, and `riders`, some \
     integers, by their sums. */ \
  ROW(reduce_gradients,              Takes::two,     Answer::none,  Where::train)                      \
  /* A collective. Returns the text of rank 0. */ \
  ROW(broadcast,                     Takes::one,     Answer::value, Where::every_stage)                \
  /* A collective. Returns the texts of all ranks, in the order of ranks. */ \
  ROW(gather,                        Takes::one,     Answer::value, Where::every_stage)                \
  /* A collective: waits until all ranks have called it. `what` names it in messages. */ \
  ROW(barrier,                       Takes::one,     Answer::none,  Where::every_stage)
// Further functions that a strategy may have, beside the hooks of strategies.
#define FULGURITE_STRATEGY_ANSWERS(ROW)                                                                \
  /* Each step of every stage. Returns an object that lives during the step and chooses the library for its matrix \
     products. */ \
  ROW(matmul_scope,                  Takes::nothing, Answer::value, Where::every_stage)                \
  /* Once a fit, when the optimizers exist: gives all ranks the same weights, or each one a part of the state. */ \
  ROW(share_state,                   Takes::one,     Answer::none,  Where::fit)                        \
  /* Each checkpoint file. While the returned object lives, rank 0 has the whole state of the optimizers. */ \
  ROW(whole_state,                   Takes::one,     Answer::value, Where::fit)                        \
  /* After a statistics pass: gives all ranks the combined statistics of batch norms. */ \
  ROW(share_statistics,              Takes::one,     Answer::none,  Where::fit)                        \
  /* When a run fails on this rank: notifies the other ranks, so that they do not wait for it. */ \
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
