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

#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

/// Looks every 100 ms whether some rank has said that it ended, with a connection to the store of its own: an answer
/// that never comes (the process that keeps the store is stopped) holds up this thread alone.
class Watch {
 public:
  struct Ended {
    int rank;
    std::string text;
  };

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
  /// What each rank said last that it waits for, empty where it said nothing; nothing where the store does not answer.
  std::optional<std::vector<std::string>> all_wait_for() {
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
    bool stops = false, over = false, asked = false;
    std::optional<Ended> ended = {}, telling = {};
    std::string waits = {}, waits_told = {};
    std::optional<std::vector<std::string>> others = {};
  };

  static void work(std::shared_ptr<Shared> shared, Place place, Store store) {
    try {
      while (look(*shared, place, *store)) {}
    } catch (std::exception const&) {
      found(*shared, {0, place.agent_has_store ? "the launcher's store does not answer any more"
                                               : "its store does not answer any more, so its process is gone"});
    }
    std::lock_guard const lock(shared->mutex);
    shared->over = true;
    shared->changed.notify_all();
  }

  /// Whether to look again.
  static bool look(Shared& shared, Place const& place, c10d::Store& store) {
    std::unique_lock lock(shared.mutex);
    shared.changed.wait_for(lock, std::chrono::milliseconds(100), [&] {
      return shared.stops || shared.asked || (shared.telling && !shared.ended) || shared.waits != shared.waits_told;
    });
    if (shared.stops) return false;
    auto const telling = shared.ended ? std::nullopt : shared.telling;
    auto const waits = shared.waits;
    bool const told = waits == shared.waits_told, asked = std::exchange(shared.asked, false);
    lock.unlock();
    if (telling) store.compareSet("ended", {}, bytes_of(std::to_string(telling->rank) + "\n" + telling->text));
    if (!told) store.set("waits/" + std::to_string(place.rank), bytes_of(waits));
    if (!shared.any && store.check({"ended"})) {
      auto const text = text_of(store.get("ended"));
      auto const line = text.find('\n');
      try {
        store.set("heard/" + std::to_string(place.rank), bytes_of("yes"));  // whose process keeps the store may go
      } catch (std::exception const&) {}                                    // it has gone: what it said is here
      found(shared, {std::stoi(text), text.substr(line + 1)});
    }
    std::optional<std::vector<std::string>> others;
    if (asked) {
      others.emplace();
      for (int rank = 0; rank != place.world; ++rank) {
        auto const key = "waits/" + std::to_string(rank);
        others->push_back(store.check({key}) ? text_of(store.get(key)) : std::string());
      }
    }
    lock.lock();
    shared.waits_told = waits;
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
