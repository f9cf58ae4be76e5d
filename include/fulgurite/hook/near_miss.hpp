#pragma once
// Names that look like hooks and are not: Lightning's renamed and removed ones, and the usual misspellings. Each would be silently
// ignored. Names can only be probed one by one; beyond this table, a promise (`using Hooks = Implements<...>`) is the net.

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

// clang-format off
#define FULGURITE_NEAR_MISSES(ROW)                                                    \
  ROW(training_epoch_end,            "on_train_epoch_end")                            \
  ROW(validation_epoch_end,          "on_validation_epoch_end")                       \
  ROW(test_epoch_end,                "on_test_epoch_end")                             \
  ROW(training_step_end,             "on_train_batch_end")                            \
  ROW(validation_step_end,           "on_validation_batch_end")                       \
  ROW(training_end,                  "on_train_batch_end")                            \
  ROW(on_epoch_start,                "on_train_epoch_start")                          \
  ROW(on_epoch_end,                  "on_train_epoch_end")                            \
  ROW(on_batch_start,                "on_train_batch_start")                          \
  ROW(on_batch_end,                  "on_train_batch_end")                            \
  ROW(on_train_end_batch,            "on_train_batch_end")                            \
  ROW(on_train_start_batch,          "on_train_batch_start")                          \
  ROW(on_train_batch_ends,           "on_train_batch_end")                            \
  ROW(on_train_epoch_ends,           "on_train_epoch_end")                            \
  ROW(on_training_start,             "on_train_start")                                \
  ROW(on_training_end,               "on_train_end")                                  \
  ROW(on_training_epoch_start,       "on_train_epoch_start")                          \
  ROW(on_training_epoch_end,         "on_train_epoch_end")                            \
  ROW(on_training_batch_start,       "on_train_batch_start")                          \
  ROW(on_training_batch_end,         "on_train_batch_end")                            \
  ROW(on_val_start,                  "on_validation_start")                           \
  ROW(on_val_end,                    "on_validation_end")                             \
  ROW(on_val_epoch_start,            "on_validation_epoch_start")                     \
  ROW(on_val_epoch_end,              "on_validation_epoch_end")                       \
  ROW(on_val_batch_start,            "on_validation_batch_start")                     \
  ROW(on_val_batch_end,              "on_validation_batch_end")                       \
  ROW(on_before_optimizer_steps,     "on_before_optimizer_step")                      \
  ROW(on_after_optimizer_step,       "on_train_batch_end")                            \
  ROW(on_load_start,                 "on_fit_start")                                  \
  ROW(train_step,                    "training_step")                                 \
  ROW(trainingstep,                  "training_step")                                 \
  ROW(val_step,                      "validation_step")                               \
  ROW(prediction_step,               "predict_step")                                  \
  ROW(configure_optimizer,           "configure_optimizers")                          \
  ROW(configure_callbacks,           "make_trainer's callbacks")                      \
  ROW(tbptt_split_batch,             "training_step")                                 \
  ROW(optimizer_zero_gradients,      "optimizer_zero_grad")                           \
  ROW(train_loader,                  "train_dataloader")                              \
  ROW(val_loader,                    "val_dataloader")                                \
  ROW(validation_dataloader,         "val_dataloader")                                \
  ROW(on_keyboard_interrupt,         "on_exception")                                  \
  ROW(on_pretrain_routine_start,     "on_fit_start")                                  \
  ROW(on_pretrain_routine_end,       "on_fit_start")
// clang-format on

namespace near_miss {
#define FULGURITE_ROW(NAME, ...) \
  FULGURITE_HOOK(NAME, Takes::nothing, Answer::none, Where::every_stage);
using hook::Row;
FULGURITE_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
}  // namespace near_miss

}  // namespace fulgurite
