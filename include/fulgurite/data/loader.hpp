#pragma once
// The general loader: it takes any dataset with a size and an index, a sampler, a function that makes a batch from
// samples, and worker threads.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/team.hpp>

namespace fulgurite::data {

/// Reads sample `i` by `get(i)`, otherwise by `[i]`. Both are called on a const dataset, since workers read several
/// samples at once.
decltype(auto) sample_at(auto const& dataset, std::size_t i) {
  if constexpr (requires { dataset.get(i); }) return dataset.get(i);
  else return dataset[i];
}

/// A dataset has `size()` and a const `get(i)` or `operator[](i)`: a `std::vector` of samples, or a struct of yours:
///
///     struct Squares {
///       std::size_t size() const { return 100; }
///       std::pair<float, float> get(std::size_t i) const { return {float(i), float(i * i)}; }
///     };
template <class D>
concept Dataset = requires(std::remove_reference_t<D> const& dataset, std::size_t i) {
  { dataset.size() } -> std::convertible_to<std::size_t>;
} && (requires(std::remove_reference_t<D> const& dataset, std::size_t i) { dataset.get(i); } ||
      requires(std::remove_reference_t<D> const& dataset, std::size_t i) { dataset[i]; });

/// The type of a dataset's samples.
template <Dataset D>
using Sample = std::remove_cvref_t<decltype(sample_at(std::declval<std::remove_reference_t<D> const&>(), 0))>;

/// A function that makes batches and draws random numbers, for augmentation: `collate(samples, random)`, where `random`
/// is a BatchRandom, or a Random.
template <class Collate, class D>
concept CollatesAtRandom = Dataset<D> && std::invocable<Collate const&, std::vector<Sample<D>>, BatchRandom&>;

namespace collating {
/// True if the function makes batches from these samples; otherwise Loader does not compile.
template <class Collate, class D>
concept Makes = CollatesAtRandom<Collate, D> || std::invocable<Collate const&, std::vector<Sample<D>>>;

template <class Collate, class D>
struct Result : std::type_identity<std::vector<Sample<D>>> {};
template <class Collate, class D>
  requires Makes<Collate, D>
struct Result<Collate, D> : std::invoke_result<Collate const&, std::vector<Sample<D>>> {};
template <class Collate, class D>
  requires(Makes<Collate, D> && CollatesAtRandom<Collate, D>)
struct Result<Collate, D> : std::invoke_result<Collate const&, std::vector<Sample<D>>, BatchRandom&> {};
}  // namespace collating

/// The type of the batch that a function makes from a dataset's samples.
template <class Collate, Dataset D>
using Collated = std::remove_cvref_t<typename collating::Result<Collate, D>::type>;

/// How a loader stores its dataset: `std::cref(dataset)` is borrowed, anything else is owned.
template <class D>
struct Held {
  using type = D;
};
template <class D>
struct Held<std::reference_wrapper<D>> {
  using type = D const&;
};

/// Makes a batch by putting the samples into a vector.
struct AsVector {
  template <class Sample>
  std::vector<Sample> operator()(std::vector<Sample> samples) const {
    return samples;
  }
};

/// The function that makes batches if a loader is given none. The default is AsVector. torch/data/stack.hpp, which
/// fulgurite.hpp includes, specializes this template: samples that hold tensors are stacked by Stack. The batches of
/// such samples therefore depend on an include: a loader made where only the headers of data/ are included yields
/// vectors. Include stack.hpp before such a loader in every source file of a program, or pass Stack{} or AsVector{} to
/// the loader, which makes it independent of includes.
template <class Sample>
struct CollateOf {
  using type = AsVector;
};
/// A placeholder for CollateOf until the type of the samples is known.
struct ByDefault {};

namespace collating {
/// The given function, or the default for the samples.
template <class Sample, class Collate>
auto chosen(Collate collate) {
  if constexpr (std::same_as<Collate, ByDefault>) return typename CollateOf<Sample>::type{};
  else return collate;
}
}  // namespace collating

/// A function that makes batches and can put them into page-locked memory: `can_pin()` throws if there is no GPU,
/// `pin(batch)` pins.
template <class Collate, class Batch>
concept PinsBatches = requires(Collate const& collate, Batch& batch) {
  collate.can_pin();
  collate.pin(batch);
};

/// One epoch of a dataset in a given order; `make(k, at)` may be called from several threads at once.
template <Dataset D, class Collate>
struct Epoch {
  D dataset;
  Collate collate;
  std::vector<std::size_t> order = {};
  long number = 0;
  std::size_t batch_size = 1;
  bool pins = false;
  std::uint64_t seed = 0;
  RankShare share = {};

