#pragma once
// The bodies of torch/data/mnist.hpp.

#include <cstddef>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/data/mnist.hpp>

namespace fulgurite::data {

FULGURITE_BODY SplitSets mnist_sets(std::filesystem::path const& folder, MnistOptions const& options) {
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
  SplitSets sets{set, split(set.size(), options.validation, options.seed)};
  if (train && test) sets.test = read(*test);
  return sets;
}

FULGURITE_BODY SplitSets digit_sets(DigitsOptions const& options) {
  at_least(1, "fulgurite.data.digits", ".train", options.train);
  at_least(0, "fulgurite.data.digits", ".validation", options.validation);
  at_least(0, "fulgurite.data.digits", ".test", options.test);
  auto const train = static_cast<std::size_t>(options.train), validation = static_cast<std::size_t>(options.validation);
  Split parts{positions_in(0, train), positions_in(train, train + validation)};
  TensorSet const set = as_tensors(draw_digits(train + validation, options.seed));
  constexpr std::uint64_t another_hand = 0x7465737400000000;
  auto const test =
      options.test > 0
          ? std::optional(as_tensors(draw_digits(static_cast<std::size_t>(options.test), options.seed ^ another_hand)))
          : std::nullopt;
  return {set, std::move(parts), test};
}

FULGURITE_BODY SplitSets digit_sets(std::filesystem::path const& folder, Digits8x8Options const& options) {
  auto const file = find_digits_csv(folder);
  if (!file)
    throw Error("fulgurite.data.digits_missing",
                folder.string() +
                    ": there is no digits.csv.gz in such a folder: take the one that scikit-learn's wheel "
                    "has in sklearn/datasets/data");
  TensorSet const set = as_tensors(read_digits_csv(*file));
  return {set, split(set.size(), options.validation, options.seed)};
}

FULGURITE_BODY void require_same_scale(std::optional<Standardization> const& kept,
                                       std::optional<Standardization> const& now) {
  if (kept == now) return;
  auto const said = [](std::optional<Standardization> const& scale) {
    return scale ? "normalised by mean " + std::to_string(scale->mean) + " and deviation " +
                       std::to_string(scale->deviation)
                 : std::string("as they are, from 0 to 1");
  };
  throw Error("fulgurite.data.scale_changed",
              "the checkpoint was trained on pictures " + said(kept) + ", and these are " + said(now) +
                  ": say .normalise = " + (kept ? "true" : "false") + ", as in training");
}

FULGURITE_INSTANTIATE(class MnistModule<>);
FULGURITE_INSTANTIATE(void MnistModule<>::state(::fulgurite::StateSaver&));
FULGURITE_INSTANTIATE(void MnistModule<>::state(::fulgurite::StateLoader&));

}  // namespace fulgurite::data
