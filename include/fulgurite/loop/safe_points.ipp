#pragma once
// The bodies of loop/safe_points.hpp.

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include <cxxabi.h>

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

FULGURITE_BODY void do_requests(RunCore& run, FileWork const& work) {
  bool const writes = run.rank() == 0;
  auto* const shared = work.shared;
  HeldFiles::Holder holder = nullptr;
  std::exception_ptr alone{};  // this rank has failed inside a file, in which the others wait
  auto const failed_alone = [&] { return shared != nullptr && !shared->together && !shared->alone; };
  auto const write = [&](std::filesystem::path const& file, bool weights_only) {
    if (alone) std::rethrow_exception(alone);
    // `together` belongs to an earlier file; in this one a rank may fail alone.
    bool const together = shared != nullptr && std::exchange(shared->together, false);
    try {
      work.write(file, weights_only);
    } catch (FileExists const&) {  // all ranks find that it exists, and use the next name
      if (shared != nullptr) shared->together = together;
      throw;
    } catch (...) {
      if (failed_alone()) alone = std::current_exception();
      throw;
    }
    if (shared != nullptr) shared->together = together;
  };
  auto const later = [&](std::span<CheckpointFiles::Planned const> planned, bool weights_only,
                         CheckpointFiles::Then then) {
    work.write_later(planned, weights_only);
    work.under_way->holder = holder;
    work.under_way->then = std::move(then);
  };
  auto const of_first_rank = [&](bool mine) { return alone ? mine : work.any_rank(writes && mine); };

  auto& due = run.due;
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  FirstFailure failure(run);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    failure.attempt(work.finish);  // of an earlier request: there can be only one copy at a time
    holder = request.holder;
    CheckpointFiles::Means means{.writes = writes, .write = write, .validation_follows = run.point.validates};
    if (shared != nullptr && !shared->alone) means.of_first_rank = of_first_rank;
    if (work.write_later && run.asked.options.save_in_background) {
      means.write_later = later;
      work.under_way->before = run.made.outcome;
    }
    CheckpointFiles files(run.made.held_files, holder, due, means);
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

FULGURITE_BODY bool redo_window(RunCore& run, bool keeps_place, bool is_past, bool automatic) {
  auto& progress = run.progress;
  if (run.point.at != At::before_batch) return false;
  run.point.observed = run.observed;
  bool const stepped = !run.facts.left_out || run.point.counts;
  if (run.due.notified.failed<hook::on_train_batch_end>()) {  // its step is already made
    run.point = {.at = At::batch_end,
                 .last = run.facts.is_last_batch,
                 .counts = stepped,
                 .accumulating = run.facts.accumulating,
                 .began = true,
                 .observed = run.observed};
    return false;
  }
  bool const notified =
      run.facts.in_batch && run.facts.ended == progress.total_batches && !run.facts.end_unknown && !keeps_place;
  if (notified) {
    progress.batch = run.facts.batch_idx + 1;
    ++progress.total_batches;
    if (stepped && !run.facts.accumulating) progress.window_start = progress.batch;
  }
  // If a window ended before its full length, its step follows the batch.
  bool const flushing =
      !notified && automatic && !run.facts.accumulating && !keeps_place && progress.window_start != progress.batch;
  // The batch was finished, and something after it has failed.
  if (run.facts.in_batch && progress.batch == run.facts.batch_idx + 1 && !flushing) {
    bool const counts = notified ? stepped && !run.facts.accumulating : progress.window_start == progress.batch;
    run.point = {.at = notified ? At::after_step : At::after_batch,
                 .last = run.facts.is_last_batch,
                 .counts = counts,
                 .accumulating = run.facts.accumulating,
                 .observed = run.observed};
    return notified;
  }
  if (keeps_place) {
    progress.window_start = progress.batch;
  } else {
    progress.total_batches -= progress.batch - progress.window_start;
    progress.batch = progress.window_start;
    expect_rows(run.callbacks, run.due.rows_of_window(progress.total_batches));
  }
  run.point.began |= run.facts.in_batch && !run.facts.sanity_checking && progress.batch == 0;
  if (keeps_place && is_past) run.slices = 0;
  return false;
}

FULGURITE_BODY KeptPosition::KeptPosition(RunCore& run)
    : run_(run), progress_(run.progress), point_(run.point), slices_(run.slices) {}

FULGURITE_BODY KeptPosition::~KeptPosition() {
  expect_rows(run_.callbacks, 0);
  progress_.left_out = run_.progress.left_out;  // writing has exchanged the gradients of the open window
  run_.progress = progress_, run_.point = point_, run_.slices = slices_;
}

/// Throws [fulgurite.options.barebones] if a callback reports, except the last `added` ones, which do nothing then.
FULGURITE_BODY void refuse_output(Callbacks callbacks, std::size_t added) {
  AnyCallback const* last = nullptr;
  for (auto const& callback : callbacks)
    if (callback.table->is_for_output && callback.given + added < callbacks.size() &&
        (last == nullptr || last->given < callback.given))
      last = &callback;
  if (last != nullptr)
    throw Error("fulgurite.options.barebones",
                "barebones runs the loop alone, and there is a " + std::string(last->table->type) + ": leave it out");
}

/// Returns "; idle: A, B" for the callbacks that do nothing in a fast_dev_run; empty if there is none.
FULGURITE_BODY std::string idle_in_dev_run(Callbacks callbacks) {
  std::vector<AnyCallback const*> idle;
  for (auto const& callback : callbacks)
    if (callback.table->is_inert_in_dev_run) idle.push_back(&callback);
  sort_seldom(idle, [](auto const* a, auto const* b) { return a->given < b->given; });
  std::string text;
  for (auto const* callback : idle) text.append(text.empty() ? "; idle: " : ", ").append(callback->table->type);
  return text;
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

/// Throws [fulgurite.callback.state_key] if two callbacks have the same key, at least one of them by `state_key()`.
FULGURITE_BODY void refuse_equal_keys(Callbacks callbacks) {
  std::map<std::string, bool> keys;  // true: the key comes from state_key()
  for (auto const& callback : callbacks) {
    if (callback.table->save == nullptr) continue;
    bool const is_said = callback.table->says_key;
    auto const [at, is_new] = keys.try_emplace(callback.state_key(), is_said);
    if (is_new || (!is_said && !at->second)) continue;
    throw Error("fulgurite.callback.state_key",
                "two callbacks keep their states under the key '" + at->first +
                    "', and each would take up the other's where their order changes: let state_key() of one of them "
                    "say what makes it another");
  }
}

/// Throws [fulgurite.options.two_timers] if a Timer has a limit while max_time is set, since both would end the run.
FULGURITE_BODY void refuse_two_timers(Callbacks callbacks) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->limits_time != nullptr && table->limits_time(callback))
      throw Error("fulgurite.options.two_timers",
                  "max_time and a Timer with a limit both end the run: leave one of them out");
}