  /// Makes batch k; returns nothing if a stop is requested before it is complete.
  std::optional<Collated<Collate, D>> make(std::size_t k, AtWork const& at) const {
    std::size_t const begin = k * batch_size, end = std::min(order.size(), begin + batch_size);
    std::vector<Sample<D>> samples;
    samples.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (at.stop.stop_requested()) return std::nullopt;
      at.reads(order[i]);
      guarded([&] { samples.push_back(sample_at(dataset, order[i])); },
              [&](std::string const& why) { return sample_error(k, order[i], why); });
    }
    std::optional<Collated<Collate, D>> batch;
    at.reads(AtWork::no_sample);
    guarded(
        [&] {
          if constexpr (!collating::Makes<Collate, D>) {  // Loader's static_assert reports this
          } else if constexpr (CollatesAtRandom<Collate, D>) {
            BatchRandom random{seed, number, k, static_cast<long>(batch_size), share};
            batch.emplace(collate(std::move(samples), random));
          } else {
            batch.emplace(collate(std::move(samples)));
          }
          if constexpr (PinsBatches<Collate, Collated<Collate, D>>)
            if (pins) collate.pin(*batch);
        },
        [&](std::string const& why) { return collate_error(k, why); });
    return batch;
  }

 private:
  /// Runs an action. An exception from it is nested in the Error that is thrown instead.
  static void guarded(auto&& action, auto&& error) {
    try {
      action();
    } catch (std::exception const& original) { std::throw_with_nested(error(original.what())); } catch (...) {
      std::throw_with_nested(error("something that is not a std::exception was thrown"));
    }
  }

  Error sample_error(std::size_t k, std::size_t index, std::string const& why) const {
    return Error("fulgurite.data.sample", "sample " + std::to_string(index) + " (in " + place(k) +
                                              ") could not be read: " + why +
                                              ": mend the dataset, or leave the sample out with a Subset");
  }
  Error collate_error(std::size_t k, std::string const& why) const {
    return Error("fulgurite.data.collate",
                 place(k) + " could not be made of its samples: " + why + ": they may differ in shape or type");
  }
  std::string place(std::size_t k) const {
    return "batch " + std::to_string(k) + " of epoch " + std::to_string(number);
  }
};

/// How batches are made by a loader that is given a sampler. The sampler decides the order.
struct BatchOptions {
  long batch_size = 1;     ///< samples in a batch
  std::uint64_t seed = 0;  ///< seed of the `BatchRandom` that a collate function may take
  bool drop_last = false;  ///< drop a last batch with fewer samples
  int workers = 0;         ///< threads that read samples ahead; 0: read them in the loop itself
  int prefetch = 2;        ///< how many batches each worker may be ahead
  std::function<void()> on_worker_start =
      {};  ///< runs in each worker before its first sample; with LibTorch: `data::one_thread_each()`
  bool persistent_workers = true;  ///< workers live across epochs; false: they end with each epoch
  Timeout timeout = {};            ///< longest wait of the loop for one batch, and of the destructor for a sample
                                   ///< that is being read, as 30s; 0: no limit
  bool pin_memory = false;         ///< put batches into page-locked memory; needs a GPU and `Stack` or `Pinnable`
  // Refused, and last, so that a compiler prints their sentence first.
  [[no_unique_address]] elsewhere::LoaderOption<0> num_workers = {};      ///< workers
  [[no_unique_address]] elsewhere::LoaderOption<1> prefetch_factor = {};  ///< prefetch
  [[no_unique_address]] elsewhere::LoaderOption<2> shuffle = {};          ///< the sampler decides the order
  [[no_unique_address]] elsewhere::LoaderOption<3> collate_fn = {};       ///< an argument behind the options
};

/// Options with the values that others have under the same names, except for the order of the samples.
template <class Options>
Options batching_of(auto const& from) {
  Options to;
  to.batch_size = from.batch_size;
  to.seed = from.seed;
  to.drop_last = from.drop_last;
  to.workers = from.workers;
  to.prefetch = from.prefetch;
  if constexpr (requires { to.on_worker_start = from.on_worker_start; }) to.on_worker_start = from.on_worker_start;
  to.persistent_workers = from.persistent_workers;
  to.timeout = from.timeout;
  to.pin_memory = from.pin_memory;
  return to;
}

