#pragma once
// The bodies of loop/names.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/names.hpp>

namespace fulgurite::loop {

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

FULGURITE_BODY void refuse_output(std::string_view callback) {
  throw Error("fulgurite.options.barebones",
              "barebones runs the loop alone, and there is a " + std::string(callback) + ": leave it out");
}

FULGURITE_BODY void warn_of_dev_run(Warn warn, long batches, std::string const& idle) {
  warn("fulgurite.options.dev_run", "fast_dev_run: " + std::to_string(batches) +
                                        (batches == 1 ? " batch" : " batches") +
                                        " of each loop, one epoch, no sanity check" + idle);
}

}  // namespace fulgurite::loop
