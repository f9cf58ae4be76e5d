#pragma once
// Loaders written as a pipeline, as views are: `dataset | shuffle(7) | batch(64)`. It makes the very Loader that its
// options make, so batches, files and threads are the same.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// How `batch(n, ...)` makes its batches: LoaderOptions without what the other steps say.
struct BatchingOptions {
  bool drop_last = false;  ///< leave out a last batch with fewer samples
  int workers = 0;         ///< threads that read samples ahead; 0: read them in the loop itself
  int prefetch = 2;        ///< batches that each worker may be ahead
  std::function<void()> on_worker_start = {};
  bool persistent_workers = true;        ///< they stay from epoch to epoch
  std::chrono::milliseconds timeout{0};  ///< how long the loop waits for one batch; 0: for ever
  bool pin_memory = false;               ///< batches in page-locked memory; needs CUDA
};

namespace pipeline {

/// A step says so by a base class; two steps are one, which can be kept and given a dataset later.
struct Step {};
template <class S>
concept IsStep = std::derived_from<std::remove_cvref_t<S>, Step>;

/// A dataset and the order in which it is visited.
template <class D, Sampler S>
struct Ordered {
  D dataset;
  S sampler;
};
/// A dataset of which only these samples are visited.
template <class D>
struct Chosen {
  D dataset;
  std::vector<std::size_t> samples;
};

/// What a step can be given.
template <class Left>
inline constexpr bool is_dataset = Dataset<typename Held<Left>::type>;
template <class Left>
inline constexpr bool is_ordered = false;
template <class D, class S>
inline constexpr bool is_ordered<Ordered<D, S>> = true;
template <class Left>
inline constexpr bool is_chosen = false;
template <class D>
inline constexpr bool is_chosen<Chosen<D>> = true;

/// Says what is wrong with the order of steps, once: what stands before a step that does not fit is handed on.
template <class Left, bool Fits>
consteval bool fits() {
  static_assert(Fits, "[fulgurite.data.pipeline] this step does not follow what stands before it: write dataset | "
                      "subset(samples) | shuffle(seed) | batch(64), of which only batch must be there, each once");
  return Fits;
}

/// The step `shuffle(seed)`.
struct Shuffling : Step {
  std::uint64_t seed;
  explicit Shuffling(std::uint64_t from) : seed(from) {}

  template <class Left>
  auto of(Left left) const {
    if constexpr (is_chosen<Left>) {
      OptionalShuffle inner{left.samples.size(), true, seed};
      Subset sampler(std::move(left.samples), inner);
      return Ordered<decltype(left.dataset), decltype(sampler)>{std::forward<decltype(left.dataset)>(left.dataset),
                                                                std::move(sampler)};
    } else if constexpr (fits<Left, is_dataset<Left>>()) {
      typename Held<Left>::type dataset = std::move(left);
      OptionalShuffle sampler{static_cast<std::size_t>(dataset.size()), true, seed};
      return Ordered<typename Held<Left>::type, OptionalShuffle>{std::forward<typename Held<Left>::type>(dataset),
                                                                 sampler};
    } else return left;
  }
};

/// The step `subset(samples)`.
struct Choosing : Step {
  std::vector<std::size_t> samples;
  explicit Choosing(std::vector<std::size_t> all) : samples(std::move(all)) {}

  template <class Left>
  auto of(Left left) const {
    if constexpr (fits<Left, is_dataset<Left>>()) return Chosen<typename Held<Left>::type>{std::move(left), samples};
    else return left;
  }
};

/// The step `ordered(sampler)`.
template <Sampler S>
struct Ordering : Step {
  S sampler;
  explicit Ordering(S by) : sampler(std::move(by)) {}

  template <class Left>
  auto of(Left left) const {
    if constexpr (fits<Left, is_dataset<Left>>())
      return Ordered<typename Held<Left>::type, S>{std::move(left), sampler};
    else return left;
  }
};

/// The step `batch(n)`, which is the last.
template <class Collate>
struct Batching : Step {
  BatchOptions options;
  Collate collate;
  Batching(BatchOptions how, Collate by) : options(std::move(how)), collate(std::move(by)) {}

  template <class Left>
  auto of(Left left) const {
    if constexpr (is_ordered<Left>) {
      using D = decltype(left.dataset);
      auto by = collating::chosen<Sample<D>>(collate);
      return Loader<D, decltype(left.sampler), decltype(by)>(std::forward<D>(left.dataset), std::move(left.sampler),
                                                             options, by);
    } else if constexpr (is_chosen<Left>) {
      using D = decltype(left.dataset);
      OptionalShuffle inner{left.samples.size()};
      auto by = collating::chosen<Sample<D>>(collate);
      return Loader<D, Subset<OptionalShuffle>, decltype(by)>(std::forward<D>(left.dataset),
                                                              Subset(std::move(left.samples), inner), options, by);
    } else if constexpr (fits<Left, is_dataset<Left>>()) {
      using D = typename Held<Left>::type;
      D dataset = std::move(left);
      OptionalShuffle all{static_cast<std::size_t>(dataset.size())};
      auto by = collating::chosen<Sample<D>>(collate);
      return Loader<D, OptionalShuffle, decltype(by)>(std::forward<D>(dataset), all, options, by);
    } else return left;
  }
};

/// Two steps as one.
template <IsStep A, IsStep B>
struct Joined : Step {
  A first;
  B second;
  Joined(A a, B b) : first(std::move(a)), second(std::move(b)) {}

  template <class Left>
  auto of(Left left) const {
    return second.of(first.of(std::move(left)));
  }
};

template <IsStep A, IsStep B>
Joined<A, B> operator|(A first, B second) {
  return {std::move(first), std::move(second)};
}
template <class Left, IsStep S>
  requires(!IsStep<Left>)
auto operator|(Left&& left, S const& step) {
  return step.of(std::remove_cvref_t<Left>(std::forward<Left>(left)));
}

}  // namespace pipeline

/// `dataset | shuffle(7) | batch(64)` is `Loader{dataset, {.batch_size = 64, .shuffle = true, .seed = 7}}`, of the same
/// type. A dataset is kept as a Loader keeps it: moved or copied in, or borrowed where it is given by std::cref.
inline pipeline::Shuffling shuffle(std::uint64_t seed = 0) { return pipeline::Shuffling(seed); }

/// Only these samples of the dataset, by their positions: `dataset | subset(split.train) | shuffle(7) | batch(64)`.
/// Error [fulgurite.data.index], when an epoch begins, for one that is not there.
inline pipeline::Choosing subset(std::vector<std::size_t> samples) { return pipeline::Choosing(std::move(samples)); }

/// The order of any sampler: `dataset | ordered(Stride{...}) | batch(64)`.
template <Sampler S>
pipeline::Ordering<S> ordered(S sampler) {
  return pipeline::Ordering<S>(std::move(sampler));
}

/// Batches of so many samples: a Loader. `collate(std::vector<Sample>)` makes one. Errors as those of Loader.
template <class Collate = ByDefault>
pipeline::Batching<Collate> batch(long size, BatchingOptions options = {}, Collate collate = {}) {
  return {BatchOptions{.batch_size = size,
                       .drop_last = options.drop_last,
                       .workers = options.workers,
                       .prefetch = options.prefetch,
                       .on_worker_start = std::move(options.on_worker_start),
                       .persistent_workers = options.persistent_workers,
                       .timeout = options.timeout,
                       .pin_memory = options.pin_memory},
          std::move(collate)};
}

}  // namespace fulgurite::data
