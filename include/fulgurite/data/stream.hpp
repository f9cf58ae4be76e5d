#pragma once
// Loaders of unknown length: from a function that gives batch after batch, or from any input range.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/dataset.hpp>
#include <fulgurite/data/sampler.hpp>

namespace fulgurite::data {

/// Calls `open(epoch)`, or `open()` where it takes no epoch.
template <class Open>
decltype(auto) opened(Open& open, long epoch) {
  if constexpr (std::invocable<Open&, long>) return open(epoch);
  else return open();
}

/// What `open` gives: the function that yields the batches of an epoch.
template <class Open>
using Opened = std::remove_cvref_t<decltype(opened(std::declval<Open&>(), 0L))>;

/// An unsized loader: `open` is called by each `begin()` and gives a function that returns the next batch, or nothing
/// at the end:
///
///     Stream lines{[] {
///       return [file = std::ifstream("log.txt"), line = std::string()]() mutable {
///         return std::getline(file, line) ? std::optional(parsed(line)) : std::nullopt; };
///     }};
///
/// The function is called for a batch when the step on the one before is over: it may act with the model that is being
/// trained, and may hand out the same memory each time. Therefore a stream does not promise that batches stay valid,
/// and its end is found out after the last step; `ctx.is_last_batch()` does not tell before. To resume, it reads the
/// consumed batches again and drops them.
template <class Open>
class Stream : public Batches<Stream<Open>, typename std::invoke_result_t<Opened<Open>&>::value_type> {
 public:
  using Base = Batches<Stream, typename std::invoke_result_t<Opened<Open>&>::value_type>;
  using typename Base::Batch;

  explicit Stream(Open open) : open_(std::move(open)) {}

  /// Of a stream that cuts its batches itself, as `stream_in_batches` does.
  long batch_size() const
    requires requires(Open const& open) { open.batch_size(); }
  {
    return open_.batch_size();
  }
  void set_batch_size(long size)
    requires requires(Open& open) { open.set_batch_size(size); }
  {
    if (size == open_.batch_size()) return;
    this->lay_out_anew();
    open_.set_batch_size(size);
  }

 private:
  friend Base;

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

/// An unsized loader over the range of batches that `open(epoch)` or `open()` returns anew for each epoch:
/// `stream_of([] { return std::views::iota(0, 100) | std::views::transform(batch_number); })`.
template <class Open>
  requires std::ranges::input_range<Opened<Open>>
auto stream_of(Open open) {
  return Stream{[open = std::move(open)](long epoch) mutable {
    using Range = Opened<Open>;
    // The range lies on the heap, since an iterator may point into it and it must not move any more.
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

/// Cuts a stream of samples into batches; what `stream_in_batches` gives to its Stream.
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
    return [this, size, at = samples_.begin()]() mutable {
      Group group;
      group.reserve(size);
      for (; group.size() < size && at != std::default_sentinel; ++at) group.push_back(std::move(*at));
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

/// A loader of unknown length over a range of samples: `batch_size` of them become a batch by
/// `collate(std::vector<Sample>)`.
template <class Open, class Collate = ByDefault>
  requires std::ranges::input_range<Opened<Open>>
auto stream_in_batches(Open open, StreamOptions options, Collate collate = {}) {
  auto samples = stream_of(std::move(open));
  auto by = collating::chosen<typename decltype(samples)::Batch>(std::move(collate));
  return Stream{InBatches(std::move(samples), options, std::move(by))};
}

}  // namespace fulgurite::data
