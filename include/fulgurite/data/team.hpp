#pragma once
// Worker threads that make batches ahead of the loop and hand them over in order, pass after pass.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/team_work.hpp>
#include <fulgurite/data/worker_options.hpp>

namespace fulgurite::data {

/// What a worker was at that was waited for in vain.
struct HangingWorker {
  std::size_t index, workers;
  bool started;
  std::size_t sample, batch;
  long epoch;
  std::chrono::milliseconds waited;
};
/// The Error that says it.
FULGURITE_COLD Error worker_hangs(HangingWorker const& worker) {
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

/// Calls `make(k, at)` for the batches of a pass in up to `options.workers` threads, at most `.prefetch` batches for
/// each ahead of `take`. The threads wait for the next pass; the destructor ends and joins them, after the sample that
/// each is reading. One that does not come back within `.timeout`, or was waited for in vain before, is left behind,
/// with what it needs. `BatchReader` uses it.
template <class Batch>
class Team {
  using Work = TeamWork<Batch>;

 public:
  using Make = typename Work::Make;

  explicit Team(WorkerOptions options) : options_(std::move(options)) { work_->on_start = options_.on_worker_start; }
  ~Team() {
    halt(true);
    {
      std::unique_lock lock(work_->mutex);
      wait(lock, [&] {
        return std::ranges::all_of(work_->workers, [](auto& w) { return w.ended || (w.hangs && is_away(w)); });
      });
    }
    for (std::size_t i = 0; i < threads_.size(); ++i)
      if (has_ended(i)) threads_[i].join();
      else threads_[i].detach();
  }
  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  /// Batches first .. last-1 of an epoch. What was going on is left first.
  void begin(long epoch, std::size_t first, std::size_t last, Make make) {
    leave();
    auto const wanted = std::min(static_cast<std::size_t>(options_.workers), last - first);
    {
      std::lock_guard const lock(work_->mutex);
      epoch_ = epoch;
      work_->make = std::move(make);
      work_->slots = std::vector<typename Work::Slot>(wanted * static_cast<std::size_t>(options_.prefetch));
      work_->stop = std::stop_source();
      work_->claimed = work_->taken = first;
      work_->last = last;
    }
    work_->room.notify_all();
    while (threads_.size() < wanted) start_one();
  }

  /// Nobody begins another batch of this pass, and the one that each makes is given up at its next sample.
  void halt(bool for_good = false) {
    {
      std::lock_guard const lock(work_->mutex);
      work_->stop.request_stop();
      work_->last = work_->claimed;
      work_->ending = work_->ending || for_good;
    }
    work_->room.notify_all();
  }

  /// Ends the pass: when it returns, no worker reads. Error [fulgurite.data.worker_hangs] where one does not come back.
  void leave() {
    halt();
    std::unique_lock lock(work_->mutex);
    bool const all = wait(lock, [&] { return std::ranges::none_of(work_->workers, [](auto& w) { return w.busy; }); });
    if (!all) throw hung(lock, std::ranges::find_if(work_->workers, [](auto& w) { return w.busy; }));
    work_->taken = work_->last;
    work_->slots.clear();
  }

  /// The next batch in order, or nothing after the last. Rethrows what `make` threw for that batch, or what `on_start`
  /// threw. Error [fulgurite.data.worker_hangs] after `.timeout`.
  std::optional<Batch> take() {
    std::unique_lock lock(work_->mutex);
    if (work_->taken == work_->last) return std::nullopt;
    auto& slot = work_->slot(work_->taken);
    if (!wait(lock, [&] { return work_->broken || (all_started() && (slot.batch || slot.error)); }))
      throw hung(lock, all_started() ? work_->workers.begin() + static_cast<std::ptrdiff_t>(slot.worker)
                                     : std::ranges::find_if(work_->workers, [](auto& w) { return !w.started; }));
    if (work_->broken || slot.error) std::rethrow_exception(work_->broken ? work_->broken : slot.error);
    return handed_over(lock, slot);
  }

  /// The same where the batch is made already, and nothing otherwise: `take` then waits.
  std::optional<Batch> try_take() {
    std::unique_lock lock(work_->mutex);
    if (work_->taken == work_->last || work_->broken || !all_started()) return std::nullopt;
    auto& slot = work_->slot(work_->taken);
    return slot.batch ? handed_over(lock, slot) : std::nullopt;
  }
  /// `on_start` failed in a worker, which is of no further use.
  bool is_broken() const {
    std::lock_guard const lock(work_->mutex);
    return work_->broken != nullptr;
  }

 private:
  std::optional<Batch> handed_over(std::unique_lock<std::mutex>& lock, typename Work::Slot& slot) {
    std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
    ++work_->taken;
    lock.unlock();
    work_->room.notify_one();
    return batch;
  }
  static bool is_away(typename Work::Worker const& worker) { return worker.busy || !worker.started; }
  bool all_started() const {
    return std::ranges::all_of(work_->workers, [](auto const& worker) { return worker.started; });
  }
  bool has_ended(std::size_t i) const {
    std::lock_guard const lock(work_->mutex);
    return work_->workers[i].ended;
  }

  void start_one() try {
    std::size_t const index = threads_.size();
    auto* me = [&] {
      std::lock_guard const lock(work_->mutex);
      return &work_->workers.emplace_back();
    }();
    try {
      threads_.emplace_back([work = work_, index, me] { work->work(index, *me); });
    } catch (...) {
      std::lock_guard const lock(work_->mutex);
      work_->workers.pop_back();
      throw;
    }
  } catch (std::system_error const& failed) {
    throw Error("fulgurite.data.worker_start",
                "a worker thread could not be started (" + std::string(failed.what()) + "): use fewer .workers");
  }

  /// False where the time is over.
  bool wait(std::unique_lock<std::mutex>& lock, auto const& until) {
    if (options_.timeout.count() > 0) return work_->changed.wait_for(lock, options_.timeout, until);
    work_->changed.wait(lock, until);
    return true;
  }

  Error hung(std::unique_lock<std::mutex>&, auto const& worker) {
    worker->hangs = true;
    auto const index = static_cast<std::size_t>(worker - work_->workers.begin());
    return worker_hangs({.index = index,
                         .workers = work_->workers.size(),
                         .started = worker->started,
                         .sample = worker->sample.load(),
                         .batch = batch_of(index),
                         .epoch = epoch_,
                         .waited = options_.timeout});
  }
  std::size_t batch_of(std::size_t worker) const {
    for (std::size_t k = work_->taken; k != work_->claimed; ++k)
      if (!work_->slots.empty() && work_->slot(k).worker == worker && !work_->slot(k).batch) return k;
    return work_->taken;
  }

  WorkerOptions options_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::vector<std::thread> threads_;
  long epoch_ = 0;
};

}  // namespace fulgurite::data
