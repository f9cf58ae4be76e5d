#pragma once
// What every loader with workers asks of them, and where a worker is while it makes a batch.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

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
  FULGURITE_COLD void check() const {
    at_least(0, "fulgurite.data.workers", ".workers", workers);
    at_least(1, "fulgurite.data.prefetch", ".prefetch", prefetch);
    at_least(0, "fulgurite.data.timeout", ".timeout in milliseconds", static_cast<long>(timeout.count()));
    if (workers == 0 && timeout.count() > 0)
      throw Error("fulgurite.data.timeout",
                  ".timeout is set and .workers is 0: what the loop reads itself cannot be left, give a worker to it");
  }
};

/// Handed to what makes a batch: whether it is still wanted, and where to note which sample is being read, so that an
/// Error can name it. Empty where the loop makes the batch itself.
struct AtWork {
  static constexpr std::size_t no_sample = static_cast<std::size_t>(-1);
  std::stop_token stop = {};
  std::atomic<std::size_t>* sample = nullptr;

  void reads(std::size_t index) const {
    if (sample) sample->store(index, std::memory_order_relaxed);
  }
};

}  // namespace fulgurite::data
