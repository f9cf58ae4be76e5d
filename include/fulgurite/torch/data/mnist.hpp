#pragma once
// MNIST, or a dataset in its format, from a folder: data::mnist("data/mnist", {.batch_size = 128}).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

/// How data::mnist splits, scales and batches the images.
struct MnistOptions {
  bool normalise = false;  ///< standardise by the training set's mnist_scale; false: scale to [0, 1]
  Share validation = 0.2;  ///< a fraction or a count of the images
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the shuffle and the split
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// The mean and standard deviation of MNIST's training pictures.
inline constexpr Standardization mnist_scale{0.1307, 0.3081};

/// The datasets of `mnist`.
SplitSets mnist_sets(std::filesystem::path const& folder, MnistOptions const& options);

/// Throws [fulgurite.data.scale_changed] if the pictures of a checkpoint were scaled differently from the current ones.
void require_same_scale(std::optional<Standardization> const& kept, std::optional<Standardization> const& now);

/// A TensorModule of pictures that may be standardised. Checkpoints record whether they are.
template <BatchTransform Transform = Untouched>
class MnistModule : public TensorModule<Transform> {
 public:
  MnistModule(TensorModule<Transform> module, std::optional<Standardization> scale)
      : TensorModule<Transform>(std::move(module)), scale_(scale) {}

  /// Throws [fulgurite.data.scale_changed] if the checkpoint's pictures were scaled differently.
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

/// MNIST's data module, `data::mnist("data/mnist", {.batch_size = 128})`: train-* is split into training and
/// validation, and t10k-* is the test set. If the folder has only one of the two, it is split into training and
/// validation. Throws fulgurite.data.mnist_missing if there is neither; other errors are those of `read_mnist` and
/// `Share`.
template <BatchTransform Transform = Untouched>
MnistModule<Transform> mnist(std::filesystem::path const& folder, MnistOptions options = {}, Transform transform = {}) {
  return {TensorModule<Transform>(mnist_sets(folder, options), loader_options(options), std::move(transform)),
          options.normalise ? std::optional(mnist_scale) : std::nullopt};
}

// Digits that the program draws itself, for use without files: the same kind of module as data::mnist.

/// How many digits data::digits draws, and how they are batched.
struct DigitsOptions {
  long train = 8000, validation = 2000, test = 0;  ///< the number of images of each
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the drawing and the shuffle
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// The datasets of `digits`.
SplitSets digit_sets(DigitsOptions const& options);

/// A data module of digits drawn from `seed`, with batches like MNIST's: `data::digits({.train = 8000, .validation =
/// 2000})`. 10,000 images take a third of a second. Easier than MNIST: each digit has only two or three shapes, drawn
/// with a machine's precision.
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
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// The datasets of `digits8x8`.
SplitSets digit_sets(std::filesystem::path const& folder, Digits8x8Options const& options);

/// A data module of the digits in digits.csv.gz (or digits.csv) in a folder, `data::digits8x8("data/digits")`: images N
/// x 1 x 8 x 8 in [0, 1], split into training and validation. Throws fulgurite.data.digits_missing if the folder has
/// neither file; other errors are those of `read_digits_csv` and `Share`.
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
