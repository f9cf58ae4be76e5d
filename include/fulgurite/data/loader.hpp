#pragma once
// The general loader: it takes any dataset with a size and an index, a sampler, a function that makes a batch of
// samples, and worker threads.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/dataset.hpp>
#include <fulgurite/data/sampled_batches.hpp>
#include <fulgurite/data/team.hpp>

namespace fulgurite::data {

/// How batches are made, for a loader that is given a sampler, which decides the order.
struct BatchOptions {
  long batch_size = 1;
  bool drop_last = false;  ///< leave out a last batch with fewer samples
  int workers = 0;         ///< threads that read samples ahead; 0: read them in the loop itself
  int prefetch = 2;        ///< batches that each worker may be ahead
  std::function<void()> on_worker_start =
      {};  ///< runs in each worker before its first sample; with LibTorch: `data::one_thread_each()`
};

/// How batches are made and in which order, for a loader that makes its own sampler.
struct LoaderOptions {
  long batch_size = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;  ///< with the number of the epoch it decides the order
  bool drop_last = false;
  int workers = 0;
  int prefetch = 2;
  std::function<void()> on_worker_start = {};
};

/// A sized range of batches: `Loader loader{dataset, {.batch_size = 32, .shuffle = true, .workers = 2}};`, or with a
/// sampler `Loader loader{dataset, Stride{...}, {.batch_size = 32}, collate};`.
///
/// Samples are read by `dataset[i]` or `dataset.get(i)` from several threads at once, so these must be const and free
/// of data races. `collate(std::vector<Sample>)` makes the batch. A dataset given by value is kept, one given by
/// `std::cref` is borrowed. With workers, batches arrive in the same order as without. An exception of the dataset
/// arrives in the loop as fulgurite.data.sample with the index of the sample (the original nested in it), one of
/// `collate` as fulgurite.data.collate; the epoch is then over, and `begin()` starts another.
template <Dataset D, Sampler S = OptionalShuffle, class Collate = AsVector>
class Loader : public SampledBatches<Loader<D, S, Collate>, Collated<Collate, D>, S> {
  using Base = SampledBatches<Loader, Collated<Collate, D>, S>;

 public:
  using typename Base::Batch;
  static constexpr bool batches_stay_valid = true;  ///< workers read ahead anyway, so no sample can depend on a step

  /// Errors: fulgurite.data.batch_size, fulgurite.data.workers or fulgurite.data.prefetch, for a number that makes no
  /// sense.
  Loader(D dataset, S sampler, BatchOptions options, Collate collate = {})
      : Base(std::move(sampler), options.batch_size, options.drop_last),
        options_(std::move(options)),
        plan_(new Plan{std::forward<D>(dataset), std::move(collate)}) {
    at_least(0, "fulgurite.data.workers", ".workers", options_.workers);
    at_least(1, "fulgurite.data.prefetch", ".prefetch", options_.prefetch);
  }

  Loader(D dataset, LoaderOptions options, Collate collate = {})
    requires std::same_as<S, OptionalShuffle>
      : Loader(static_cast<std::size_t>(dataset.size()), dataset, options, collate) {}

 private:
  friend Batches<Loader, Batch>;
  using Base::batch_size_;
  using Plan = Epoch<D, Collate>;

  /// `dataset` is moved from only after `count`, its size, was asked for.
  Loader(std::size_t count, D& dataset, LoaderOptions& o, Collate& collate)
      : Loader(std::forward<D>(dataset), OptionalShuffle{count, o.shuffle, o.seed},
               BatchOptions{o.batch_size, o.drop_last, o.workers, o.prefetch, std::move(o.on_worker_start)},
               std::move(collate)) {}

  void start(long epoch, long first) {
    team_.reset();  // the workers of an epoch that was left early still read the plan
    plan_->number = epoch;
    plan_->batch_size = static_cast<std::size_t>(batch_size_);
    plan_->order.clear();
    this->each_sample(epoch, plan_->dataset.size(), [&](std::size_t index) { plan_->order.push_back(index); });
    next_ = std::min(static_cast<std::size_t>(first), this->size());
    int const workers = std::min(options_.workers, static_cast<int>(this->size() - next_));
    if (workers == 0) return;
    auto make = [plan = plan_](std::size_t k, std::stop_token const& stop) { return plan->make(k, stop); };
    auto const ahead = static_cast<std::size_t>(workers) * static_cast<std::size_t>(options_.prefetch);
    team_ = std::make_unique<Team<Batch>>(next_, this->size(), workers, ahead, options_.on_worker_start, make);
  }

  bool next(std::optional<Batch>& batch) {
    if (next_ == this->size()) return team_.reset(), false;
    try {
      batch = team_ ? team_->take() : plan_->make(next_, {});
    } catch (...) {
      team_.reset();
      next_ = this->size();
      throw;
    }
    ++next_;
    return true;
  }

  BatchOptions options_;
  std::shared_ptr<Plan> plan_;  // shared with the workers: they may still read it when another loader is moved in here
  std::unique_ptr<Team<Batch>> team_;
  std::size_t next_ = 0;
};

template <class D>
Loader(D, LoaderOptions) -> Loader<typename Held<D>::type>;
template <class D, class Collate>
Loader(D, LoaderOptions, Collate) -> Loader<typename Held<D>::type, OptionalShuffle, Collate>;
template <class D, Sampler S>
Loader(D, S, BatchOptions) -> Loader<typename Held<D>::type, S>;
template <class D, Sampler S, class Collate>
Loader(D, S, BatchOptions, Collate) -> Loader<typename Held<D>::type, S, Collate>;

/// Another name for Loader, PyTorch's.
template <Dataset D, Sampler S = OptionalShuffle, class Collate = AsVector>
using DataLoader = Loader<D, S, Collate>;

}  // namespace fulgurite::data
