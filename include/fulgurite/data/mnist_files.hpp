#pragma once
// Finds and reads the four files of MNIST (or another set of its kind, such as Fashion-MNIST).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/idx.hpp>

namespace fulgurite::data {

/// Grey images, one after another, row by row, 0 (black) to 255 (white), and the digit that each shows.
struct LabelledImages {
  std::size_t rows = 28, columns = 28;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

struct MnistFiles {
  std::filesystem::path images, labels;
};

/// The files of one part ("train" or "t10k") in a folder: names with - or . before idx, with or without .gz. Nothing where neither is
/// there; throws fulgurite.data.mnist_missing where only one of the two is.
inline std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part) {
  auto const find = [&](std::string const& kind, std::string const& format) {
    for (char const* separator : {"-", "."})
      for (char const* ending : {"", ".gz"})
        if (auto path = folder / (part + "-" + kind + separator + format + "-ubyte" + ending); std::filesystem::is_regular_file(path)) return path;
    return std::filesystem::path{};
  };
  MnistFiles files{find("images", "idx3"), find("labels", "idx1")};
  if (files.images.empty() && files.labels.empty()) return std::nullopt;
  if (files.images.empty() || files.labels.empty())
    throw Error("fulgurite.data.mnist_missing", folder.string() + ": there is " + (files.images.empty() ? files.labels : files.images).filename().string() +
                                                    ", but not " + part + (files.images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte") +
                                                    " (or .gz): put both into the folder");
  return files;
}

/// Throws what `read_idx` does, fulgurite.data.mnist_shape unless the images are 28 x 28 and there are some, fulgurite.data.mnist_labels
/// unless there is a label from 0 to 9 for each image.
inline LabelledImages read_mnist(MnistFiles const& files) {
  Idx images = read_idx(files.images, 3), labels = read_idx(files.labels, 1);
  if (images.shape[1] != 28 || images.shape[2] != 28 || images.shape[0] == 0)
    throw Error("fulgurite.data.mnist_shape", files.images.string() + ": the header (bytes 4 to 15) says " + std::to_string(images.shape[0]) +
                                                  " images of " + std::to_string(images.shape[1]) + " x " + std::to_string(images.shape[2]) +
                                                  ", expected are some of 28 x 28: this is another data set; read it with read_idx");
  if (labels.shape[0] != images.shape[0])
    throw Error("fulgurite.data.mnist_labels", files.labels.string() + ": the header (bytes 4 to 7) says " + std::to_string(labels.shape[0]) +
                                                   " labels, but " + files.images.filename().string() + " has " + std::to_string(images.shape[0]) +
                                                   " images: the two belong to different sets");
  if (auto const bad = std::ranges::find_if(labels.values, [](std::uint8_t label) { return label > 9; }); bad != labels.values.end())
    throw Error("fulgurite.data.mnist_labels", files.labels.string() + ": at byte " + std::to_string(8 + (bad - labels.values.begin())) +
                                                   " the label is " + std::to_string(*bad) + ", expected are 0 to 9: this is another data set, or damaged");
  return {28, 28, std::move(images.values), std::move(labels.values)};
}

/// The first folder that holds images with labels, of either part. Whether the files are sound shows when they are read: a damaged
/// set is an error then, not a reason to take another one in silence.
inline std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders) {
  auto const holds = [](std::filesystem::path const& folder) { return mnist_files(folder, "train") || mnist_files(folder, "t10k"); };
  auto const found = std::ranges::find_if(folders, holds);
  return found == folders.end() ? std::nullopt : std::optional(*found);
}

}  // namespace fulgurite::data
