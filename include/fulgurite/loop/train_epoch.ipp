#pragma once
// The bodies of loop/train_epoch.hpp.

#include <cmath>
#include <thread>

#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

FULGURITE_BODY int idle_while_waiting(Waited const& waited, unsigned processors) {
  double const idle = static_cast<double>(processors) - waited.busy;
  return waited.pass < 5 || waited.seconds < waited.pass / 4 || idle < 1 ? 0 : static_cast<int>(idle);
}

FULGURITE_BULK_BODY void advise_on_data(RunCore& run, Waited const& waited) {
  unsigned const processors = std::max(1U, std::thread::hardware_concurrency());
  int const idle = idle_while_waiting(waited, processors);
  if (idle == 0) return;
  std::string const part = std::to_string(std::lround(100 * waited.seconds / waited.pass));
  run.warn("fulgurite.data.waits", "the loop waited for its batches for " + part + " % of epoch " +
                                       std::to_string(run.progress.epoch) + ", and " + std::to_string(idle) + " of " +
                                       std::to_string(processors) +
                                       " processors had nothing to do: give the training loader .workers = " +
                                       std::to_string(waited.workers + std::min(idle, 8)) + " (it has " +
                                       std::to_string(waited.workers) + "), and more until the wait ends");
}

FULGURITE_BODY void warn_of_left_out(Warn warn, long batch, int epoch) {
  warn("fulgurite.data.none", "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
                                  " is none, an empty optional: it is skipped, and so are others that follow");
}

FULGURITE_BODY void refuse_empty_epoch(int epoch) {
  throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(epoch) +
                                          ": begin() must start a new pass each time");
}

}  // namespace fulgurite::loop
