#pragma once
// A picture of 8 bits a channel in memory, and the bounds of what is read from a file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

/// Pixels row by row, the channels of a pixel side by side: 1 grey, 2 grey and alpha, 3 red, green, blue, 4 those and
/// alpha.
struct Image {
  std::size_t rows = 0, columns = 0, channels = 1;
  std::vector<std::uint8_t> pixels = {};
};

/// No picture is read that has more pixels along a side, or more bytes.
inline constexpr std::size_t longest_image_side = 1U << 16, largest_image = std::size_t{1} << 28;

/// Error [fulgurite.data.image], with the file and the byte.
[[noreturn]] FULGURITE_COLD void refuse_image(std::string const& name, std::size_t byte, std::string const& what) {
  throw Error("fulgurite.data.image", name + ": at byte " + std::to_string(byte) + " " + what);
}

/// Refuses the size of a picture that is none, or beyond the bounds.
FULGURITE_COLD void check_image_size(std::string const& name, std::size_t byte, Image const& image) {
  bool const fits = image.rows >= 1 && image.columns >= 1 && image.rows <= longest_image_side &&
                    image.columns <= longest_image_side && image.rows <= largest_image / image.channels / image.columns;
  if (!fits)
    refuse_image(name, byte,
                 "the header says " + std::to_string(image.rows) + " x " + std::to_string(image.columns) +
                     " pixels: they have to be at least 1 x 1, and at most " + std::to_string(largest_image) +
                     " bytes; the file is damaged, or has to be made smaller");
}

/// The picture with 1 channel (grey: 0.299 red + 0.587 green + 0.114 blue) or 3. Alpha is left out.
FULGURITE_BULK Image with_channels(Image image, std::size_t channels) {
  if (image.channels == channels) return image;
  Image made{image.rows, image.columns, channels, {}};
  made.pixels.reserve(image.rows * image.columns * channels);
  for (std::size_t i = 0; i != image.rows * image.columns; ++i) {
    auto const* from = image.pixels.data() + i * image.channels;
    bool const colour = image.channels >= 3;
    if (channels == 1)
      made.pixels.push_back(
          colour ? static_cast<std::uint8_t>((299U * from[0] + 587U * from[1] + 114U * from[2] + 500U) / 1000U)
                 : from[0]);
    else
      for (std::size_t c = 0; c != 3; ++c) made.pixels.push_back(from[colour ? c : 0]);
  }
  return made;
}

}  // namespace fulgurite::data
