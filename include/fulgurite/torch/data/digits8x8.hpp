#pragma once
// 1,797 real handwritten digits of 8 x 8 pixels from a file of 57 KB: data::digits8x8("data/digits").

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/digits_csv.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/torch/data/tensor_module.hpp>

namespace fulgurite::data {

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

}  // namespace fulgurite::data
