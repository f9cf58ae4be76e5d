#pragma once
// The sentences about names that look like hooks and are not: what is meant instead.

#pragma GCC system_header  // spares g++ the trace through the macro below

#include <fulgurite/concept/verdict.hpp>
#include <fulgurite/loop/subject.hpp>

namespace fulgurite::refusal {

template <HookId Hook>
struct About;  // see refusals.hpp

// clang-format off
#define FULGURITE_NEAR_MISS(NAME, MEANT)                                                                               \
  template <> struct About<HookId::NAME> {                                                                             \
    template <Verdict V, class Subject, bool Fine = V.ok()> static constexpr auto say() {                                             \
      static_assert(accepts<Subject, Fine>, "[fulgurite.hook.near_miss] " #NAME " is not a hook and would never be called: use " MEANT); \
    }                                                                                                                  \
  };

FULGURITE_NEAR_MISS(training_epoch_end, "on_train_epoch_end")
FULGURITE_NEAR_MISS(validation_epoch_end, "on_validation_epoch_end")
FULGURITE_NEAR_MISS(test_epoch_end, "on_test_epoch_end")
FULGURITE_NEAR_MISS(training_step_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(validation_step_end, "on_validation_batch_end")
FULGURITE_NEAR_MISS(training_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_epoch_start, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_epoch_end, "on_train_epoch_end")
FULGURITE_NEAR_MISS(on_batch_start, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_batch_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_end_batch, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_start_batch, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_train_batch_ends, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_epoch_ends, "on_train_epoch_end")
FULGURITE_NEAR_MISS(on_training_start, "on_train_start")
FULGURITE_NEAR_MISS(on_training_end, "on_train_end")
FULGURITE_NEAR_MISS(on_training_epoch_start, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_training_epoch_end, "on_train_epoch_end")
FULGURITE_NEAR_MISS(on_training_batch_start, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_training_batch_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_val_start, "on_validation_start")
FULGURITE_NEAR_MISS(on_val_end, "on_validation_end")
FULGURITE_NEAR_MISS(on_val_epoch_start, "on_validation_epoch_start")
FULGURITE_NEAR_MISS(on_val_epoch_end, "on_validation_epoch_end")
FULGURITE_NEAR_MISS(on_val_batch_start, "on_validation_batch_start")
FULGURITE_NEAR_MISS(on_val_batch_end, "on_validation_batch_end")
FULGURITE_NEAR_MISS(on_before_optimizer_steps, "on_before_optimizer_step")
FULGURITE_NEAR_MISS(on_after_optimizer_step, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_load_start, "on_fit_start")
FULGURITE_NEAR_MISS(train_step, "training_step")
FULGURITE_NEAR_MISS(trainingstep, "training_step")
FULGURITE_NEAR_MISS(val_step, "validation_step")
FULGURITE_NEAR_MISS(prediction_step, "predict_step")
FULGURITE_NEAR_MISS(configure_optimizer, "configure_optimizers")
FULGURITE_NEAR_MISS(configure_callbacks, "make_trainer's callbacks")
FULGURITE_NEAR_MISS(optimizer_zero_gradients, "optimizer_zero_grad")
FULGURITE_NEAR_MISS(on_keyboard_interrupt, "on_exception")
FULGURITE_NEAR_MISS(on_pretrain_routine_start, "on_fit_start")
FULGURITE_NEAR_MISS(on_pretrain_routine_end, "on_fit_start")
FULGURITE_NEAR_MISS(on_fit_begin, "on_fit_start")
FULGURITE_NEAR_MISS(on_train_begin, "on_train_start")
FULGURITE_NEAR_MISS(on_epoch_begin, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_train_epoch_begin, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_train_batch_begin, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_train_batch_finish, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_step_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_validate_start, "on_validation_start")
FULGURITE_NEAR_MISS(on_validate_end, "on_validation_end")
FULGURITE_NEAR_MISS(on_validation_ends, "on_validation_end")
FULGURITE_NEAR_MISS(on_validation_epoch_ends, "on_validation_epoch_end")
FULGURITE_NEAR_MISS(on_validation_step_end, "on_validation_batch_end")
FULGURITE_NEAR_MISS(validate_step, "validation_step")
FULGURITE_NEAR_MISS(eval_step, "validation_step")
FULGURITE_NEAR_MISS(configure_optimisers, "configure_optimizers")
FULGURITE_NEAR_MISS(on_before_optimizer_zero_grad, "on_before_zero_grad")
FULGURITE_NEAR_MISS(on_save_checkpoint, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(on_load_checkpoint, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(train_loader, "train_dataloader")
FULGURITE_NEAR_MISS(training_dataloader, "train_dataloader")
FULGURITE_NEAR_MISS(val_loader, "val_dataloader")
FULGURITE_NEAR_MISS(validation_loader, "val_dataloader")
FULGURITE_NEAR_MISS(validation_dataloader, "val_dataloader")
FULGURITE_NEAR_MISS(test_loader, "test_dataloader")
FULGURITE_NEAR_MISS(predict_loader, "predict_dataloader")
FULGURITE_NEAR_MISS(train_dataloaders, "train_dataloader")
FULGURITE_NEAR_MISS(valid_dataloader, "val_dataloader")
FULGURITE_NEAR_MISS(val_dataloaders, "val_dataloader")
FULGURITE_NEAR_MISS(validation_dataloaders, "val_dataloader")
FULGURITE_NEAR_MISS(test_dataloaders, "test_dataloader")

#undef FULGURITE_NEAR_MISS
// clang-format on

}  // namespace fulgurite::refusal
