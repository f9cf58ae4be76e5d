#pragma once
// The bodies of loop/safe_points.hpp.

#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/loop/safe_points.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void restore_after_save(RunCore& run, Context& ctx) {
  void* const arguments[] = {&ctx};
  notify_all(run, run.events->after_save, {}, arguments);
}

FULGURITE_BODY void show_and_save(RunCore& run, Context& ctx, FunctionRef<void()> save) {
  try {
    void* const arguments[] = {&ctx};
    notify_all(run, run.events->before_save, {}, arguments);
    save();
  } catch (...) {
    restore_after_save(run, ctx);
    throw;
  }
  restore_after_save(run, ctx);
}

FULGURITE_BODY void warn_of_forgotten(RunCore& run, std::filesystem::path const& path, bool parts_remember) {
  if (run.loading.forgets_place)
    run.warn("fulgurite.checkpoint.forgets_place",
             "a loader of this fit has neither resume_at(batch) nor state(archive), so " + path.string() +
                 " does not know where it is: give it one of them, or `using Stateless = fulgurite::ByChoice`");
  if (!parts_remember)
    run.warn("fulgurite.checkpoint.forgets_part",
             "the optimizer or a policy of this trainer has members and no state(archive), so " + path.string() +
                 " does not hold them: add it, or `using Stateless = fulgurite::ByChoice`");
}

/// Several files are written, and one may fail: the others are still written. Keeps the error to throw after all of
/// them: the first one, or, in preference to it, the Interrupted of a requested end. Other errors become warnings.
class FirstFailure {
 public:
  explicit FirstFailure(RunCore& run) : run_(run) {}

  /// Returns true if `work` did not throw.
  bool attempt(FunctionRef<void()> work) {
    try {
      work();
      return true;
    } catch (Interrupted const&) {
      if (first_ && !std::exchange(interrupted_, true)) say_first();
      first_ = std::current_exception();
    } catch (std::exception const& error) {
      if (first_)
        run_.warn("fulgurite.checkpoint.failed_too",
                  std::string("after another file, this one could not be written: ") + error.what());
      else first_ = std::current_exception();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
    return false;
  }
  /// Throws the kept error; does nothing if there is none.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  void say_first() const {
    try {
      std::rethrow_exception(first_);
    } catch (std::exception const& error) {
      run_.warn("fulgurite.checkpoint.failed_too",
                std::string("the run was asked to end, and a file could not be written: ") + error.what());
    } catch (...) {}  // it has no message
  }

  RunCore& run_;
  std::exception_ptr first_{};
  bool interrupted_ = false;
};

FULGURITE_BODY void do_requests(RunCore& run, FunctionRef<CheckpointFiles(HeldFiles::Holder)> files_of,
                                FunctionRef<void()> finish, FunctionRef<bool()> failed_alone) {
  auto& due = run.due;
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  FirstFailure failure(run);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    failure.attempt(finish);  // of an earlier request: there can be only one copy at a time
    auto files = files_of(request.holder);
    due.done = i + 1;
    bool const fine = failure.attempt([&] {
      if (request.act) request.act(files);
      else files.write(request.path);
    });
    if (!fine && failed_alone()) break;
  }
  due.now.clear();
  due.done = 0;
  failure.rethrow();
}

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

FULGURITE_BODY void abandon_files(RunCore& run, FunctionRef<void()> finish) noexcept {
  auto const warn = [&run](char const* why) {
    run.warn_each("fulgurite.checkpoint.failed_too",
                  std::string("the fit was left before its end, and this file could not be written: ") + why);
  };
  try {
    finish();
  } catch (std::exception const& error) { warn(error.what()); } catch (...) {
    warn("what was thrown is no std::exception");
  }
}

FULGURITE_BODY Error unknown_exception() {
  return Error("fulgurite.exception.unknown",
               "what was thrown is no std::exception: derive it from one, so that its reason can be reported");
}

FULGURITE_BODY void leave_run(RunCore& run) {
  for (auto const& [callback, table, given] : run.callbacks)
    if (table->do_not_continue != nullptr) table->do_not_continue(callback);
  run.made.log_dir = run.made.log_dir_before;
  run.made.outcome.metrics_file = run.made.metrics_file_before;
}

FULGURITE_BODY void clean_up(RunCore& run, bool interrupted, FunctionRef<void()> work) {
  std::string_view const identifier = "fulgurite.exception.second";
  bool const aloud = !run.asked.options.silence.has(identifier);
  try {
    work();
  } catch (std::exception const& second) {
    if (interrupted && dynamic_cast<Interrupted const*>(&second) != nullptr) return;
    run.said.each(identifier, std::string("after the exception that ended the run, this failed too: ") + second.what(),
                  aloud);
  } catch (...) {
    run.said.each(identifier, "after the exception that ended the run, something was thrown that is no std::exception",
                  aloud);
  }
}

}  // namespace fulgurite::loop
