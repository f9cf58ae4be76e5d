#pragma once
// The bodies of loop/frame.hpp.

#include <string_view>

#include <fulgurite/loop/frame.hpp>

namespace fulgurite::loop {

/// fast_dev_run = n: one epoch of n batches, and n batches of validation, test and predict, without a sanity check. A
/// batch may take several steps and validation must still run, so max_steps is at least n.
FULGURITE_BULK_BODY void apply_dev_run(TrainerOptions& o) {
  if (!o.overfit_batches) o.limit_train_batches = o.limit_val_batches = o.fast_dev_run;
  o.limit_test_batches = o.limit_predict_batches = o.fast_dev_run;
  if (o.max_steps && *o.max_steps >= 0 && *o.max_steps < o.fast_dev_run) o.max_steps = o.fast_dev_run;
  o.max_epochs = 1;
  o.min_epochs.reset();
  o.min_steps.reset();
  o.num_sanity_val_steps = 0;
  o.val_check_interval = {};
  o.check_val_every_n_epoch = 1;
}

FULGURITE_BULK_BODY TrainerOptions effective(TrainerOptions given) {
  if (given.overfit_batches) given.limit_train_batches = given.limit_val_batches = *given.overfit_batches;
  if (given.barebones) given.log_every_n_steps = given.num_sanity_val_steps = 0;
  if (given.fast_dev_run != 0) apply_dev_run(given);
  return given;
}

FULGURITE_BODY void check_special(RunCore& run) {
  auto const& options = run.asked.options;
  if (options.barebones) refuse_output(run.callbacks, run.asked.added);
  if (options.fast_dev_run != 0)
    run.warn("fulgurite.options.dev_run", "fast_dev_run: " + std::to_string(options.fast_dev_run) +
                                              (options.fast_dev_run == 1 ? " batch" : " batches") +
                                              " of each loop, one epoch, no sanity check" +
                                              idle_in_dev_run(run.callbacks));
}

FULGURITE_BODY void leave_run(RunCore& run) {
  leave_folders(run.callbacks);
  run.made.log_dir = run.made.log_dir_before;
  run.made.outcome.metrics_file = run.made.metrics_file_before;
}

FULGURITE_BODY void clean_up(Warnings& said, Silence const& silence, bool interrupted, FunctionRef<void()> work) {
  std::string_view const identifier = "fulgurite.exception.second";
  bool const aloud = !silence.has(identifier);
  try {
    work();
  } catch (std::exception const& second) {
    if (interrupted && dynamic_cast<Interrupted const*>(&second) != nullptr) return;
    said.each(identifier, std::string("after the exception that ended the run, this failed too: ") + second.what(),
              aloud);
  } catch (...) {
    said.each(identifier, "after the exception that ended the run, something was thrown that is no std::exception",
              aloud);
  }
}

}  // namespace fulgurite::loop
