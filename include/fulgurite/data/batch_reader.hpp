#pragma once
// The part of a loader that has the batches of a pass made: by its workers, or in the loop itself.

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <fulgurite/concept/waited.hpp>
#include <fulgurite/data/team.hpp>
#include <fulgurite/data/wait_clock.hpp>
#include <fulgurite/data/worker_options.hpp>

namespace fulgurite::data {

/// `leave()`, then `begin(epoch, first, last, make)`, then `next` until it returns false. `make(k, at)` makes batch k
/// in the workers, several at once; without workers `next` makes it by `here(k)`. A copy has the same options, and
/// threads of its own.
template <class Batch>
class BatchReader {
 public:
  using Make = typename Team<Batch>::Make;

  /// Errors: those of WorkerOptions::check.
  explicit BatchReader(WorkerOptions options) : options_(std::move(options)) { options_.check(); }
  BatchReader(BatchReader const& other) : options_(other.options_) {}
  BatchReader(BatchReader&&) noexcept = default;
  BatchReader& operator=(BatchReader const& other) {
    if (this != &other) *this = BatchReader(other);
    return *this;
  }
  BatchReader& operator=(BatchReader&&) noexcept = default;
  ~BatchReader() = default;

  bool has_workers() const { return options_.workers > 0; }

  /// Ends what is going on: no worker reads any more, so that what they read may be changed. Error
  /// [fulgurite.data.worker_hangs] where one does not come back; it may be called again.
  void leave() {
    next_ = last_ = 0;
    if (!team_) return;
    team_->leave();
    if (!options_.persistent_workers || team_->is_broken()) team_.reset();
  }

  void begin(long epoch, std::size_t first, std::size_t last, Make make) {
    next_ = first < last ? first : last;
    last_ = last;
    clock_.begin();
    if (next_ == last_ || !has_workers()) return;
    if (!team_) team_ = std::make_unique<Team<Batch>>(options_);
    guarded([&] { team_->begin(epoch, next_, last_, std::move(make)); });
  }

  /// Fills in the next batch, or returns false at the end. After an exception the pass is over.
  bool next(std::optional<Batch>& batch, auto&& here) {
    if (next_ == last_) return false;
    guarded([&] {
      if (!team_) batch = clock_.sampled([&] { return here(next_); });
      else if (batch = team_->try_take(); !batch) batch = clock_.waiting([&] { return team_->take(); });
    });
    if (++next_ == last_) {
      clock_.end();
      if (!options_.persistent_workers) team_.reset();  // which have made all
    }
    return true;
  }

  Waited waited() const { return clock_.so_far(options_.workers); }

 private:
  void guarded(auto&& action) {
    try {
      action();
    } catch (...) {
      next_ = last_;
      if (team_) team_->halt(!options_.persistent_workers || team_->is_broken());  // `leave` sees to one that hangs
      throw;
    }
  }

  WorkerOptions options_;
  std::unique_ptr<Team<Batch>> team_;
  WaitClock clock_;
  std::size_t next_ = 0, last_ = 0;
};

}  // namespace fulgurite::data
