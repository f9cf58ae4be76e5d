#pragma once
// MNIST (and sets in its format) from a folder: data::mnist("data/mnist", {.batch_size = 128}).

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/data/standardization.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

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
FULGURITE_COLD std::string scale_text(std::optional<Standardization> const& scale) {
  return scale ? "normalised by mean " + std::to_string(scale->mean) + " and deviation " +
                     std::to_string(scale->deviation)
               : std::string("as they are, from 0 to 1");
}

/// A TensorModule of pictures that may be shifted and scaled, which checkpoints keep where they are.
template <BatchTransform Transform = Untouched>
class MnistModule : public TensorModule<Transform> {
 public:
  MnistModule(TensorModule<Transform> module, std::optional<Standardization> scale)
      : TensorModule<Transform>(std::move(module)), scale_(scale) {}

  /// Error [fulgurite.data.scale_changed] where a checkpoint is of pictures that were scaled otherwise.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    std::optional<Standardization> kept = scale_;
    if constexpr (loading) kept = lacks(archive, "mean") ? std::nullopt : std::optional(Standardization{});
    if (kept) kept->state(archive);
    if (kept == scale_) return;
    throw Error("fulgurite.data.scale_changed",
                "the checkpoint was trained on pictures " + scale_text(kept) + ", and these are " + scale_text(scale_) +
                    ": say .normalise = " + (kept ? "true" : "false") + ", as in training");
  }

 private:
  std::optional<Standardization> scale_;
};

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

}  // namespace fulgurite::data
