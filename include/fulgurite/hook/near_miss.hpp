#pragma once
// Names that look like hooks and are not: Lightning's renamed and removed ones, and the usual misspellings. Each would
// be silently ignored. Names can only be probed one by one; beyond this table, a promise (`using Hooks =
// Implements<...>`) is the net.

#include <type_traits>

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

// clang-format off
#define FULGURITE_NEAR_MISSES(ROW)                                                    \
  ROW(training_epoch_end)                                                             \
  ROW(validation_epoch_end)                                                           \
  ROW(test_epoch_end)                                                                 \
  ROW(training_step_end)                                                              \
  ROW(validation_step_end)                                                            \
  ROW(training_end)                                                                   \
  ROW(on_epoch_start)                                                                 \
  ROW(on_epoch_end)                                                                   \
  ROW(on_batch_start)                                                                 \
  ROW(on_batch_end)                                                                   \
  ROW(on_train_end_batch)                                                             \
  ROW(on_train_start_batch)                                                           \
  ROW(on_train_batch_ends)                                                            \
  ROW(on_train_epoch_ends)                                                            \
  ROW(on_training_start)                                                              \
  ROW(on_training_end)                                                                \
  ROW(on_training_epoch_start)                                                        \
  ROW(on_training_epoch_end)                                                          \
  ROW(on_training_batch_start)                                                        \
  ROW(on_training_batch_end)                                                          \
  ROW(on_val_start)                                                                   \
  ROW(on_val_end)                                                                     \
  ROW(on_val_epoch_start)                                                             \
  ROW(on_val_epoch_end)                                                               \
  ROW(on_val_batch_start)                                                             \
  ROW(on_val_batch_end)                                                               \
  ROW(on_before_optimizer_steps)                                                      \
  ROW(on_after_optimizer_step)                                                        \
  ROW(on_load_start)                                                                  \
  ROW(train_step)                                                                     \
  ROW(trainingstep)                                                                   \
  ROW(val_step)                                                                       \
  ROW(prediction_step)                                                                \
  ROW(configure_optimizer)                                                            \
  ROW(configure_callbacks)                                                            \
  ROW(optimizer_zero_gradients)                                                       \
  ROW(on_keyboard_interrupt)                                                          \
  ROW(on_pretrain_routine_start)                                                      \
  ROW(on_pretrain_routine_end)                                                        \
  ROW(on_fit_begin)                                                                   \
  ROW(on_train_begin)                                                                 \
  ROW(on_epoch_begin)                                                                 \
  ROW(on_train_epoch_begin)                                                           \
  ROW(on_train_batch_begin)                                                           \
  ROW(on_train_batch_finish)                                                          \
  ROW(on_train_step_end)                                                              \
  ROW(on_validate_start)                                                              \
  ROW(on_validate_end)                                                                \
  ROW(on_validation_ends)                                                             \
  ROW(on_validation_epoch_ends)                                                       \
  ROW(on_validation_step_end)                                                         \
  ROW(validate_step)                                                                  \
  ROW(eval_step)                                                                      \
  ROW(configure_optimisers)                                                           \
  ROW(on_before_optimizer_zero_grad)                                                  \
  ROW(on_save_checkpoint)                                                             \
  ROW(on_load_checkpoint)

// The same for the loaders of a data module. A class may keep its loaders under such names: then it has the meant
// function as well.
#define FULGURITE_LOADER_NEAR_MISSES(ROW)                                             \
  ROW(train_loader, hook::train_dataloader)                                           \
  ROW(training_dataloader, hook::train_dataloader)                                    \
  ROW(val_loader, hook::val_dataloader)                                               \
  ROW(validation_loader, hook::val_dataloader)                                        \
  ROW(validation_dataloader, hook::val_dataloader)                                    \
  ROW(test_loader, hook::test_dataloader)                                             \
  ROW(predict_loader, hook::predict_dataloader)                                       \
  ROW(train_dataloaders, hook::train_dataloader)                                      \
  ROW(valid_dataloader, hook::val_dataloader)                                         \
  ROW(val_dataloaders, hook::val_dataloader)                                          \
  ROW(validation_dataloaders, hook::val_dataloader)                                   \
  ROW(test_dataloaders, hook::test_dataloader)
// clang-format on

namespace near_miss {
// A public data member of such a name cannot be meant as a hook.
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  struct NAME {                                                                                                        \
    struct Decoy {                                                                                                     \
      void NAME();                                                                                                     \
    };                                                                                                                 \
    template <class T>                                                                                                 \
    struct Probe : T, Decoy {};                                                                                        \
    template <class T>                                                                                                 \
    static constexpr bool is_data = requires {                                                                         \
      requires std::is_member_object_pointer_v<decltype(&T::NAME)>;                                                    \
    };                                                                                                                 \
    template <class T>                                                                                                 \
    static constexpr bool named = !requires {                                                                          \
      &Probe<T>::NAME;                                                                                                 \
    }                                                                                                                  \
    &&!is_data<T>;                                                                                                     \
  };
FULGURITE_NEAR_MISSES(FULGURITE_ROW)
FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
}  // namespace near_miss

}  // namespace fulgurite
