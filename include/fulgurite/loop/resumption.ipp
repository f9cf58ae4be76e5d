#pragma once
// The bodies of loop/resumption.hpp.

#include <cstdio>

#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/resumption.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void refuse_other_shares(long consumed, long then, long now) {
  throw Error("fulgurite.resume.ranks", "the run stopped after " + std::to_string(consumed) +
                                            " batches of an epoch that " + std::to_string(then) +
                                            (then == 1 ? " process" : " processes") + " shared, and there " +
                                            (now == 1 ? "is " : "are ") + std::to_string(now) +
                                            " now: resume with as many, or from a checkpoint written between epochs");
}

FULGURITE_BODY void print_start(RunCore const& run, std::string const& file) {
  auto const& at = run.progress;
  if (run.asked.options.barebones) return;
  fulgurite::print_lines(stderr, "resumes from " + file + ": epoch " + std::to_string(at.epoch) +
                                     (at.batch == 0 ? "" : ", batch " + std::to_string(at.batch)) + ", step " +
                                     std::to_string(at.global_step) + "\n");
}

FULGURITE_BODY bool warn_if_finished(RunCore& run) {
  bool const ended = run.due.stop_of_file && stops(run) && !steps_exhausted(run) && !epochs_exhausted(run);
  if (ended)
    run.warn("fulgurite.resume.finished",
             "the run of this file had ended because a callback or a hook asked for a stop, so nothing more is "
             "trained: change max_epochs, max_steps or max_time to continue it");
  return ended;
}

}  // namespace fulgurite::loop
