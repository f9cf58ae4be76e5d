#pragma once
// What a TensorLoader can be told, and what it can do to its batches.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <fulgurite/data/batch_random.hpp>
#include <fulgurite/data/worker_options.hpp>
#include <fulgurite/torch/data/batch.hpp>
#include <fulgurite/torch/data/stack.hpp>

namespace fulgurite::data {

/// Options of a TensorLoader, with PyTorch's names. An Error where a batch has no row.
struct TensorLoaderOptions {
  long batch_size = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool drop_last = false;
  int workers = 0;   ///< threads that gather and transform batches ahead; 0: the loop does. For data on the CPU
  int prefetch = 2;  ///< batches that each worker may be ahead
  bool persistent_workers = true;        ///< they stay from epoch to epoch
  std::chrono::milliseconds timeout{0};  ///< how long the loop waits for one batch; 0: for ever
  bool pin_memory = false;  ///< batches in page-locked memory: their copies to a GPU overlap with the step. Needs CUDA,
                            ///< and data on the CPU
};

/// Options of a loader that was given a sampler, which decides the order.
struct GatherOptions {
  long batch_size = 1;
  std::uint64_t seed = 0;  ///< of the `BatchRandom` that a transform may take
  bool drop_last = false;
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// The same without the order.
inline GatherOptions without_order(TensorLoaderOptions const& o) {
  return {.batch_size = o.batch_size,
          .seed = o.seed,
          .drop_last = o.drop_last,
          .workers = o.workers,
          .prefetch = o.prefetch,
          .persistent_workers = o.persistent_workers,
          .timeout = o.timeout,
          .pin_memory = o.pin_memory};
}

/// What a module of tensors is told of its loaders, under the same names.
template <class Options>
TensorLoaderOptions loader_options(Options const& o) {
  return {.batch_size = o.batch_size,
          .shuffle = o.shuffle,
          .seed = o.seed,
          .drop_last = o.drop_last,
          .workers = o.workers,
          .prefetch = o.prefetch,
          .persistent_workers = o.persistent_workers,
          .timeout = o.timeout,
          .pin_memory = o.pin_memory};
}

/// The workers of a loader that works with whole tensors: each takes one thread.
template <class Options>
WorkerOptions workers_of(Options const& o) {
  return {.workers = o.workers,
          .prefetch = o.prefetch,
          .on_worker_start = o.workers > 0 ? one_thread_each() : std::function<void()>(),
          .persistent_workers = o.persistent_workers,
          .timeout = o.timeout};
}

/// Batches stay as they were loaded.
struct Untouched {
  Batch operator()(Batch batch) const { return batch; }
};

/// A function of a batch, or of a batch and its random numbers, that returns the batch to be used in its place.
template <class T>
concept BatchTransform = std::invocable<T&, Batch> || std::invocable<T&, Batch, BatchRandom&>;

/// Several workers may call it at once: it can be copied, and called where it is const.
template <class T>
concept SharedTransform =
    std::copy_constructible<T> && (std::invocable<T const&, Batch> || std::invocable<T const&, Batch, BatchRandom&>);

/// What `transform` makes of a batch.
template <class Transform>
Batch transformed(Transform& transform, Batch batch, [[maybe_unused]] BatchRandom random) {
  if constexpr (std::invocable<Transform&, Batch, BatchRandom&>) {
    return transform(std::move(batch), random);
  } else {
    return transform(std::move(batch));
  }
}

}  // namespace fulgurite::data
