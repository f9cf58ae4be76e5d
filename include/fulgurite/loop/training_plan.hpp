#pragma once
// What training is given: its loader, the shape of its epochs, and whether validation's loaders fit their limits.

#include <cstddef>
#include <string>

#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/transfer.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// The training loader, as the options want it, and the shape that it gives an epoch.
template <class R, class Source>
EpochPlan plan_training(State<R>& run, Source& source) {
  auto& loader = training_loader(run, source);
  auto const mine = batches_of(loader, run.asked.options.limit_train_batches, "limit_train_batches");
  auto const [taken, size] = fewest_batches(run, {.taken = mine, .size = size_of(loader)});
  auto const plan = plan_epoch(run.asked.options, size, taken, run.facts.has_validation);
  run.facts.train_batches = plan.most();
  run.loading.training_is_open = true;
  if (size == 0)
    throw Error("fulgurite.data.empty",
                "the training loader has no batch (is drop_last set, with a batch larger than the data?): "
                "limit_train_batches = 0 is how to say that nothing is trained");
  return plan;
}

/// reload_dataloaders_every_n_epochs: the training loader is asked for anew when so many epochs have gone by.
template <class R, class Source>
void reload_if_due(State<R>& run, Source& source, EpochPlan& plan) {
  int const every = run.asked.options.reload_dataloaders_every_n_epochs;
  if (every == 0 || run.progress.epoch - run.loading.training_since < every) return;
  if constexpr (requires { source.reload_training(); }) source.reload_training();
  run.loading.training_since = run.progress.epoch;
  plan = plan_training(run, source);
}

/// Warns where an epoch has too few steps for any to have a row.
template <class R>
void warn_of_few_rows(State<R>& run, EpochPlan const& plan) {
  auto const& options = run.asked.options;
  if (!plan.batches || options.fast_dev_run != 0) return;
  long const steps = (*plan.batches + run.asked.window_length - 1) / run.asked.window_length;
  if (options.log_every_n_steps > steps)
    run.warn("fulgurite.options.few_rows",
             "the steps of an epoch (" + std::to_string(steps) + ") are fewer than log_every_n_steps = " +
                 std::to_string(options.log_every_n_steps) + ": lower it to see the values of steps");
}

/// Warns where an accumulation window is longer than an epoch, at whose end each window is closed.
template <class R>
void warn_of_long_window(State<R>& run, EpochPlan const& plan) {
  if (!plan.batches || run.asked.window_length <= *plan.batches || run.asked.options.fast_dev_run != 0) return;
  run.warn("fulgurite.options.long_window",
           "accumulate_grad_batches = " + std::to_string(run.asked.window_length) + " is more than the " +
               std::to_string(*plan.batches) +
               " batches of an epoch. A window ends with its epoch, so each step is the mean of " +
               std::to_string(*plan.batches) + " batches: lower accumulate_grad_batches, or make epochs longer");
}

/// Asks for the validation loaders now, so that a limit which does not fit them is known before training.
template <class R, class Source>
void check_validation(State<R>& run, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    if (!run.facts.has_validation) return;
    if (run.asked.options.num_sanity_val_steps == 0)
      run.loading.validation_since =
          validates_in(run.asked.options, run.progress.epoch) ? run.progress.epoch : never_loaded;
    auto loaders = evaluation_loaders<hook::val_dataloader>(run, source);
    run.loading.validation_is_open = true;
    each_loader(loaders, [&](auto& loader, std::size_t) {
      check_not_empty<R>(loader);
      batches_of(loader, run.asked.options.limit_val_batches, Validation::limit);
    });
  }
}

}  // namespace fulgurite::loop
