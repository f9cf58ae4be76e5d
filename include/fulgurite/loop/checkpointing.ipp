#pragma once
// The bodies of loop/checkpointing.hpp.

#include <cstddef>
#include <string>

#include <fulgurite/loop/checkpointing.hpp>

namespace fulgurite::loop {

FULGURITE_BODY bool FirstFailure::attempt(FunctionRef<void()> work) {
  try {
    work();
    return true;
  } catch (Interrupted const&) {
    if (first_ && !std::exchange(interrupted_, true)) say_first();
    first_ = std::current_exception();
  } catch (std::exception const& error) {
    if (first_)
      warn("fulgurite.checkpoint.failed_too",
           std::string("after another file, this one could not be written: ") + error.what());
    else first_ = std::current_exception();
  } catch (...) {
    if (!first_) first_ = std::current_exception();
  }
  return false;
}

FULGURITE_BULK_BODY void FirstFailure::rethrow() const {
  if (first_) std::rethrow_exception(first_);
}

FULGURITE_BODY void FirstFailure::say_first() const {
  try {
    std::rethrow_exception(first_);
  } catch (std::exception const& error) {
    warn("fulgurite.checkpoint.failed_too",
         std::string("the run was asked to end, and a file could not be written: ") + error.what());
  } catch (...) {}  // it has no message
}

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

FULGURITE_BODY void do_requests(Due& due, Warn warn, FunctionRef<CheckpointFiles(HeldFiles::Holder)> files_of,
                                FunctionRef<void()> finish, FunctionRef<bool()> failed_alone) {
  auto const requests = std::exchange(due.requests, {});
  due.now = requests;
  due.done = 0;
  FirstFailure failure(warn);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    auto const& request = requests[i];
    auto files = files_of(request.holder);
    failure.attempt(finish);  // of an earlier request: there can be only one copy at a time
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

}  // namespace fulgurite::loop
