#pragma once
// Pixels as a PNG file, compressed by zlib.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <zlib.h>

#include <fulgurite/checkpoint/zip_layout.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::logger {

/// How the pixels of a picture lie in memory: row by row, and the channels of a pixel side by side.
struct PixelShape {
  std::size_t height = 0, width = 0;
  std::size_t channels = 1;  ///< 1 grey, 2 grey and alpha, 3 red, green, blue, 4 those and alpha
};

namespace png {

/// A number with its highest byte first.
FULGURITE_BULK std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

/// A part of the file: its length, its kind, its bytes, and the checksum of the last two.
FULGURITE_BULK std::string chunk(std::string_view kind, std::string_view bytes) {
  std::string marked(kind);
  marked += bytes;
  auto const sum = zip::checksum(0, std::as_bytes(std::span(marked)));
  return big_endian(bytes.size()) + marked + big_endian(sum);
}

}  // namespace png

/// A picture of 8 bits a channel. Error [fulgurite.logger.image] where there are not as many pixels as the shape says,
/// none at all, or too many for one file.
FULGURITE_BULK std::string png_file(std::span<std::uint8_t const> pixels, PixelShape const& shape) {
  constexpr std::size_t most = 1U << 30;
  auto const [height, width, channels] = shape;
  bool const fits = channels >= 1 && channels <= 4 && width >= 1 && width <= most / channels && height >= 1 &&
                    height <= most / (width * channels + 1);
  if (!fits || pixels.size() != height * width * channels) {
    std::string text = "log_image: ";
    text += std::to_string(pixels.size()) + " bytes for a picture of height " + std::to_string(height) + ", width " +
            std::to_string(width) + " and " + std::to_string(channels) + " channels";
    throw Error("fulgurite.logger.image",
                text + ": give height x width x channels of them, 1 to 4 channels, and no more than 1 GiB");
  }
  std::string lines;  // each begins with its filter, of which 0 is none
  lines.reserve(height * (width * channels + 1));
  for (std::size_t row = 0; row != height; ++row) {
    auto const line = pixels.subspan(row * width * channels, width * channels);
    lines += '\0';
    lines.append(reinterpret_cast<char const*>(line.data()), line.size());
  }
  uLongf length = ::compressBound(lines.size());
  std::string packed(length, '\0');
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<Bytef const*>(lines.data()),
                 lines.size()) != Z_OK)
    throw Error("fulgurite.logger.image",
                "log_image: zlib has no memory left to compress the picture: log a smaller one");
  packed.resize(length);
  constexpr char colours[] = {0, 4, 2, 6};  // by channels
  std::string head = png::big_endian(width) + png::big_endian(height);
  head += '\x08';
  head += colours[channels - 1];
  head.append(3, '\0');  // the one compression, the one filtering, not interlaced
  std::string file = "\x89PNG\r\n\x1a\n";
  file += png::chunk("IHDR", head);
  file += png::chunk("IDAT", packed);
  return file + png::chunk("IEND", {});
}

}  // namespace fulgurite::logger
