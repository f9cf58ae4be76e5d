#pragma once
// The bodies of data/team.hpp.

#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/team.hpp>

namespace fulgurite::data {

FULGURITE_BODY void WorkerOptions::check() const {
  at_least(0, "fulgurite.data.workers", ".workers", workers);
  at_least(1, "fulgurite.data.prefetch", ".prefetch", prefetch);
  at_least(0, "fulgurite.data.timeout", ".timeout in milliseconds", static_cast<long>(timeout.count()));
  if (workers == 0 && timeout.count() > 0)
    throw Error("fulgurite.data.timeout",
                ".timeout is set and .workers is 0: what the loop reads itself cannot be left, give a worker to it");
}

FULGURITE_BULK_BODY void AtWork::reads(std::size_t index) const {
  if (sample) sample->store(index, std::memory_order_relaxed);
}

FULGURITE_BULK_BODY double WaitClock::since(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

FULGURITE_BULK_BODY void WaitClock::begin() {
  *this = WaitClock();
  began_ = Clock::now();
  processor_began_ = std::clock();
  begun_ = true;
}

FULGURITE_BULK_BODY void WaitClock::end() {
  ended_ = Clock::now();
  processor_ended_ = std::clock();
  over_ = true;
}

FULGURITE_BULK_BODY Waited WaitClock::so_far(int workers) const {
  if (!begun_) return {.workers = workers};
  double const pass = since(began_, over_ ? ended_ : Clock::now());
  double const processor = static_cast<double>((over_ ? processor_ended_ : std::clock()) - processor_began_) /
                           static_cast<double>(CLOCKS_PER_SEC);
  return {
      .seconds = std::min(seconds_, pass), .pass = pass, .busy = pass > 0 ? processor / pass : 0, .workers = workers};
}

FULGURITE_BODY Error worker_hangs(HangingWorker const& worker) {
  std::string said = "worker " + std::to_string(worker.index) + " of " + std::to_string(worker.workers);
  if (!worker.started) said += " has not come back from .on_worker_start";
  else {
    said += worker.sample == AtWork::no_sample ? " is at" : " reads sample " + std::to_string(worker.sample) + " for";
    said += " batch " + std::to_string(worker.batch) + " of epoch " + std::to_string(worker.epoch);
  }
  return Error("fulgurite.data.worker_hangs",
               said + ", and the loop has waited for " + std::to_string(worker.waited.count()) +
                   " ms, its .timeout: find what hangs there (a lock, a pipe, a network drive), or raise .timeout; the "
                   "thread is left behind, and the program can end");
}

}  // namespace fulgurite::data
