#pragma once
// The other processes of a run that nobody has started: rank 0 does, reads what they print, and learns how they end.

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/distributed/child.hpp>

namespace fulgurite {

/// What becomes of the output of the processes that rank 0 has started.
enum class OtherRanks : std::uint8_t {
  prefixed,  ///< each line is handed on after "[rank 1] "
  silent     ///< what goes to stdout is dropped; stderr is handed on, since errors stand there
};

namespace distributed {

/// Ranks 1 to devices - 1, each a process of this program with torchrun's variables. They are started by a thread that
/// lives as long as this object, and are killed where it dies.
class OwnRanks {
 public:
  /// `failed(rank, how)` is called from that thread when one has ended otherwise than with success.
  using Failed = std::function<void(int, std::string const&)>;

  OwnRanks(int devices, int port, OtherRanks output, Failed failed)
      : silent_(output == OtherRanks::silent), left_(devices - 1), failed_(std::move(failed)) {
    std::unique_lock lock(mutex_);
    thread_ = std::thread([this, devices, port] { work(devices, port); });
    changed_.wait(lock, [this] { return started_; });
    if (problem_) {
      lock.unlock();
      thread_.join();
      std::rethrow_exception(problem_);
    }
  }
  OwnRanks(OwnRanks const&) = delete;
  OwnRanks& operator=(OwnRanks const&) = delete;
  ~OwnRanks() { thread_.join(); }

  /// Whether all have ended within this time.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return left_ == 0; });
  }
  /// To all that have not ended.
  void signal(int number) {
    std::lock_guard const lock(mutex_);
    for (auto const& child : children_) child.signal(number);
  }

 private:
  void work(int devices, int port) {
    try {
      for (int rank = 1; rank != devices; ++rank)
        children_.emplace_back(
            rank, std::vector{"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
                              "WORLD_SIZE=" + std::to_string(devices), "LOCAL_WORLD_SIZE=" + std::to_string(devices),
                              "MASTER_PORT=" + std::to_string(port), std::string("MASTER_ADDR=127.0.0.1"),
                              std::string("GROUP_RANK=0"), "FULGURITE_STARTED_BY=" + std::to_string(::getpid())});
    } catch (...) {
      problem_ = std::current_exception();
      for (auto const& child : children_) child.signal(SIGKILL);
    }
    {
      std::lock_guard const lock(mutex_);
      started_ = true;
    }
    changed_.notify_all();
    while (look() != 0) {}
  }

  /// Waits for output and ends of a while; how many are left.
  int look() {
    std::vector<pollfd> all;
    for (auto const& child : children_)
      for (int const from : child.outputs())
        if (from >= 0) all.push_back({from, POLLIN, 0});
    ::poll(all.data(), all.size(), 20);
    std::vector<std::pair<int, std::string>> failures;
    int left = 0;
    {
      std::lock_guard const lock(mutex_);  // against a signal to a process that was waited for
      for (auto& child : children_) {
        child.pass_on(silent_);
        if (child.has_ended()) continue;
        auto const& how = child.ended(silent_);
        if (!how) ++left;
        else if (!how->empty()) failures.emplace_back(child.rank(), *how);
      }
    }
    for (auto const& [rank, how] : failures) failed_(rank, how);
    {
      std::lock_guard const lock(mutex_);
      left_ = left;
    }
    changed_.notify_all();
    return left;
  }

  bool silent_;
  int left_;
  Failed failed_;
  std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  bool started_ = false;
  std::exception_ptr problem_ = {};
  std::vector<Child> children_ = {};
  std::thread thread_ = {};
};

}  // namespace distributed
}  // namespace fulgurite
