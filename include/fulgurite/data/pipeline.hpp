#pragma once
// Loaders written as a pipeline, like views: `dataset | shuffle(7) | batch(64)`. The result is the same Loader that the
// options make, so batches, checkpoints and threads are the same.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// Options of `batch(n, ...)`: LoaderOptions without those that other steps set.
struct BatchingOptions {
  bool drop_last = false;  ///< drop a last batch with fewer samples
  int workers = 0;         ///< threads that read samples ahead; 0: read them in the loop itself
  int prefetch = 2;        ///< how many batches each worker may be ahead
  std::function<void()> on_worker_start = {};
  bool persistent_workers = true;  ///< workers live across epochs
  Timeout timeout = {};            ///< longest wait of the loop for one batch; 0: no limit
  bool pin_memory = false;         ///< put batches into page-locked memory; needs a GPU
};

namespace pipeline {

/// The base class that marks a step. Two steps joined are a step, which can be stored and applied to a dataset later.
struct Step {};
template <class S>
concept IsStep = std::derived_from<std::remove_cvref_t<S>, Step>;

/// A dataset and the order in which it is visited.
template <class D, Sampler S>
struct Ordered {
  D dataset;
  S sampler;
  std::uint64_t seed = 0;  ///< also of what a function of batches draws
};
/// A dataset restricted to these samples.
template <class D>
struct Chosen {
  D dataset;
  std::vector<std::size_t> samples;
};

/// True if a step can be applied to this type.
template <class Left>
inline constexpr bool is_dataset = Dataset<typename Held<Left>::type>;
template <class Left>
inline constexpr bool is_ordered = false;
template <class D, class S>
inline constexpr bool is_ordered<Ordered<D, S>> = true;
template <class Left>
inline constexpr bool is_chosen = is_of<Chosen, Left>;

/// Reports a wrong order of steps once; a step that does not fit then returns its input unchanged.
template <class Left, bool Fits>
consteval bool fits() {
  static_assert(Fits, "[fulgurite.data.pipeline] this step does not follow what stands before it: write dataset | "
                      "subset(samples) | shuffle(seed) | batch(64), of which only batch must be there, each once");
  return Fits;
}

/// A dataset or its chosen samples, shuffled or as they lie.
template <class Left>
auto in_order(Left left, bool shuffled, std::uint64_t seed = 0) {
  if constexpr (is_chosen<Left>) {
    using D = decltype(left.dataset);
    return Ordered<D, Subset<OptionalShuffle>>{std::forward<D>(left.dataset),
                                               data::shuffled(std::move(left.samples), shuffled, seed), seed};
  } else {
    using D = typename Held<Left>::type;
    D dataset = std::move(left);
    OptionalShuffle sampler{static_cast<std::size_t>(dataset.size()), shuffled, seed};
    return Ordered<D, OptionalShuffle>{std::forward<D>(dataset), sampler, seed};
  }
}

/// The step `shuffle(seed)`.
struct Shuffling : Step {
  std::uint64_t seed;
  explicit Shuffling(std::uint64_t from) : seed(from) {}

  template <class Left>
  auto of(Left left) const {
    if constexpr (is_chosen<Left>) return in_order(std::move(left), true, seed);
    else if constexpr (fits<Left, is_dataset<Left>>()) return in_order(std::move(left), true, seed);
    else return left;
  }
};

/// The step `subset(samples)`.
struct Choosing : Step {
  std::vector<std::size_t> samples;
  Choosing(std::vector<std::size_t> all) : samples(std::move(all)) {}

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

/// The step `batch(n)`, which must be the last.
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
      auto how = options;
      how.seed = left.seed;
      return Loader<D, decltype(left.sampler), decltype(by)>(std::forward<D>(left.dataset), std::move(left.sampler),
                                                             std::move(how), by);
    } else if constexpr (is_chosen<Left>) return of(in_order(std::move(left), false));
    else if constexpr (fits<Left, is_dataset<Left>>()) return of(in_order(std::move(left), false));
    else return left;
  }
};

/// Two steps joined.
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
/// type. The dataset is stored as in a Loader: moved or copied in, or borrowed if given by std::cref.
inline pipeline::Shuffling shuffle(std::uint64_t seed = 0) { return pipeline::Shuffling(seed); }

/// Only these samples of the dataset, by their positions: `dataset | subset(split.train) | shuffle(7) | batch(64)`.
/// Throws [fulgurite.data.index] when an epoch begins if a position is out of range.
inline pipeline::Choosing subset(std::vector<std::size_t> samples) { return {std::move(samples)}; }

/// The order of any sampler: `dataset | ordered(Stride{...}) | batch(64)`.
template <Sampler S>
pipeline::Ordering<S> ordered(S sampler) {
  return pipeline::Ordering<S>(std::move(sampler));
}

/// Batches of `size` samples: makes a Loader. `collate(std::vector<Sample>)` makes one batch. Errors: as Loader.
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

// Loaders of unknown length: from a function that returns batch after batch, or from any input range.

/// Calls `open(epoch)`, or `open()` if it takes no epoch.
template <class Open>
decltype(auto) opened(Open& open, long epoch) {
  if constexpr (std::invocable<Open&, long>) return open(epoch);
  else return open();
}

/// The result of `open`: the function that yields the batches of an epoch.
template <class Open>
using Opened = std::remove_cvref_t<decltype(opened(std::declval<Open&>(), 0L))>;

/// A function that a Stream can open: it returns a function that returns a std::optional of a batch.
template <class Open>
concept OpensStream = (std::invocable<Open&, long> || std::invocable<Open&>) &&
                      requires { typename std::invoke_result_t<Opened<Open>&>::value_type; };

