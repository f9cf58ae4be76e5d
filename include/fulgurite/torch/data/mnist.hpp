#pragma once
// MNIST (and sets in its format) from a folder: data::mnist("data/mnist", {.batch_size = 128}).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
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

/// The sets of `mnist`.
SplitSets mnist_sets(std::filesystem::path const& folder, MnistOptions const& options);

/// Pictures of a checkpoint, and those at hand.
void require_same_scale(std::optional<Standardization> const& kept, std::optional<Standardization> const& now);

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
  require_same_scale(kept, scale_);
}

/// Reads train-* into training and validation, and t10k-* as the test set. If the folder has only one of the two, it is
/// split into training and validation. Throws fulgurite.data.mnist_missing if there is neither, and what `read_mnist`
/// and `Share` throw.
template <BatchTransform Transform = Untouched>
MnistModule<Transform> mnist(std::filesystem::path const& folder, MnistOptions options = {}, Transform transform = {}) {
  return {TensorModule<Transform>(mnist_sets(folder, options), loader_options(options), std::move(transform)),
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

/// The sets of `digits`.
SplitSets digit_sets(DigitsOptions const& options);

/// `data::digits({.train = 8000, .validation = 2000})`: batches as MNIST's, drawn from `seed`; 10,000 images take a
/// third of a second. Easier than MNIST: these ten digits have two or three ways of being written each, and a machine's
/// steady hand.
template <BatchTransform Transform = Untouched>
TensorModule<Transform> digits(DigitsOptions options = {}, Transform transform = {}) {
  return TensorModule<Transform>(digit_sets(options), loader_options(options), std::move(transform));
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

/// The sets of `digits8x8`.
SplitSets digit_sets(std::filesystem::path const& folder, Digits8x8Options const& options);

/// Reads digits.csv.gz (or digits.csv) from a folder: images N x 1 x 8 x 8 in [0, 1], split into training and
/// validation. Throws fulgurite.data.digits_missing if the folder has none, and what `read_digits_csv` and `Share`
/// throw.
template <BatchTransform Transform = Untouched>
TensorModule<Transform> digits8x8(std::filesystem::path const& folder, Digits8x8Options options = {},
                                  Transform transform = {}) {
  return TensorModule<Transform>(digit_sets(folder, options), loader_options(options), std::move(transform));
}

FULGURITE_EXTERN(class MnistModule<>);
FULGURITE_EXTERN(void MnistModule<>::state(::fulgurite::StateSaver&));
FULGURITE_EXTERN(void MnistModule<>::state(::fulgurite::StateLoader&));

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/mnist.ipp>
#endif
