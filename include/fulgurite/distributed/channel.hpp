#pragma once
// Tensors from one process to another, in one direction.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/distributed/group.hpp>

namespace fulgurite::distributed {

/// c10d's send, or recv, with one neighbour. What is posted goes on its way at once; `wait` waits until all of it has
/// arrived, looking after the other ranks. gloo closes all connections where somebody waits with a time limit and it is
/// up, so a thread of the channel's own waits without one. It outlives a channel that nobody waits for any more.
class Channel {
 public:
  enum class Direction : bool { to, from };

  Channel(Group& group, Direction direction, int peer)
      : group_(&group), direction_(direction), peer_(peer), shared_(std::make_shared<Shared>()) {
    std::thread(&Channel::work, shared_).detach();
  }
  Channel(Channel const&) = delete;
  Channel& operator=(Channel const&) = delete;
  ~Channel() {
    std::lock_guard const lock(shared_->mutex);
    shared_->over = true;
    shared_->changed.notify_all();
  }

  /// The tensor is sent, or filled. It is contiguous, and must not be written to until it has arrived.
  void post(at::Tensor const& tensor) {
    std::vector<at::Tensor> one{tensor};
    // A connection that is broken already says so at once.
    auto work = group_->or_lost("talking to a neighbouring stage", [&] {
      auto& engine = group_->between_two();
      return direction_ == Direction::to ? engine.send(one, peer_, tag_) : engine.recv(one, peer_, tag_);
    });
    tag_ = (tag_ + 1) % tags;
    ++messages_;
    bytes_ += static_cast<long>(tensor.nbytes());
    std::lock_guard const lock(shared_->mutex);
    shared_->waiting.push_back({std::move(work), tensor});
    shared_->changed.notify_all();
  }
  void wait(std::string_view what) {
    group_->await(what, [&](std::chrono::milliseconds time) {
      std::unique_lock lock(shared_->mutex);
      auto const ready = [&] { return shared_->waiting.empty() || shared_->problem; };
      shared_->changed.wait_for(lock, time, ready);
      if (shared_->problem) std::rethrow_exception(shared_->problem);
      return ready();
    });
  }

  long messages() const { return messages_; }
  long bytes() const { return bytes_; }

 private:
  struct Message {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor tensor;
  };
  struct Shared {
    std::mutex mutex = {};
    std::condition_variable changed = {};
    bool over = false;
    std::deque<Message> waiting = {};
    std::exception_ptr problem = {};
  };

  static void work(std::shared_ptr<Shared> shared) {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->changed.wait(lock, [&] { return shared->over || !shared->waiting.empty(); });
      if (shared->waiting.empty() || shared->problem) return;
      auto const first = shared->waiting.front().work;
      lock.unlock();
      std::exception_ptr problem;
      try {
        first->wait();
      } catch (...) { problem = std::current_exception(); }
      lock.lock();
      if (problem) shared->problem = problem;
      else shared->waiting.pop_front();
      shared->changed.notify_all();
    }
  }

  static constexpr int tags = 1 << 15;

  Group* group_;
  Direction direction_;
  int peer_;
  int tag_ = 0;
  long messages_ = 0, bytes_ = 0;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fulgurite::distributed
