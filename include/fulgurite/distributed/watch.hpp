#pragma once
// The thread that tells the processes of a run of each other's end.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/distributed/notices.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

/// Looks every 100 ms whether some rank has said that it ended, with a connection to the store of its own: an answer
/// that never comes (the process that keeps the store is stopped) holds up this thread alone.
class Watch {
  using Clock = std::chrono::steady_clock;

 public:
  using Ended = distributed::Ended;

  Watch(Place const& place, Store store)
      : shared_(std::make_shared<Shared>()), thread_(&Watch::work, shared_, place, std::move(store)) {}
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
  ~Watch() { stop(); }

  /// Nobody is looked after any more. A thread that waits for an answer is left to itself.
  void stop() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard const lock(shared_->mutex);
      shared_->stops = true;
    }
    shared_->changed.notify_all();
    std::unique_lock lock(shared_->mutex);
    bool const over = shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->over; });
    lock.unlock();
    if (over) thread_.join();
    else thread_.detach();
  }

  /// Who has ended first, and why; cheap where nobody has.
  std::optional<Ended> ended() const {
    if (!shared_->any.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard const lock(shared_->mutex);
    return shared_->ended;
  }
  /// The same, waiting for it a while.
  std::optional<Ended> ended_within(std::chrono::milliseconds time) const {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, time, [&] { return shared_->ended.has_value(); });
    return shared_->ended;
  }

  /// Tells the others that a rank has ended, unless another one has before. Waits for it a second at most.
  void tell(int rank, std::string text) {
    std::unique_lock lock(shared_->mutex);
    if (shared_->ended || shared_->telling) return;
    shared_->telling = Ended{rank, std::move(text)};
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->ended.has_value(); });
  }

  /// What this rank waits for, so that others can name it when time is up.
  void waits(std::string what) {
    std::lock_guard const lock(shared_->mutex);
    shared_->waits = std::move(what);
    shared_->changed.notify_all();
  }
  /// This rank's program ends with success; the others are told within a second, or not at all.
  void leave() {
    std::unique_lock lock(shared_->mutex);
    shared_->leaves = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->over || !shared_->leaves; });
  }
  /// A rank that has left, as far as was heard since this one waits, and when that was heard.
  std::optional<std::pair<int, Clock::time_point>> left() const {
    std::lock_guard const lock(shared_->mutex);
    return shared_->left;
  }

  /// A connection broke. Who is there says so, and `all()` tells of it.
  void call_roll() {
    std::lock_guard const lock(shared_->mutex);
    shared_->calls_roll = true;
    shared_->changed.notify_all();
  }
  /// What each rank has said last; nothing where the store does not answer.
  std::optional<std::vector<Seen>> all() {
    std::unique_lock lock(shared_->mutex);
    shared_->asked = true;
    shared_->others.reset();
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::seconds(2), [&] { return shared_->others.has_value(); });
    return shared_->others;
  }

 private:
  struct Shared {
    std::atomic<bool> any = false;
    mutable std::mutex mutex = {};
    mutable std::condition_variable changed = {};
    bool stops = false, over = false, asked = false, leaves = false, calls_roll = false, answered_roll = false;
    std::optional<Ended> ended = {}, telling = {};
    std::optional<std::pair<int, Clock::time_point>> left = {};
    std::string waits = {}, waits_told = {};
    std::optional<std::vector<Seen>> others = {};
  };

  static void work(std::shared_ptr<Shared> shared, Place place, Store store) {
    try {
      Notices notices(place, *store);
      while (look(*shared, notices)) {}
    } catch (std::exception const&) {
      found(*shared, {0, place.agent_has_store ? "the launcher's store does not answer any more"
                                               : "its store does not answer any more, so its process is gone"});
    }
    std::lock_guard const lock(shared->mutex);
    shared->over = true;
    shared->changed.notify_all();
  }

  /// Whether to look again.
  static bool look(Shared& shared, Notices& notices) {
    std::unique_lock lock(shared.mutex);
    shared.changed.wait_for(lock, std::chrono::milliseconds(100), [&] {
      return shared.stops || shared.asked || shared.leaves || shared.calls_roll || (shared.telling && !shared.ended) ||
             shared.waits != shared.waits_told;
    });
    if (shared.stops) return false;
    auto const telling = shared.ended ? std::nullopt : shared.telling;
    auto const waits = shared.waits;
    bool const told = waits == shared.waits_told, asked = std::exchange(shared.asked, false);
    bool const leaves = shared.leaves, calls_roll = std::exchange(shared.calls_roll, false);
    bool const looks_for_left = !shared.left && !waits.empty();
    lock.unlock();
    if (telling) notices.end(*telling);
    if (leaves) notices.leave();
    if (calls_roll) notices.call_roll();
    if (!told) notices.waits(waits);
    if (!shared.any)
      if (auto ended = notices.ended()) found(shared, std::move(*ended));
    if (!shared.answered_roll) shared.answered_roll = notices.answer_roll();  // of this thread alone
    auto const left = looks_for_left ? notices.left() : std::nullopt;
    std::optional<std::vector<Seen>> others;
    if (asked) others = notices.all();
    lock.lock();
    shared.waits_told = waits;
    if (left) shared.left = {*left, Clock::now()};
    if (leaves) shared.leaves = false;
    if (others) shared.others = std::move(others);
    shared.changed.notify_all();
    return true;
  }
  static void found(Shared& shared, Ended ended) {
    std::lock_guard const lock(shared.mutex);
    if (!shared.ended) shared.ended = std::move(ended);
    shared.any.store(true, std::memory_order_release);
    shared.changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace fulgurite::distributed
