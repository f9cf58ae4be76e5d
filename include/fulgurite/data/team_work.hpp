#pragma once
// What the workers of a Team share with the loop. It is owned by all of them: a thread that hangs may outlive its
// loader.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/worker_options.hpp>

namespace fulgurite::data {

/// Batches `claimed` to `last` of a pass have yet to be begun, those from `taken` on to be handed over. All members are
/// read under the mutex, but for a worker's `sample`.
template <class Batch>
struct TeamWork {
  using Make = std::function<std::optional<Batch>(std::size_t, AtWork const&)>;

  struct Slot {
    std::optional<Batch> batch = {};
    std::exception_ptr error = {};
    std::size_t worker = 0;
  };
  struct Worker {
    std::atomic<std::size_t> sample{AtWork::no_sample};
    bool started = false, busy = false, ended = false;
    bool hangs = false;  // it has been waited for in vain, and has not come back since
  };

  std::mutex mutex;
  std::condition_variable changed;  // for the loop
  std::condition_variable room;     // for the workers
  std::function<void()> on_start;
  Make make;
  std::vector<Slot> slots;
  std::deque<Worker> workers;  // a worker keeps a reference to its entry
  std::size_t claimed = 0, taken = 0, last = 0;
  std::exception_ptr broken;  // what `on_start` threw
  std::stop_source stop;      // of this pass
  bool ending = false;

  Slot& slot(std::size_t k) { return slots[k % slots.size()]; }

  /// The life of one worker. Batches are claimed in order, so that some worker always has the one that the loop waits
  /// for.
  void work(std::size_t index, Worker& me) {
    std::exception_ptr const failed = started();
    std::unique_lock lock(mutex);
    me.started = true;
    me.hangs = false;
    if (failed) broken = failed;
    changed.notify_all();
    while (!failed) {
      room.wait(lock, [&] { return ending || (claimed < last && claimed < taken + slots.size()); });
      if (ending) break;
      std::size_t const k = claimed++;
      slot(k).worker = index;
      me.busy = true;
      me.hangs = false;
      me.sample = AtWork::no_sample;
      AtWork const at{stop.get_token(), &me.sample};
      lock.unlock();
      Slot made = made_now(k, at);
      lock.lock();
      me.busy = me.hangs = false;
      if (!at.stop.stop_requested()) {
        made.worker = index;
        slot(k) = std::move(made);
      }
      changed.notify_all();
    }
    me.ended = true;
    changed.notify_all();
  }

 private:
  Slot made_now(std::size_t k, AtWork const& at) const {
    Slot made;
    try {
      made.batch = make(k, at);
    } catch (...) { made.error = std::current_exception(); }
    return made;
  }

  std::exception_ptr started() const try {
    if (on_start) on_start();
    return nullptr;
  } catch (std::exception const& failed) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", std::string(".on_worker_start failed: ") + failed.what()));
  } catch (...) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", ".on_worker_start threw something that is not a std::exception"));
  }
};

}  // namespace fulgurite::data
