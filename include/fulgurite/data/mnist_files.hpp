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

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/idx.hpp>

namespace fulgurite::data {

/// Images and what they show. The pixels are grey values from 0 (black) to `white`, image after image, row by row.
struct LabelledImages {
  std::size_t rows = 28, columns = 28;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  std::uint8_t white = 255;

  std::size_t size() const { return labels.size(); }
};

/// The two files of one part: images, and the digit that each shows.
struct MnistFiles {
  std::filesystem::path images, labels;
};

/// Finds the files of one part, "train" or "t10k", in a folder, under the usual names: with - or . before idx, with or
/// without .gz. Nothing where neither file is there. Error [fulgurite.data.mnist_missing] where only one of them is.
FULGURITE_COLD std::optional<MnistFiles> mnist_files(std::filesystem::path const& folder, std::string const& part) {
  auto const find = [&](std::string const& kind, std::string const& format) {
    for (char const* separator : {"-", "."})
      for (char const* ending : {"", ".gz"})
        if (auto path = folder / (part + "-" + kind + separator + format + "-ubyte" + ending);
            std::filesystem::is_regular_file(path))
          return path;
    return std::filesystem::path{};
  };
  MnistFiles files{find("images", "idx3"), find("labels", "idx1")};
  if (files.images.empty() && files.labels.empty()) return std::nullopt;
  if (files.images.empty() || files.labels.empty())
    throw Error("fulgurite.data.mnist_missing",
                folder.string() + ": there is " +
                    (files.images.empty() ? files.labels : files.images).filename().string() + ", but not " + part +
                    (files.images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte") +
                    " (or .gz): put both into the folder");
  return files;
}

/// Reads images and labels. Errors: those of `read_idx`; fulgurite.data.mnist_shape where there are no images or they
/// are not of 28 x 28; fulgurite.data.mnist_labels unless there is one label from 0 to 9 for each image.
FULGURITE_COLD LabelledImages read_mnist(MnistFiles const& files) {
  Idx images = read_idx(files.images, 3), labels = read_idx(files.labels, 1);
  if (images.shape[1] != 28 || images.shape[2] != 28 || images.shape[0] == 0)
    throw Error("fulgurite.data.mnist_shape",
                files.images.string() + ": the header (bytes 4 to 15) says " + std::to_string(images.shape[0]) +
                    " images of " + std::to_string(images.shape[1]) + " x " + std::to_string(images.shape[2]) +
                    ", expected are some of 28 x 28: this is another data set; read it with read_idx");
  if (labels.shape[0] != images.shape[0])
    throw Error("fulgurite.data.mnist_labels",
                files.labels.string() + ": the header (bytes 4 to 7) says " + std::to_string(labels.shape[0]) +
                    " labels, but " + files.images.filename().string() + " has " + std::to_string(images.shape[0]) +
                    " images: the two belong to different sets");
  if (auto const bad = std::ranges::find_if(labels.values, [](std::uint8_t label) { return label > 9; });
      bad != labels.values.end())
    throw Error("fulgurite.data.mnist_labels", files.labels.string() + ": at byte " +
                                                   std::to_string(8 + (bad - labels.values.begin())) +
                                                   " the label is " + std::to_string(*bad) +
                                                   ", expected are 0 to 9: this is another data set, or damaged");
  return {28, 28, std::move(images.values), std::move(labels.values), 255};
}

/// The first folder that has images with labels, of either part. Whether the files are sound is seen when they are
/// read: a damaged set is then an Error, and no reason to silently take another one.
FULGURITE_COLD std::optional<std::filesystem::path> find_mnist(std::span<std::filesystem::path const> folders) {
  auto const holds = [](std::filesystem::path const& folder) {
    return mnist_files(folder, "train") || mnist_files(folder, "t10k");
  };
  auto const found = std::ranges::find_if(folders, holds);
  return found == folders.end() ? std::nullopt : std::optional(*found);
}

}  // namespace fulgurite::data