/// How batches are made and in which order, by a loader that makes its own sampler.
struct LoaderOptions {
  long batch_size = 1;
  bool shuffle = false;    ///< a new order of the samples in each epoch; false: the dataset's own order
  std::uint64_t seed = 0;  ///< decides the order, together with the number of the epoch
  bool drop_last = false;
  int workers = 0;
  int prefetch = 2;
  std::function<void()> on_worker_start = {};
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
  // Refused, and last, so that a compiler prints their sentence first.
  [[no_unique_address]] elsewhere::LoaderOption<0> num_workers = {};      ///< workers
  [[no_unique_address]] elsewhere::LoaderOption<1> prefetch_factor = {};  ///< prefetch
  [[no_unique_address]] elsewhere::LoaderOption<2> sampler = {};          ///< an argument before the options
  [[no_unique_address]] elsewhere::LoaderOption<3> collate_fn = {};       ///< an argument behind the options
};

/// A sized range of batches: `Loader loader{dataset, {.batch_size = 32, .shuffle = true, .workers = 2}};`, or with a
/// sampler `Loader loader{dataset, Stride{...}, {.batch_size = 32}, collate};`.
///
/// Samples are read by `dataset[i]` or `dataset.get(i)` from several threads at once, so these must be const and free
/// of data races. A dataset given by value is owned, one given by `std::cref` is borrowed.
/// `collate(std::vector<Sample>)`, or `collate(std::vector<Sample>, BatchRandom&)` for augmentation, makes the batch;
/// the default is `Stack` for samples that hold tensors, and a vector for others. Workers live across epochs, and
/// `.on_worker_start` runs once in each. With workers, batches arrive in the same order as without.
///
/// An exception of the dataset arrives in the loop as fulgurite.data.sample with the index of the sample, one of
/// `collate` as fulgurite.data.collate, both with the original nested; the epoch is then over, and `begin()` starts
/// another. If a worker does not deliver its batch within `.timeout`, fulgurite.data.worker_hangs is thrown, and again
/// by each `begin()` until the worker returns. The destructor waits for each sample that is being read, for `.timeout`
/// at most: a thread that takes longer is detached together with the dataset. A borrowed dataset must live as long as
/// that thread.
template <Dataset D, Sampler S = OptionalShuffle, class Collate = typename CollateOf<Sample<D>>::type>
class Loader : public SampledBatches<Loader<D, S, Collate>, Collated<Collate, D>, S> {
  using Base = SampledBatches<Loader, Collated<Collate, D>, S>;
  static constexpr bool makes_batches = collating::Makes<Collate, D>;
  static_assert(makes_batches,
                "[fulgurite.data.no_batch] the function that makes batches does not take a std::vector of these "
                "samples: Stack{} takes tensors, numbers, texts, pairs, tuples and structs of tensors; give "
                "AsVector{}, or a collate(std::vector<Sample>) of your own");

 public:
  using Batch = Collated<Collate, D>;
  static constexpr bool batches_stay_valid = true;  ///< workers read ahead anyway, so no sample can depend on a step

  /// Errors: fulgurite.data.batch_size, .workers, .prefetch or .timeout for a number out of range;
  /// fulgurite.data.pin_memory if there is no GPU, or `collate` cannot pin.
  Loader(D dataset, S sampler, BatchOptions options, Collate collate = {})
      : Base(std::move(sampler), options.batch_size, options.drop_last,
             CollatesAtRandom<Collate, D> ? options.seed : 0),
        plan_(new Plan{std::forward<D>(dataset), std::move(collate)}),
        reader_({.workers = options.workers,
                 .prefetch = options.prefetch,
                 .on_worker_start = std::move(options.on_worker_start),
                 .persistent_workers = options.persistent_workers,
                 .timeout = options.timeout}) {
    plan_->seed = options.seed;
    plan_->pins = options.pin_memory;
    if (plan_->pins) check_pinning();
  }
  Loader(Loader&&) = default;
  Loader& operator=(Loader&&) = default;
  ~Loader() = default;

  Loader(D dataset, LoaderOptions options = {}, Collate collate = {})
    requires std::same_as<S, OptionalShuffle>
      : Loader(static_cast<std::size_t>(dataset.size()), dataset, options, collate) {}

  /// Batches of one sample. A template, so that options in braces are never taken for a sampler.
  template <std::same_as<S> Given>
  Loader(D dataset, Given sampler) : Loader(std::forward<D>(dataset), std::move(sampler), BatchOptions{}) {}

  /// The waiting time of the last pass; see Waited.
  Waited waited() const { return reader_.waited(); }

