#pragma once
// The bodies of loop/rehearsal.hpp.

#include <fulgurite/loop/rehearsal.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void warn_of_few_rows(RunCore& run, EpochPlan const& plan) {
  auto const& options = run.asked.options;
  if (!plan.batches || options.fast_dev_run != 0) return;
  long const steps = (*plan.batches + run.asked.window_length - 1) / run.asked.window_length;
  if (options.log_every_n_steps > steps)
    run.warn("fulgurite.options.few_rows",
             "the steps of an epoch (" + std::to_string(steps) + ") are fewer than log_every_n_steps = " +
                 std::to_string(options.log_every_n_steps) + ": lower it to see the values of steps");
}

FULGURITE_BULK_BODY void warn_of_long_window(RunCore& run, EpochPlan const& plan) {
  if (!plan.batches || run.asked.window_length <= *plan.batches || run.asked.options.fast_dev_run != 0) return;
  run.warn("fulgurite.options.long_window",
           "accumulate_grad_batches = " + std::to_string(run.asked.window_length) + " is more than the " +
               std::to_string(*plan.batches) +
               " batches of an epoch. A window ends with its epoch, so each step is the mean of " +
               std::to_string(*plan.batches) + " batches: lower accumulate_grad_batches, or make epochs longer");
}

}  // namespace fulgurite::loop
