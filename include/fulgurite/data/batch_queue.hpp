#pragma once
// Batches that arrive while the program trains.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// A loader for online and reinforcement learning: other code pushes batches, from any thread, and the fit takes them
/// in order. An open fit's `advance` returns `waiting` until the next batch can be taken and it is known whether
/// another one follows, which is when two batches wait or the queue is closed; `trainer.fit` waits in the loader.
///
///     BatchQueue<Batch> queue;
///     auto fit = trainer.open(net, queue);
///     while (robot.runs()) {
///       queue.push(robot.observe());
///       fit.advance_for(2ms);
///     }
///     queue.close();
///
/// A pass ends when the queue is closed and empty. `limit_train_batches` ends epochs before: the next one continues
/// with the batch that follows. Batches that wait are not part of a checkpoint.
template <class Batch>
class BatchQueue {
 public:
  /// `most`: how many batches may wait; `push` waits while there are as many. 0: any number.
  explicit BatchQueue(std::size_t most = 0) : most_(most) {}
  BatchQueue(BatchQueue const&) = delete;
  BatchQueue& operator=(BatchQueue const&) = delete;

  /// Throws [fulgurite.data.queue_closed] after `close`.
  void push(Batch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || most_ == 0 || waiting_.size() < most_; });
    if (closed_) throw Error("fulgurite.data.queue_closed", "a batch was pushed to a BatchQueue that is closed");
    waiting_.push_back(std::move(batch));
    changed_.notify_all();
  }
  /// No batch follows those that wait.
  void close() {
    std::scoped_lock const lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  /// The number of batches that wait.
  std::size_t size_waiting() const {
    std::scoped_lock const lock(mutex_);
    return waiting_.size();
  }
  bool ready() const {
    std::scoped_lock const lock(mutex_);
    return closed_ || waiting_.size() + (current_ && !delivered_ ? 1u : 0u) >= 2;
  }

  struct Sentinel {};
  class Iterator {
   public:
    explicit Iterator(BatchQueue& queue) : queue_(&queue) {}
    Batch& operator*() const { return queue_->deliver(); }
    Iterator& operator++() {
      queue_->take();
      return *this;
    }
    bool operator!=(Sentinel) const { return queue_->current_.has_value(); }

   private:
    BatchQueue* queue_;
  };
  /// Continues with the first batch that was not delivered. Waits for it.
  Iterator begin() {
    if (!current_ || delivered_) take();
    return Iterator(*this);
  }
  Sentinel end() const { return {}; }

 private:
  Batch& deliver() {
    delivered_ = true;
    return *current_;
  }
  void take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    current_.reset();
    delivered_ = false;
    if (waiting_.empty()) return;
    current_.emplace(std::move(waiting_.front()));
    waiting_.pop_front();
    changed_.notify_all();
  }

  std::size_t most_;
  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<Batch> waiting_{};
  bool closed_ = false;
  std::optional<Batch> current_{};  ///< the fit's batch; only the fit's thread uses it
  bool delivered_ = false;
};

}  // namespace fulgurite
