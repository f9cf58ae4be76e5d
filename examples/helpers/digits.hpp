#pragma once
// Where the examples' handwritten digits come from: a folder, or, where that is asked for, the library's pen.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/torch/data/mnist.hpp>

#include "arguments.hpp"

namespace example {

struct Digits {
  fulgurite::data::TensorModule<> module;
  long side;             ///< of an image, in pixels
  std::string name;      ///< of the source
  std::string expected;  ///< the validation accuracy that examples/mnist.cpp reached on it by default, seeds 1 to 5
};

/// --data and --drawn. Without them digits are looked for in $FULGURITE_DATA, if it is set, else MNIST in data/mnist
/// and ../shared/data/mnist, then 8 x 8 digits in data/digits. `tools/dev run` fetches what is missing.
class DigitSource {
 public:
  explicit DigitSource(Arguments& arguments, bool small_ones = true)
      : folder_(arguments.value<std::string>("--data", "",
                                             "folder with MNIST's files, or digits.csv.gz; else "
                                             "$FULGURITE_DATA, data/mnist, ../shared/data/mnist, data/digits")),
        drawn_(arguments.flag("--drawn", "digits that the program draws, which are easier; no file is read")),
        small_ones_(small_ones) {}

  /// Says in one line what it found. A folder that was named must hold digits.
  Digits load(fulgurite::data::MnistOptions const& options) const {
    Digits found = drawn_ ? draw(options) : read(options);
    std::fprintf(stderr, "%s: %ld images to train on, %ld to validate\n", found.name.c_str(),
                 found.module.train_dataloader().layout().samples, found.module.val_dataloader().layout().samples);
    return found;
  }

 private:
  static Digits draw(fulgurite::data::MnistOptions const& options) {
    return {fulgurite::data::digits({.batch_size = options.batch_size,
                                     .shuffle = options.shuffle,
                                     .seed = options.seed,
                                     .drop_last = options.drop_last}),
            28, "digits drawn by the program", "100 %"};
  }

  Digits read(fulgurite::data::MnistOptions const& options) const {
    using namespace fulgurite::data;
    std::vector<std::filesystem::path> places{"data/mnist", "../shared/data/mnist", "data/digits"};
    if (char const* named = std::getenv("FULGURITE_DATA")) places = {named};
    if (!folder_.empty()) places = {folder_};
    if (auto const folder = find_mnist(places)) {
      bool const whole = mnist_files(*folder, "train").has_value();
      return {mnist(*folder, options), 28, "MNIST from " + folder->string(),
              whole ? "at least 97.7 %, as on a sixth of them" : "97.7 to 99 %"};
    }
    for (auto const& folder : places)
      if (small_ones_ && find_digits_csv(folder))
        return {digits8x8(folder, {.validation = options.validation,
                                   .batch_size = options.batch_size,
                                   .shuffle = options.shuffle,
                                   .seed = options.seed,
                                   .drop_last = options.drop_last}),
                8, "8 x 8 digits from " + folder.string(), "99.1 to 99.7 %"};
    throw std::runtime_error(
        "there are no handwritten digits in " + list(places) + ": `tools/dev run" +
        (small_ones_ ? "` fetches some" : " --download` fetches MNIST, which this program needs") +
        "; or put MNIST's files into data/mnist, or name their folder with --data; or take --drawn ones");
  }

  static std::string list(std::vector<std::filesystem::path> const& places) {
    std::string text;
    for (auto const& place : places) text += (text.empty() ? "" : ", ") + place.string();
    return text;
  }

  std::string folder_;
  bool drawn_, small_ones_;
};

}  // namespace example
