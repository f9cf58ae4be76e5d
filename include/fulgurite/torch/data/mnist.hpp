#pragma once
// MNIST (and sets in its format) from a folder: data::mnist("data/mnist", {.batch_size = 128}).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

/// How data::mnist splits, scales and batches the images.
struct MnistOptions {
  bool normalise = false;  ///< shift and scale by the training set's mean and deviation (mnist_scale); else [0, 1]
  Share validation = 0.2;  ///< a fraction or a count of the images
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the shuffle and the split
  bool drop_last = false;  ///< for training
  int workers = 0;         ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// The mean of MNIST's training pictures, and their deviation.
inline constexpr Standardization mnist_scale{0.1307, 0.3081};

/// For an Error.
std::string scale_text(std::optional<Standardization> const& scale);

/// A TensorModule of pictures that may be shifted and scaled, which checkpoints keep where they are.
template <BatchTransform Transform = Untouched>
class MnistModule : public TensorModule<Transform> {
 public:
  MnistModule(TensorModule<Transform> module, std::optional<Standardization> scale)
      : TensorModule<Transform>(std::move(module)), scale_(scale) {}

  /// Error [fulgurite.data.scale_changed] where a checkpoint is of pictures that were scaled otherwise.
  void state(auto& archive);

 private:
  std::optional<Standardization> scale_;
};

template <BatchTransform Transform>
void MnistModule<Transform>::state(auto& archive) {
  constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
  std::optional<Standardization> kept = scale_;
  if constexpr (loading) kept = lacks(archive, "mean") ? std::nullopt : std::optional(Standardization{});
  if (kept) kept->state(archive);
  if (kept == scale_) return;
  throw Error("fulgurite.data.scale_changed",
              "the checkpoint was trained on pictures " + scale_text(kept) + ", and these are " + scale_text(scale_) +
                  ": say .normalise = " + (kept ? "true" : "false") + ", as in training");
}

/// Reads train-* into training and validation, and t10k-* as the test set. If the folder has only one of the two, it is
/// split into training and validation. Throws fulgurite.data.mnist_missing if there is neither, and what `read_mnist`
/// and `Share` throw.
template <BatchTransform Transform = Untouched>
MnistModule<Transform> mnist(std::filesystem::path const& folder, MnistOptions options = {}, Transform transform = {}) {
  auto const train = mnist_files(folder, "train"), test = mnist_files(folder, "t10k");
  if (!train && !test)
    throw Error("fulgurite.data.mnist_missing",
                folder.string() +
                    (std::filesystem::is_directory(folder)
                         ? ": the folder has neither train-images-idx3-ubyte nor t10k-images-idx3-ubyte (or .gz)"
                         : ": there is no such folder") +
                    ": put MNIST's files there, or train on data::digits(), which needs no file");
  auto const read = [&](MnistFiles const& files) {
    TensorSet set = as_tensors(read_mnist(files));
    if (options.normalise) set.data.sub_(mnist_scale.mean).div_(mnist_scale.deviation);
    return set;
  };
  TensorSet const set = read(train ? *train : *test);
  return {TensorModule<Transform>(set, split(set.size(), options.validation, options.seed), loader_options(options),
                                  train && test ? std::optional(read(*test)) : std::nullopt, std::move(transform)),
          options.normalise ? std::optional(mnist_scale) : std::nullopt};
}

// Digits drawn by the program itself, for when there are no files: the same kind of module as data::mnist.

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

// 1,797 real handwritten digits of 8 x 8 pixels from a file of 57 KB: data::digits8x8("data/digits").

/// How data::digits8x8 splits and batches its 1797 images.
struct Digits8x8Options {
  Share validation = 0.2;  ///< a fraction or a count of the images
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the shuffle and the split
  bool drop_last = false;  ///< for training
  int workers = 0;         ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// Reads digits.csv.gz (or digits.csv) from a folder: images N x 1 x 8 x 8 in [0, 1], split into training and
/// validation. Throws fulgurite.data.digits_missing if the folder has none, and what `read_digits_csv` and `Share`
/// throw.
template <BatchTransform Transform = Untouched>
TensorModule<Transform> digits8x8(std::filesystem::path const& folder, Digits8x8Options options = {},
                                  Transform transform = {}) {
  auto const file = find_digits_csv(folder);
  if (!file)
    throw Error("fulgurite.data.digits_missing",
                folder.string() +
                    ": there is no digits.csv.gz in such a folder: take the one that scikit-learn's wheel "
                    "has in sklearn/datasets/data");
  TensorSet const set = as_tensors(read_digits_csv(*file));
  return TensorModule<Transform>(set, split(set.size(), options.validation, options.seed), loader_options(options), {},
                                 std::move(transform));
}

FULGURITE_EXTERN(class MnistModule<>);
FULGURITE_EXTERN(void MnistModule<>::state(::fulgurite::StateSaver&));
FULGURITE_EXTERN(void MnistModule<>::state(::fulgurite::StateLoader&));
FULGURITE_EXTERN(MnistModule<> mnist(std::filesystem::path const&, MnistOptions, Untouched));
FULGURITE_EXTERN(TensorModule<> digits(DigitsOptions, Untouched));
FULGURITE_EXTERN(TensorModule<> digits8x8(std::filesystem::path const&, Digits8x8Options, Untouched));

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/mnist.ipp>
#endif
