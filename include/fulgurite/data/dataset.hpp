#pragma once
// What a dataset is to a loader, and how a batch is made of its samples.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/batch_random.hpp>
#include <fulgurite/data/worker_options.hpp>

namespace fulgurite::data {

/// Reads sample `i` by `get(i)`, else by `[i]`. Both are called on a const dataset, since workers read several samples
/// at once.
template <class D>
decltype(auto) sample_at(D const& dataset, std::size_t i) {
  if constexpr (requires { dataset.get(i); }) return dataset.get(i);
  else return dataset[i];
}

/// A dataset has `size()` and a const `get(i)` or `operator[](i)`: a `std::vector` of samples, or a struct of yours.
template <class D>
concept Dataset = requires(std::remove_reference_t<D> const& dataset, std::size_t i) {
  { dataset.size() } -> std::convertible_to<std::size_t>;
} && (requires(std::remove_reference_t<D> const& dataset, std::size_t i) { dataset.get(i); } ||
      requires(std::remove_reference_t<D> const& dataset, std::size_t i) { dataset[i]; });

/// The type of a dataset's samples.
template <Dataset D>
using Sample = std::remove_cvref_t<decltype(sample_at(std::declval<std::remove_reference_t<D> const&>(), 0))>;

/// A function that makes batches and draws random numbers while it does, as augmentation does: `collate(samples,
/// random)`, where `random` is a BatchRandom, or a Random.
template <class Collate, class D>
concept CollatesAtRandom = Dataset<D> && std::invocable<Collate const&, std::vector<Sample<D>>, BatchRandom&>;

namespace collating {
/// The function makes batches of these samples; Loader refuses one that does not.
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

/// The type of the batch that a function makes of a dataset's samples.
template <class Collate, Dataset D>
using Collated = std::remove_cvref_t<typename collating::Result<Collate, D>::type>;

/// How a loader holds its dataset: `std::cref(dataset)` is borrowed, anything else is kept.
template <class D>
struct Held {
  using type = D;
};
template <class D>
struct Held<std::reference_wrapper<D>> {
  using type = D const&;
};

/// Makes a batch by putting its samples into a vector.
struct AsVector {
  template <class Sample>
  std::vector<Sample> operator()(std::vector<Sample> samples) const {
    return samples;
  }
};

/// What makes the batches of a loader that is given no function. Here it is AsVector, which makes a vector of samples.
/// torch/data/stack.hpp, which fulgurite.hpp includes, specializes it: samples that hold tensors are stacked by Stack.
/// So the batches of such samples depend on an include: a loader that is made where only the headers of data/ are
/// included yields vectors of them. Include stack.hpp before such a loader, in every source file of a program, or give
/// the loader its function, Stack{} or AsVector{}: then no include counts.
template <class Sample>
struct CollateOf {
  using type = AsVector;
};
/// Stands for it until the samples are known.
struct ByDefault {};

namespace collating {
/// The function that was given, else that of the samples.
template <class Sample, class Collate>
auto chosen(Collate collate) {
  if constexpr (std::same_as<Collate, ByDefault>) return typename CollateOf<Sample>::type{};
  else return collate;
}
}  // namespace collating

/// A function that makes batches and can put them into page-locked memory: `can_pin()` throws where there is no GPU,
/// `pin(batch)` does it.
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

  /// Makes batch k; nothing where it is no longer wanted before it is complete.
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
          if constexpr (!collating::Makes<Collate, D>) {  // refused
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
  /// Runs an action; what it throws is nested in the Error that is thrown instead.
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

}  // namespace fulgurite::data
