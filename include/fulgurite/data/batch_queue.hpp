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
///     fit.close();
///
/// A pass ends when the queue is closed and empty; there is none after it, so train with `.max_epochs = 1`, or end by
/// `fit.close()`. `limit_train_batches` ends epochs before: the next one continues with the batch that follows. Batches
/// that wait are not part of a checkpoint: a resumed fit trains on those that are pushed then.
template <class Batch>
class BatchQueue : Pinned {
 public:
  /// `most`: how many batches may wait, 2 or more; 0: any number. Throws [fulgurite.data.queue_size].
  explicit BatchQueue(std::size_t most = 0) : most_(most) {
    if (most == 1)
      throw Error(
          "fulgurite.data.queue_size",
          "a BatchQueue must let 2 batches wait or more, got 1: the fit has to know whether another one follows");
  }

  /// Waits while the queue is full, so another thread than the fit's has to push then. Throws
  /// [fulgurite.data.queue_closed] after `close`.
  void push(Batch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !is_full(); });
    put(std::move(batch));
  }
  /// Returns false, and leaves the batch out, if the queue is full. Throws as `push` does.
  bool try_push(Batch batch) {
    std::scoped_lock const lock(mutex_);
    if (!closed_ && is_full()) return false;
    put(std::move(batch));
    return true;
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
  /// Called by the fit's thread only.
  bool batch_is_ready() const {
    std::scoped_lock const lock(mutex_);
    return closed_ || waiting_.size() + (current_ && !delivered_ ? 1u : 0u) >= 2;
  }

  struct Sentinel {};
  class Iterator {
   public:
    explicit Iterator(BatchQueue& queue) : queue_(&queue) {}
    Batch& operator*() const { return queue_->deliver(); }
    Iterator& operator++() {
      queue_->drop_delivered();
      return *this;
    }
    /// Waits for a batch, or for `close`.
    bool operator!=(Sentinel) const { return queue_->has_batch(); }

   private:
    BatchQueue* queue_;
  };
  /// Continues with the first batch that was not delivered.
  Iterator begin() {
    drop_delivered();
    return Iterator(*this);
  }
  Sentinel end() const { return {}; }
  /// A resumed fit takes the batches that are pushed now.
  void resume_at(long) {}

 private:
  bool is_full() const { return most_ != 0 && waiting_.size() >= most_; }
  void put(Batch&& batch) {
    if (closed_) throw Error("fulgurite.data.queue_closed", "a batch was pushed to a BatchQueue that is closed");
    waiting_.push_back(std::move(batch));
    changed_.notify_all();
  }
  void drop_delivered() {
    if (std::exchange(delivered_, false)) current_.reset();
  }
  bool has_batch() {
    if (current_) return true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return false;
    current_.emplace(std::move(waiting_.front()));
    waiting_.pop_front();
    changed_.notify_all();
    return true;
  }
  Batch& deliver() {
    delivered_ = true;
    return *current_;
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
