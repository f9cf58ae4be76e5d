#pragma once
// Worker threads that make batches ahead of the loop and hand them over in order, pass after pass.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <ctime>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

// What every loader with workers asks of them, and where a worker is while it makes a batch.

/// The threads that read ahead. Loaders have these as options of their own, by the same names.
struct WorkerOptions {
  int workers = 0;                             ///< threads that make batches ahead; 0: the loop makes them itself
  int prefetch = 2;                            ///< batches that each worker may be ahead
  std::function<void()> on_worker_start = {};  ///< runs in each worker before its first sample
  bool persistent_workers = true;              ///< they stay from epoch to epoch; false: they end with each
  /// How long the loop waits for one batch, and the end of the loader for a thread that still reads a sample: one that
  /// takes longer is left behind. 0: for ever.
  std::chrono::milliseconds timeout{0};

  /// Errors [fulgurite.data.workers], [fulgurite.data.prefetch] and [fulgurite.data.timeout] for what makes no sense.
  void check() const;
};

/// Handed to what makes a batch: whether it is still wanted, and where to note which sample is being read, so that an
/// Error can name it. Empty where the loop makes the batch itself.
struct AtWork {
  static constexpr std::size_t no_sample = static_cast<std::size_t>(-1);
  std::stop_token stop = {};
  std::atomic<std::size_t>* sample = nullptr;

  void reads(std::size_t index) const;
};

// How long a loop waits for the batches of a pass, measured where they are handed over.

/// Two readings of the clock for each wait that is measured, and two of the process's time for each pass.
class WaitClock {
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point from, Clock::time_point to);

 public:
  void begin();
  /// Runs what the loop has to wait for.
  auto waiting(auto&& work) { return counted(work, 1); }
  /// The same for work of every batch: the first 16 are measured, then one of 16, in the place of all.
  auto sampled(auto&& work) {
    if (++batches_ <= every) return counted(work, 1);
    return batches_ % every == 0 ? counted(work, every) : work();
  }
  /// The last batch was handed over; what follows is no part of the pass.
  void end();

  Waited so_far(int workers) const;

 private:
  static constexpr std::size_t every = 16;

  auto counted(auto&& work, std::size_t times) {
    struct Span {
      WaitClock& clock;
      double times;
      Clock::time_point from = Clock::now();
      ~Span() { clock.seconds_ += times * since(from, Clock::now()); }
    } const span{*this, static_cast<double>(times)};
    return work();
  }

  Clock::time_point began_{}, ended_{};
  std::clock_t processor_began_ = 0, processor_ended_ = 0;
  double seconds_ = 0;
  std::size_t batches_ = 0;  // of those that are sampled
  bool begun_ = false, over_ = false;
};

// What the workers of a Team share with the loop. It is owned by all of them: a thread that hangs may outlive its
// loader.

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
  void work(std::size_t index, Worker& me);

 private:
  Slot made_now(std::size_t k, AtWork const& at) const;

  std::exception_ptr started() const;
};

template <class Batch>
void TeamWork<Batch>::work(std::size_t index, Worker& me) {
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

template <class Batch>
typename TeamWork<Batch>::Slot TeamWork<Batch>::made_now(std::size_t k, AtWork const& at) const {
  Slot made;
  try {
    made.batch = make(k, at);
  } catch (...) { made.error = std::current_exception(); }
  return made;
}

template <class Batch>
std::exception_ptr TeamWork<Batch>::started() const {
  try {
    if (on_start) on_start();
    return nullptr;
  } catch (std::exception const& failed) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", std::string(".on_worker_start failed: ") + failed.what()));
  } catch (...) {
    return std::make_exception_ptr(
        Error("fulgurite.data.worker_start", ".on_worker_start threw something that is not a std::exception"));
  }
}

/// What a worker was at that was waited for in vain.
struct HangingWorker {
  std::size_t index, workers;
  bool started;
  std::size_t sample, batch;
  long epoch;
  std::chrono::milliseconds waited;
};
/// The Error that says it.
Error worker_hangs(HangingWorker const& worker);

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
  ~Team();
  Team(Team const&) = delete;
  Team& operator=(Team const&) = delete;

  /// Batches first .. last-1 of an epoch. What was going on is left first.
  void begin(long epoch, std::size_t first, std::size_t last, Make make);

  /// Nobody begins another batch of this pass, and the one that each makes is given up at its next sample.
  void halt(bool for_good = false);

  /// Ends the pass: when it returns, no worker reads. Error [fulgurite.data.worker_hangs] where one does not come back.
  void leave();

  /// The next batch in order, or nothing after the last. Rethrows what `make` threw for that batch, or what `on_start`
  /// threw. Error [fulgurite.data.worker_hangs] after `.timeout`.
  std::optional<Batch> take();

  /// The same where the batch is made already, and nothing otherwise: `take` then waits.
  std::optional<Batch> try_take();
  /// `on_start` failed in a worker, which is of no further use.
  bool is_broken() const;

 private:
  std::optional<Batch> handed_over(std::unique_lock<std::mutex>& lock, typename Work::Slot& slot);
  static bool is_away(typename Work::Worker const& worker) { return worker.busy || !worker.started; }
  bool all_started() const;
  bool has_ended(std::size_t i) const;

  void start_one();

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
  std::size_t batch_of(std::size_t worker) const;

  WorkerOptions options_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::vector<std::thread> threads_;
  long epoch_ = 0;
};

