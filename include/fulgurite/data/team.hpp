#pragma once
// Worker threads that make the batches of one epoch ahead of the loop and hand them over in order.

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

/// Calls `make(k, stop)` for k = first .. last-1 in `workers` threads, at most `capacity` batches ahead of `take`. The
/// destructor stops and joins the threads; it waits for the sample that each is reading, and no longer. `Loader` uses
/// it.
template <class Batch>
class Team {
 public:
  using Make = std::function<std::optional<Batch>(std::size_t, std::stop_token const&)>;

  Team(std::size_t first, std::size_t last, int workers, std::size_t capacity, std::function<void()> const& on_start,
       Make make)
      : make_(std::move(make)), slots_(capacity), claimed_(first), taken_(first), last_(last), starting_(workers) {
    try {
      for (int i = 0; i < workers; ++i)
        threads_.emplace_back([this, on_start](std::stop_token const& stop) { work(stop, on_start); });
    } catch (std::system_error const& failed) {
      stop();
      throw Error("fulgurite.data.worker_start",
                  "a worker thread could not be started (" + std::string(failed.what()) + "): use fewer .workers");
    }
  }
  ~Team() { stop(); }
  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  /// The next batch in order, or nothing after the last. Rethrows what `make` threw for that batch, or what `on_start`
  /// threw.
  std::optional<Batch> take() {
    std::unique_lock lock(mutex_);
    if (taken_ == last_) return std::nullopt;
    Slot& slot = slots_[taken_ % slots_.size()];
    filled_.wait(lock, [&] { return broken_ || (starting_ == 0 && (slot.batch || slot.error)); });
    if (broken_ || slot.error) std::rethrow_exception(broken_ ? broken_ : slot.error);
    std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
    ++taken_;
    lock.unlock();
    room_.notify_one();
    return batch;
  }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void work(std::stop_token const& stop, std::function<void()> const& on_start) {
    std::exception_ptr const failed = started(on_start);
    {
      std::lock_guard const lock(mutex_);
      --starting_;
      if (failed) broken_ = failed;
      filled_.notify_all();
    }
    if (failed) return;
    while (std::optional<std::size_t> const k = claim(stop)) {
      Slot made;
      try {
        made.batch = make_(*k, stop);
      } catch (...) { made.error = std::current_exception(); }
      std::lock_guard const lock(mutex_);
      slots_[*k % slots_.size()] = std::move(made);
      filled_.notify_all();
    }
  }

  static std::exception_ptr started(std::function<void()> const& on_start) try {
    if (on_start) on_start();
    return nullptr;
  } catch (std::exception const& failed) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", std::string(".on_worker_start failed: ") + failed.what()));
  } catch (...) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", ".on_worker_start threw something that is not a std::exception"));
  }

  /// Batches are claimed in order, so that some worker always has the one that the consumer waits for.
  std::optional<std::size_t> claim(std::stop_token const& stop) {
    std::unique_lock lock(mutex_);
    bool const roomy = room_.wait(lock, stop, [&] { return claimed_ == last_ || claimed_ < taken_ + slots_.size(); });
    if (!roomy || stop.stop_requested() || claimed_ == last_) return std::nullopt;
    return claimed_++;
  }

  void stop() {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();  // joins
  }

  Make make_;
  std::mutex mutex_;
  std::condition_variable filled_;    // for the consumer
  std::condition_variable_any room_;  // for the workers; wakes by the stop token too
  std::vector<Slot> slots_;
  std::size_t claimed_, taken_, last_;
  int starting_;               // workers that have not finished `on_start`: an error there is never missed
  std::exception_ptr broken_;  // what it threw
  std::vector<std::jthread> threads_;
};

}  // namespace fulgurite::data