  void state(auto& archive) {
    Base::state(archive);
    if constexpr (CollatesAtRandom<Collate, D>) archive.option("seed", static_cast<long>(plan_->seed));
  }

 private:
  friend Batches<Loader, Batch>;
  using Plan = Epoch<D, Collate>;

  /// `dataset` is moved from only after `count`, its size, was read.
  Loader(std::size_t count, D& dataset, LoaderOptions& o, Collate& collate)
      : Loader(std::forward<D>(dataset), OptionalShuffle{count, o.shuffle, o.seed}, batching_of<BatchOptions>(o),
               std::move(collate)) {}

  void check_pinning() const {
    if constexpr (PinsBatches<Collate, Batch>) plan_->collate.can_pin();
    else
      throw Error("fulgurite.data.pin_memory",
                  ".pin_memory is on, and the function that makes the batches cannot pin them: with LibTorch give "
                  "Stack{}, or Pinnable{your_function}");
  }

  void start(long epoch, long first) {
    reader_.leave();  // the workers of an unfinished epoch still read the plan
    plan_->number = epoch;
    plan_->batch_size = static_cast<std::size_t>(this->batch_size_);
    plan_->share = this->share();
    plan_->order.clear();
    this->each_sample(epoch, plan_->dataset.size(), [&](std::size_t index) { plan_->order.push_back(index); });
    reader_.begin(epoch, static_cast<std::size_t>(first), this->size(),
                  [plan = plan_](std::size_t k, AtWork const& at) { return plan->make(k, at); });
  }

  bool next(std::optional<Batch>& batch) {
    return reader_.next(batch, [this](std::size_t k) { return plan_->make(k, {}); });
  }

  std::shared_ptr<Plan> plan_;  // shared with the workers, which may still read it after a move assignment
  BatchReader<Batch> reader_;
};

/// The dataset of a Loader that was given something else, or other arguments than its own, which does not compile.
template <class D, bool is_dataset>
struct Refused {
  std::size_t size() const { return 0; }
  int get(std::size_t) const { return 0; }
};
template <class D, bool is_dataset, Sampler S, class Collate>
class Loader<Refused<D, is_dataset>, S, Collate> {
  static constexpr bool takes_arguments = !is_dataset;
  static_assert(is_dataset,
                "[fulgurite.data.no_dataset] a Loader takes a data set, which has size() and a const get(i) "
                "or operator[](i), such as a std::vector of samples: for tensors write TensorLoader{x, y, "
                "{.batch_size = 32}}");
  static_assert(takes_arguments,
                "[fulgurite.data.loader_arguments] a Loader takes the data set, a sampler or none, options by their "
                "names, and behind them a function that makes batches: Loader{dataset, {.batch_size = 32}, collate}");

 public:
  explicit Loader(D const&, LoaderOptions const& = {}) {}
  Loader(D const&, LoaderOptions const&, auto const&) {}
  Loader(D const&, auto const&, BatchOptions const& = {}) {}
  Loader(D const&, auto const&, BatchOptions const&, auto const&) {}
  Loader(D const&, auto const&, auto const&, BatchOptions const& = {}) {}
  std::size_t size() const { return 0; }
};

namespace guide {
/// The dataset that a Loader holds: `fits` if the arguments behind it are a Loader's.
template <class D, bool fits = true>
using Data = std::conditional_t<Dataset<typename Held<D>::type> && fits, typename Held<D>::type,
                                Refused<D, Dataset<typename Held<D>::type>>>;
template <class S>
using Order = std::conditional_t<Sampler<S>, S, OptionalShuffle>;
}  // namespace guide

template <class D>
Loader(D, LoaderOptions = {}) -> Loader<guide::Data<D>>;
template <class D, class Collate>
Loader(D, LoaderOptions, Collate) -> Loader<guide::Data<D>, OptionalShuffle, Collate>;
template <class D, class S>
  requires(!std::convertible_to<S, LoaderOptions>)
Loader(D, S, BatchOptions = {}) -> Loader<guide::Data<D, Sampler<S>>, guide::Order<S>>;
template <class D, class S, class Collate>
Loader(D, S, BatchOptions, Collate) -> Loader<guide::Data<D, Sampler<S>>, guide::Order<S>, Collate>;
template <class D, class S, class Other>
Loader(D, S, Other, BatchOptions = {}) -> Loader<guide::Data<D, false>>;

/// PyTorch's name for Loader.
template <Dataset D, Sampler S = OptionalShuffle, class Collate = typename CollateOf<Sample<D>>::type>
using DataLoader = Loader<D, S, Collate>;

}  // namespace fulgurite::data