/// An unsized loader. Each `begin()` calls `open`, which returns a function that returns the next batch, or nothing at
/// the end:
///
///     Stream lines{[] {
///       return [file = std::ifstream("log.txt"), line = std::string()]() mutable {
///         return std::getline(file, line) ? std::optional(parsed(line)) : std::nullopt; };
///     }};
///
/// The function is called for a batch only after the step on the previous one: it may use the model in training, and
/// may return the same memory each time. A stream therefore does not promise that batches stay valid, and its end is
/// detected only after the last step, so `ctx.is_last_batch()` cannot report it before. To resume, a stream reads the
/// consumed batches again and drops them.
template <class Open>
class Stream : public Batches<Stream<Open>, typename std::invoke_result_t<Opened<Open>&>::value_type> {
 public:
  using Batch = typename std::invoke_result_t<Opened<Open>&>::value_type;

  explicit Stream(Open open) : open_(std::move(open)) {}

  /// The batch size of a stream that cuts its batches itself, as `stream_in_batches` does.
  long batch_size() const
    requires requires(Open const& open) { open.batch_size(); }
  {
    return open_.batch_size();
  }
  void set_batch_size(long size)
    requires requires(Open& open) { open.set_batch_size(size); }
  {
    if (size == open_.batch_size()) return;
    this->change_layout();
    open_.set_batch_size(size);
  }
  Layout layout() const
    requires requires(Open const& open) { open.batch_size(); }
  {
    return {.batch_size = batch_size()};
  }

 private:
  friend Batches<Stream, Batch>;

  void start(long epoch, long first) {
    source_.emplace(opened(open_, epoch));
    for (long k = 0; k < first; ++k)
      if (!(*source_)())
        throw Error("fulgurite.data.stream_short",
                    "a stream ended after " + std::to_string(k) + " batches, but " + std::to_string(first) +
                        " were consumed when the checkpoint was written: give it the same source");
  }

  bool next(std::optional<Batch>& batch) {
    if (std::optional<Batch> made = (*source_)()) return batch.emplace(std::move(*made)), true;
    return false;
  }

  Open open_;
  std::optional<Opened<Open>> source_;
};

/// A Stream that was given something else, which does not compile.
template <class Open>
  requires(!OpensStream<Open>)
class Stream<Open> {
  static constexpr bool opens = OpensStream<Open>;
  static_assert(opens,
                "[fulgurite.data.stream] a Stream takes a function that opens it for an epoch, and returns the "
                "function that returns the next batch, or nothing at the end: write Stream{[] { return next; }}, "
                "where next() returns a std::optional");

 public:
  explicit Stream(Open const&) {}
};

/// An unsized loader over a range of batches, which `open(epoch)` or `open()` returns for each epoch: `stream_of([] {
/// return std::views::iota(0, 100) | std::views::transform(batch_number); })`.
template <class Open>
  requires std::ranges::input_range<Opened<Open>>
auto stream_of(Open open) {
  return Stream{[open = std::move(open)](long epoch) mutable {
    using Range = Opened<Open>;
    // The range is on the heap since an iterator may point into it, so it must not be moved.
    return [range = std::make_unique<Range>(opened(open, epoch)),
            at = std::optional<std::ranges::iterator_t<Range>>()]() mutable {
      using Yielded = std::ranges::range_value_t<Range>;
      if (at) ++*at;
      else at.emplace(std::ranges::begin(*range));
      return *at == std::ranges::end(*range) ? std::optional<Yielded>() : std::optional<Yielded>(**at);
    };
  }};
}

/// How samples become batches.
struct StreamOptions {
  long batch_size = 1;
  bool drop_last = false;
};

/// Cuts a stream of samples into batches; `stream_in_batches` passes it to its Stream.
template <class Samples, class Collate>
class InBatches {
 public:
  InBatches(Samples samples, StreamOptions options, Collate collate)
      : samples_(std::move(samples)), options_(options), collate_(std::move(collate)) {
    set_batch_size(options.batch_size);
  }

  long batch_size() const { return options_.batch_size; }
  void set_batch_size(long size) {
    at_least(1, "fulgurite.data.batch_size", ".batch_size", size);
    options_.batch_size = size;
  }

  auto operator()(long epoch) {
    samples_.set_epoch(epoch);
    auto const size = static_cast<std::size_t>(options_.batch_size);
    return [this, size, at = samples_.begin(), fresh = true]() mutable {
      Group group;
      group.reserve(std::min<std::size_t>(size, 1024));
      while (group.size() < size) {
        // A sample is not drawn before its batch is: it may be made by the model, or arrive late.
        if (!std::exchange(fresh, false) && at != std::default_sentinel) ++at;
        if (at == std::default_sentinel) break;
        group.push_back(std::move(*at));
      }
      bool const enough = options_.drop_last ? group.size() == size : !group.empty();
      return enough ? std::optional<Collated>(collate_(std::move(group))) : std::optional<Collated>();
    };
  }

 private:
  using Group = std::vector<typename Samples::Batch>;
  using Collated = std::invoke_result_t<Collate&, Group>;

  Samples samples_;
  StreamOptions options_;
  Collate collate_;
};

/// A loader of unknown length over a range of samples: `stream_in_batches([] { return std::views::iota(0, 100); },
/// {.batch_size = 8})`. `collate(std::vector<Sample>)` makes a batch from each `batch_size` of them.
template <class Open, class Collate = ByDefault>
  requires std::ranges::input_range<Opened<Open>>
auto stream_in_batches(Open open, StreamOptions options, Collate collate = {}) {
  auto samples = stream_of(std::move(open));
  auto by = collating::chosen<typename decltype(samples)::Batch>(std::move(collate));
  return Stream{InBatches(std::move(samples), options, std::move(by))};
}

}  // namespace fulgurite::data
