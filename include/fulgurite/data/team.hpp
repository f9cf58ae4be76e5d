#pragma once
// Worker threads that make batches ahead of the loop and deliver them in order, pass after pass.

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

#include <sys/types.h>
#include <unistd.h>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::elsewhere {

/// An option of PyTorch's DataLoader that has another name or place here: naming it is a compile error. `Which` makes
/// each member's type distinct, as for the options of a trainer.
template <int Which>
struct LoaderOption {
  constexpr LoaderOption() = default;
  template <class Value>
  constexpr LoaderOption(Value const&) {
    constexpr bool is_option = Which < 0;
    static_assert(is_option, "[fulgurite.data.loader_option] num_workers is .workers here, and prefetch_factor is "
                             ".prefetch; a sampler, which decides the order, stands before the options, and a function "
                             "of batches behind them: Loader{dataset, sampler, {.batch_size = 32}, collate}");
  }
};

}  // namespace fulgurite::elsewhere

namespace fulgurite::data {

// The options that every loader with workers passes on, and the state of a worker while it makes a batch.

/// Options of the threads that read ahead. Loaders have options of the same names.
struct WorkerOptions {
  int workers = 0;                             ///< threads that make batches ahead; 0: the loop makes them itself
  int prefetch = 2;                            ///< how many batches each worker may be ahead
  std::function<void()> on_worker_start = {};  ///< runs in each worker before its first sample
  bool persistent_workers = true;              ///< workers live across epochs; false: they end with each epoch
  /// Longest wait of the loop for one batch, and of the loader's destructor for a thread that still reads a sample; a
  /// thread that takes longer is detached. 0: no limit.
  Timeout timeout = {};

  /// Throws [fulgurite.data.workers], [fulgurite.data.prefetch] or [fulgurite.data.timeout] for a value out of range.
  void check() const;
};

/// Passed to the function that makes a batch: a stop token, and where to store the index of the sample that is being
/// read, so that an Error can name it. Empty if the loop itself makes the batch.
struct AtWork {
  static constexpr std::size_t no_sample = static_cast<std::size_t>(-1);
  std::stop_token stop = {};
  std::atomic<std::size_t>* sample = nullptr;

  void reads(std::size_t index) const;
};

// How long a loop waits for the batches of a pass, measured when they are delivered.

/// Reads the clock twice for each measured wait, and the process's CPU time twice for each pass.
class WaitClock {
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point from, Clock::time_point to);

 public:
  void begin();
  /// Runs and measures work that the loop waits for.
  auto waiting(auto&& work) { return counted(work, 1); }
  /// For work that is done for every batch: measures the first 16, then every 16th, which counts 16 times.
  auto sampled(auto&& work) {
    if (++batches_ <= every) return counted(work, 1);
    return batches_ % every == 0 ? counted(work, every) : work();
  }
  /// The last batch was delivered; the time after it is not part of the pass.
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
  std::size_t batches_ = 0;  // that went through `sampled`
  bool begun_ = false, over_ = false;
};

// The state that the workers of a Team share with the loop. They own it jointly, since a thread that hangs may outlive
// its loader.

/// Batches from `claimed` to `last` of a pass are not yet started, those from `taken` on not yet delivered. All members
/// are read under the mutex, except a worker's `sample`.
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
    bool hangs = false;  // the loop timed out waiting for it, and it has not returned since
  };

  std::mutex mutex;
  std::condition_variable changed;  // notifies the loop
  std::condition_variable room;     // notifies the workers
  std::function<void()> on_start;
  Make make;
  std::vector<Slot> slots;
  std::deque<Worker> workers;  // a worker keeps a reference to its entry
  std::size_t claimed = 0, taken = 0, last = 0;
  std::exception_ptr broken;  // the exception of `on_start`
  std::stop_source stop;      // of the current pass
  bool ending = false;

  Slot& slot(std::size_t k) { return slots[k % slots.size()]; }

  /// The thread function of one worker. Batches are claimed in order, so that some worker always makes the batch that
  /// the loop waits for.
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

/// What a worker was doing when the loop timed out waiting for it.
struct HangingWorker {
  std::size_t index, workers;
  bool started;
  std::size_t sample, batch;
  long epoch;
  std::chrono::milliseconds waited;
};
/// The Error [fulgurite.data.worker_hangs] for that worker.
Error worker_hangs(HangingWorker const& worker);

