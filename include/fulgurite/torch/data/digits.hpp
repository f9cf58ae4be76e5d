#pragma once
// Digits drawn by the program itself, for when there are no files: the same kind of module as data::mnist.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/data/strokes.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

/// How many digits data::digits draws, and how they are batched.
struct DigitsOptions {
  long train = 8000, validation = 2000, test = 0;  ///< how many images of each
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the drawing and the shuffle
  bool drop_last = false;  ///< for training
  int workers = 0;         ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// `data::digits({.train = 8000, .validation = 2000})`: batches as MNIST's, drawn from `seed`; 10,000 images take a
/// third of a second. Easier than MNIST: these ten digits have two or three ways of being written each, and a machine's
/// steady hand.
template <BatchTransform Transform = Untouched>
TensorModule<Transform> digits(DigitsOptions options = {}, Transform transform = {}) {
  at_least(1, "fulgurite.data.digits", ".train", options.train);
  at_least(0, "fulgurite.data.digits", ".validation", options.validation);
  at_least(0, "fulgurite.data.digits", ".test", options.test);
  auto const train = static_cast<std::size_t>(options.train), validation = static_cast<std::size_t>(options.validation);
  Split parts{std::vector<std::size_t>(train), std::vector<std::size_t>(validation)};
  std::iota(parts.train.begin(), parts.train.end(), std::size_t{0});
  std::iota(parts.validation.begin(), parts.validation.end(), train);
  TensorSet const set = as_tensors(draw_digits(train + validation, options.seed));
  constexpr std::uint64_t another_hand = 0x7465737400000000;
  auto const test =
      options.test > 0
          ? std::optional(as_tensors(draw_digits(static_cast<std::size_t>(options.test), options.seed ^ another_hand)))
          : std::nullopt;
  return TensorModule<Transform>(set, std::move(parts), loader_options(options), test, std::move(transform));
}

}  // namespace fulgurite::data