FULGURITE_BODY void check_fit(RunCore& run, bool waits, bool observes, bool can_reload) {
  auto const& options = run.asked.options;
  if (options.max_time) refuse_two_timers(run.callbacks);
  refuse_equal_keys(run.callbacks);
  if (waits && options.save_in_background)
    run.warn("fulgurite.options.save_in_background",
             std::string("save_in_background is set, and ") +
                 (run.program->is_distributed
                      ? "several processes save together"
                      : "the strategy's tensor library has no form of files that another thread could write") +
                 ": they are written at once, and training waits for each");
  check_special(run);
  if (options.barebones && observes)
    throw Error("fulgurite.options.barebones",
                "barebones keeps no metric, and a schedule follows one: leave one of them out");
  if (options.reload_dataloaders_every_n_epochs != 0 && !can_reload)
    throw Error("fulgurite.options.reload",
                "reload_dataloaders_every_n_epochs = " + std::to_string(options.reload_dataloaders_every_n_epochs) +
                    " asks for new loaders, and fit was given some: pass a data module, which can make them again");
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

FULGURITE_BODY void handle_exception(FunctionRef<void(std::exception const&)> failed) {
  try {
    throw;
  } catch (std::exception const& error) {
    failed(error);
  }
#if defined(__GLIBCXX__)
  catch (abi::__forced_unwind const&) {  // pthread_exit or pthread_cancel: it may not be caught for good
    throw;
  }
#endif
  catch (...) {
    failed(Error("fulgurite.exception.unknown",
                 "what was thrown is no std::exception: derive it from one, so that its reason can be reported"));
  }
}

/// Delivers the rows of listeners that will not be notified again of the event that failed.
FULGURITE_BODY void deliver_rest(RunCore& run) {
  run.due.take_back();
  if (run.due.notified.event.empty() || !run.asked.logs) return;
  log_posted(run, run.point.at == At::epoch_end ? last_step(run) : run.progress.logged_steps);
}

/// Passes the rows of replayed steps to the loggers, unless their results are known to be wrong.
FULGURITE_BODY void deliver_unchecked(RunCore& run, std::exception const& error) {
  if (dynamic_cast<WrongReplay const*>(&error)) {
    run.due.held_rows.clear();
    run.due.requests.clear();
  } else if (auto const steps = run.program->unchecked_steps(run); steps != 0) {
    run.warn("fulgurite.capture.unchecked", std::to_string(steps) +
                                                " replayed steps were not checked, since the fit ended by an "
                                                "exception: files and rows written now may hold what is wrong");
  }
  deliver_held(run);
}

FULGURITE_BODY void clean_up(RunCore& run, std::exception const& error, CleanUp const& program) {
  bool const interrupted = dynamic_cast<Interrupted const*>(&error) != nullptr;
  auto const still = [&](FunctionRef<void()> work) {
    std::string_view const identifier = "fulgurite.exception.second";
    bool const aloud = !run.asked.options.silence.has(identifier);
    try {
      work();
    } catch (std::exception const& second) {
      if (interrupted && dynamic_cast<Interrupted const*>(&second) != nullptr)
        return;  // the end that a signal asked for
      run.said.each(identifier,
                    std::string("after the exception that ended the run, this failed too: ") + second.what(), aloud);
    } catch (...) {
      run.said.each(identifier,
                    "after the exception that ended the run, something was thrown that is no std::exception", aloud);
    }
  };
  auto const notify = [&](bool strategy) {
    for (auto const& listener : program.on_exception.listeners)
      if (listener.listens && (listener.who > run.callbacks.size()) == strategy)
        still([&] { listener.call(participant(run, program.others, listener.who), program.arguments); });
  };

  still(program.finish_files);
  still([&] { deliver_rest(run); });
  notify(false);
  still(program.notify_data_module);
  notify(true);
  if (dynamic_cast<NotRestored const*>(&error)) run.due.requests.clear();  // they would save the trial run
  still([&] { deliver_unchecked(run, error); });
  if (program.may_write) still(program.write);
  run.loading.write = nullptr;
  still(program.finish_files);

  run.due.requests.clear();
  run.due.posted.clear();
  run.due.notified = {};   // requested files contain it; later events start from the first listener
  if (!program.may_write)  // loggers leave the folder of the file's run, which the fit has not resumed
    still([&] {
      for (auto const& [callback, table, given] : run.callbacks)
        if (table->do_not_continue != nullptr) table->do_not_continue(callback);
      run.made.log_dir = run.made.log_dir_before;
      run.made.outcome.metrics_file = run.made.metrics_file_before;
    });
  still([&] { finalize_loggers(run.callbacks, Status::failed); });
  still(program.leave_gradients);
  still(program.tear_down);
  if (run.loading.fit_is_open) {
    run.made.outcome.ended_by.clear();
    run.stop_clock();
    still([&] { note_switches(run, switches_for_program(run)); });
    run.point = {};
    run.progress.batch = run.progress.window_start = 0;  // so that a later fit begins the epoch from its first batch
  }
  run.switches.by_program = false;
  run.facts = {};
}

}  // namespace fulgurite::loop