template <class Batch>
Team<Batch>::~Team() {
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

template <class Batch>
void Team<Batch>::begin(long epoch, std::size_t first, std::size_t last, Make make) {
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

template <class Batch>
void Team<Batch>::halt(bool for_good) {
  {
    std::lock_guard const lock(work_->mutex);
    work_->stop.request_stop();
    work_->last = work_->claimed;
    work_->ending = work_->ending || for_good;
  }
  work_->room.notify_all();
}

template <class Batch>
void Team<Batch>::leave() {
  halt();
  std::unique_lock lock(work_->mutex);
  bool const all = wait(lock, [&] { return std::ranges::none_of(work_->workers, [](auto& w) { return w.busy; }); });
  if (!all) throw hung(lock, std::ranges::find_if(work_->workers, [](auto& w) { return w.busy; }));
  work_->taken = work_->last;
  work_->slots.clear();
}

template <class Batch>
std::optional<Batch> Team<Batch>::take() {
  std::unique_lock lock(work_->mutex);
  if (work_->taken == work_->last) return std::nullopt;
  auto& slot = work_->slot(work_->taken);
  if (!wait(lock, [&] { return work_->broken || (all_started() && (slot.batch || slot.error)); }))
    throw hung(lock, all_started() ? work_->workers.begin() + static_cast<std::ptrdiff_t>(slot.worker)
                                   : std::ranges::find_if(work_->workers, [](auto& w) { return !w.started; }));
  if (work_->broken || slot.error) std::rethrow_exception(work_->broken ? work_->broken : slot.error);
  return handed_over(lock, slot);
}

template <class Batch>
std::optional<Batch> Team<Batch>::try_take() {
  std::unique_lock lock(work_->mutex);
  if (work_->taken == work_->last || work_->broken || !all_started()) return std::nullopt;
  auto& slot = work_->slot(work_->taken);
  return slot.batch ? handed_over(lock, slot) : std::nullopt;
}

template <class Batch>
bool Team<Batch>::is_broken() const {
  std::lock_guard const lock(work_->mutex);
  return work_->broken != nullptr;
}

template <class Batch>
std::optional<Batch> Team<Batch>::handed_over(std::unique_lock<std::mutex>& lock, typename Work::Slot& slot) {
  std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
  ++work_->taken;
  lock.unlock();
  work_->room.notify_one();
  return batch;
}

template <class Batch>
bool Team<Batch>::all_started() const {
  return std::ranges::all_of(work_->workers, [](auto const& worker) { return worker.started; });
}

template <class Batch>
bool Team<Batch>::has_ended(std::size_t i) const {
  std::lock_guard const lock(work_->mutex);
  return work_->workers[i].ended;
}

template <class Batch>
void Team<Batch>::start_one() {
  try {
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
}

template <class Batch>
std::size_t Team<Batch>::batch_of(std::size_t worker) const {
  for (std::size_t k = work_->taken; k != work_->claimed; ++k)
    if (!work_->slots.empty() && work_->slot(k).worker == worker && !work_->slot(k).batch) return k;
  return work_->taken;
}

// The part of a loader that has the batches of a pass made: by its workers, or in the loop itself.

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
  void leave();

  void begin(long epoch, std::size_t first, std::size_t last, Make make);

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

template <class Batch>
void BatchReader<Batch>::leave() {
  next_ = last_ = 0;
  if (!team_) return;
  team_->leave();
  if (!options_.persistent_workers || team_->is_broken()) team_.reset();
}

template <class Batch>
void BatchReader<Batch>::begin(long epoch, std::size_t first, std::size_t last, Make make) {
  next_ = first < last ? first : last;
  last_ = last;
  clock_.begin();
  if (next_ == last_ || !has_workers()) return;
  if (!team_) team_ = std::make_unique<Team<Batch>>(options_);
  guarded([&] { team_->begin(epoch, next_, last_, std::move(make)); });
}

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/team.ipp>
#endif
