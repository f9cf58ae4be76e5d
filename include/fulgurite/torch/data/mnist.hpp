#pragma once
// MNIST (and sets in its format) from a folder: data::mnist("data/mnist", {.batch_size = 128}).

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

/// How data::mnist splits, scales and batches the images.
struct MnistOptions {
  long batch_size = 64;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the shuffle and the split
  Share validation = 0.2;  ///< a fraction or a count of the images
  bool normalise = false;  ///< shift and scale by the training set's mean and deviation (0.1307, 0.3081); else [0, 1]
  bool drop_last = false;  ///< for training
  bool pin_memory = false;
  int workers = 0;  ///< these as in TensorLoaderOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
};

/// Reads train-* into training and validation, and t10k-* as the test set. If the folder has only one of the two, it is
/// split into training and validation. Throws fulgurite.data.mnist_missing if there is neither, and what `read_mnist`
/// and `Share` throw.
template <BatchTransform Transform = Untouched>
TensorModule<Transform> mnist(std::filesystem::path const& folder, MnistOptions options = {},
                              Transform transform = {}) {
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
    if (options.normalise) set.data.sub_(0.1307).div_(0.3081);
    return set;
  };
  TensorSet const set = read(train ? *train : *test);
  return TensorModule<Transform>(set, split(set.size(), options.validation, options.seed), loader_options(options),
                                 train && test ? std::optional(read(*test)) : std::nullopt, std::move(transform));
}

}  // namespace fulgurite::data