/// Calls `make(k, at)` for the batches of a pass in up to `options.workers` threads, each at most `.prefetch` batches
/// ahead of `take`. The threads wait for the next pass. The destructor ends and joins them, each after its current
/// sample. A thread that does not return within `.timeout`, or timed out before, is detached and keeps what it needs
/// alive. `BatchReader` uses this class.
template <class Batch>
class Team : Pinned {
  using Work = TeamWork<Batch>;

 public:
  using Make = typename Work::Make;

  explicit Team(WorkerOptions options) : options_(std::move(options)) { work_->on_start = options_.on_worker_start; }
  ~Team();

  /// Starts batches first .. last-1 of an epoch, after leaving the pass before it.
  void begin(long epoch, std::size_t first, std::size_t last, Make make);

  /// No worker starts another batch of this pass, and each abandons its current batch at the next sample.
  void halt(bool for_good = false);

  /// Ends the pass: when it returns, no worker reads. Throws [fulgurite.data.worker_hangs] if a worker does not return.
  void leave();

  /// The next batch in order, or nothing after the last. Rethrows the exception of `make` for that batch, or of
  /// `on_start`. Throws [fulgurite.data.worker_hangs] after `.timeout`.
  std::optional<Batch> take();

  /// The next batch if it is ready; otherwise nothing, and `take` would wait.
  std::optional<Batch> try_take();
  /// False in a child that was forked after the team was made: threads do not follow into it.
  bool is_of_this_process() const { return process_ == ::getpid(); }
  /// True if `on_start` failed in a worker. The team is then unusable.
  bool is_broken() const {
    std::lock_guard const lock(work_->mutex);
    return work_->broken != nullptr;
  }

 private:
  std::optional<Batch> handed_over(std::unique_lock<std::mutex>& lock, typename Work::Slot& slot);
  static bool is_away(typename Work::Worker const& worker) { return worker.busy || !worker.started; }
  bool all_started() const {
    return std::ranges::all_of(work_->workers, [](auto const& worker) { return worker.started; });
  }
  bool has_ended(std::size_t i) const {
    std::lock_guard const lock(work_->mutex);
    return work_->workers[i].ended;
  }

  void start_one();

  /// Returns false on timeout.
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
  std::size_t batch_of(std::size_t worker) const {
    for (std::size_t k = work_->taken; k != work_->claimed; ++k)
      if (!work_->slots.empty() && work_->slot(k).worker == worker && !work_->slot(k).batch) return k;
    return work_->taken;
  }

  WorkerOptions options_;
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::vector<std::thread> threads_;
  long epoch_ = 0;
  ::pid_t process_ = ::getpid();
};

template <class Batch>
Team<Batch>::~Team() {
  if (!is_of_this_process()) {  // nothing of it may be touched: its threads are not here, or others have their handles
    static_cast<void>(new std::vector<std::thread>(std::move(threads_)));
    static_cast<void>(new std::shared_ptr<Work>(std::move(work_)));
    return;
  }
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
std::optional<Batch> Team<Batch>::handed_over(std::unique_lock<std::mutex>& lock, typename Work::Slot& slot) {
  std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
  ++work_->taken;
  lock.unlock();
  work_->room.notify_one();
  return batch;
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

// The part of a loader that makes the batches of a pass: by its workers, or in the loop itself.

/// Call `leave()`, then `begin(epoch, first, last, make)`, then `next` until it returns false. `make(k, at)` makes
/// batch k in the workers, several at once; without workers `next` makes it by `here(k)`. A copy has the same options,
/// and threads of its own.
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

  /// Ends the current pass: afterwards no worker reads, so the data that they read may be changed. Throws
  /// [fulgurite.data.worker_hangs] if a worker does not return; it may be called again.
  void leave();

  void begin(long epoch, std::size_t first, std::size_t last, Make make);

  /// Fills in the next batch, or returns false at the end. An exception ends the pass.
  bool next(std::optional<Batch>& batch, auto&& here) {
    if (next_ == last_) return false;
    guarded([&] {
      if (!team_) batch = clock_.sampled([&] { return here(next_); });
      else if (batch = team_->try_take(); !batch) batch = clock_.waiting([&] { return team_->take(); });
    });
    if (++next_ == last_) {
      clock_.end();
      if (!options_.persistent_workers) team_.reset();  // all batches are made
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
      if (team_) team_->halt(!options_.persistent_workers || team_->is_broken());  // `leave` handles hanging workers
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
  if (team_ && !team_->is_of_this_process()) team_.reset();
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
