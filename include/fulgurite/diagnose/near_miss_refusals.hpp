#pragma once
// Written by tools/near_misses.py: the intended name for hooks that Lightning renamed or removed, and for other names
// that its users expect.

#pragma GCC system_header  // keeps the macro out of g++'s trace

#include <fulgurite/diagnose/misspelt_evaluation.hpp>
#include <fulgurite/diagnose/misspelt_events.hpp>
#include <fulgurite/diagnose/misspelt_functions.hpp>
#include <fulgurite/diagnose/rule.hpp>

namespace fulgurite::refusal {

// clang-format off
FULGURITE_NEAR_MISS(training_step_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_step_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_training_step_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(training_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_batch_end, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_after_optimizer_step, "on_train_batch_end")
FULGURITE_NEAR_MISS(on_train_end_batch, "on_train_batch_end")
FULGURITE_NEAR_MISS(validation_step_end, "on_validation_batch_end")
FULGURITE_NEAR_MISS(on_validation_step_end, "on_validation_batch_end")
FULGURITE_NEAR_MISS(test_step_end, "on_test_batch_end")
FULGURITE_NEAR_MISS(on_test_step_end, "on_test_batch_end")
FULGURITE_NEAR_MISS(predict_step_end, "on_predict_batch_end")
FULGURITE_NEAR_MISS(on_predict_step_end, "on_predict_batch_end")
FULGURITE_NEAR_MISS(training_epoch_end, "on_train_epoch_end")
FULGURITE_NEAR_MISS(on_epoch_end, "on_train_epoch_end")
FULGURITE_NEAR_MISS(validation_end, "on_validation_epoch_end")
FULGURITE_NEAR_MISS(test_end, "on_test_epoch_end")
FULGURITE_NEAR_MISS(on_epoch_start, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_epoch_begin, "on_train_epoch_start")
FULGURITE_NEAR_MISS(on_batch_start, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_batch_begin, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_train_start_batch, "on_train_batch_start")
FULGURITE_NEAR_MISS(on_init_start, "setup")
FULGURITE_NEAR_MISS(on_init_end, "setup")
FULGURITE_NEAR_MISS(on_before_accelerator_backend_setup, "setup")
FULGURITE_NEAR_MISS(on_load_start, "on_fit_start")
FULGURITE_NEAR_MISS(on_pretrain_routine_start, "on_fit_start")
FULGURITE_NEAR_MISS(on_pretrain_routine_end, "on_fit_start")
FULGURITE_NEAR_MISS(on_post_move_to_device, "on_fit_start")
FULGURITE_NEAR_MISS(on_configure_sharded_model, "configure_model")
FULGURITE_NEAR_MISS(configure_sharded_model, "configure_model")
FULGURITE_NEAR_MISS(on_before_optimizer_zero_grad, "on_before_zero_grad")
FULGURITE_NEAR_MISS(clip_gradients, "configure_gradient_clipping")
FULGURITE_NEAR_MISS(on_keyboard_interrupt, "on_exception")
FULGURITE_NEAR_MISS(on_save_checkpoint, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(on_load_checkpoint, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(on_hpc_save, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(on_hpc_load, "state(archive), which saves and loads")
FULGURITE_NEAR_MISS(configure_callbacks, "make_trainer's callbacks")
FULGURITE_NEAR_MISS(configure_apex, "make_trainer's precision")
FULGURITE_NEAR_MISS(configure_ddp, "make_trainer's strategy")
FULGURITE_NEAR_MISS(init_ddp_connection, "make_trainer's strategy")
FULGURITE_NEAR_MISS(configure_sync_batchnorm, "make_trainer's strategy")
FULGURITE_NEAR_MISS(get_progress_bar_dict, "ctx.log and a metric with .prog_bar = true")
FULGURITE_NEAR_MISS(get_tqdm_dict, "ctx.log and a metric with .prog_bar = true")
FULGURITE_NEAR_MISS(on_tng_metrics, "ctx.log")
FULGURITE_NEAR_MISS(log_grad_norm, "the callback GradientNorm")
FULGURITE_NEAR_MISS(log_hyperparameters, "log_hyperparams")
FULGURITE_NEAR_MISS(log_hparams, "log_hyperparams")
FULGURITE_NEAR_MISS(train_step, "training_step")
FULGURITE_NEAR_MISS(val_step, "validation_step")
FULGURITE_NEAR_MISS(validate_step, "validation_step")
FULGURITE_NEAR_MISS(eval_step, "validation_step")
FULGURITE_NEAR_MISS(prediction_step, "predict_step")
FULGURITE_NEAR_MISS(training_dataloader, "train_dataloader")
FULGURITE_NEAR_MISS(tng_dataloader, "train_dataloader")
FULGURITE_NEAR_MISS(on_reset_train_dataloader, "train_dataloader")
FULGURITE_NEAR_MISS(train_loader, "train_dataloader")
FULGURITE_NEAR_MISS(train_dataloaders, "train_dataloader")
FULGURITE_NEAR_MISS(validation_dataloader, "val_dataloader")
FULGURITE_NEAR_MISS(on_reset_val_dataloader, "val_dataloader")
FULGURITE_NEAR_MISS(val_loader, "val_dataloader")
FULGURITE_NEAR_MISS(validation_loader, "val_dataloader")
FULGURITE_NEAR_MISS(valid_loader, "val_dataloader")
FULGURITE_NEAR_MISS(val_dataloaders, "val_dataloader")
FULGURITE_NEAR_MISS(validation_dataloaders, "val_dataloader")
FULGURITE_NEAR_MISS(on_reset_test_dataloader, "test_dataloader")
FULGURITE_NEAR_MISS(test_loader, "test_dataloader")
FULGURITE_NEAR_MISS(test_dataloaders, "test_dataloader")
FULGURITE_NEAR_MISS(on_reset_predict_dataloader, "predict_dataloader")
FULGURITE_NEAR_MISS(predict_loader, "predict_dataloader")
FULGURITE_NEAR_MISS(predict_dataloaders, "predict_dataloader")
// clang-format on

}  // namespace fulgurite::refusal
