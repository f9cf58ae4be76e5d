#pragma once
// Grey pictures for the examples: many small ones in a grid, written as PNG or PGM.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

namespace example {

/// Row by row, 0 black to 255 white.
struct Picture {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels = {};
};

/// Lays images of `rows` x `columns` out in a grid, `across` in a line, a grey pixel between them. Floats are taken
/// from [low, high] (clamped): [0, 1] for a sigmoid or data as loaded, [-1, 1] for a tanh. For a contiguous CPU tensor
/// of LibTorch: `grid({t.data_ptr<float>(), std::size_t(t.numel())}, 28, 28, 8)`.
inline Picture grid(std::span<float const> images, std::size_t rows, std::size_t columns, std::size_t across,
                    float low = 0, float high = 1) {
  std::size_t const count = images.size() / (rows * columns);
  across = std::max<std::size_t>(1, std::min(across, count));
  std::size_t const down = (count + across - 1) / across;
  Picture picture{across * (columns + 1) + 1, down * (rows + 1) + 1};
  picture.pixels.assign(picture.width * picture.height, 64);
  for (std::size_t i = 0; i < count * rows * columns; ++i) {
    std::size_t const image = i / (rows * columns), y = i / columns % rows, x = i % columns;
    float const grey = std::clamp((images[i] - low) / (high - low), 0.0F, 1.0F);
    picture.pixels[(image / across * (rows + 1) + 1 + y) * picture.width + image % across * (columns + 1) + 1 + x] =
        static_cast<std::uint8_t>(std::lround(255 * grey));
  }
  return picture;
}

inline void write(std::filesystem::path const& path, std::string const& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw std::runtime_error(path.string() + " cannot be written: is there such a folder, and room on the disk?");
}

inline void write_pgm(std::filesystem::path const& path, Picture const& picture) {
  write(path, "P5\n" + std::to_string(picture.width) + " " + std::to_string(picture.height) + "\n255\n" +
                  std::string(picture.pixels.begin(), picture.pixels.end()));
}

inline std::string png(Picture const& picture) {
  auto const number = [](std::size_t n) {
    return std::string{char(n >> 24 & 255), char(n >> 16 & 255), char(n >> 8 & 255), char(n & 255)};
  };
  auto const bytes = [](std::string const& s) { return reinterpret_cast<Bytef const*>(s.data()); };
  auto const chunk = [&](std::string const& kind, std::string const& content) {
    std::string const body = kind + content;
    return number(content.size()) + body + number(crc32(0, bytes(body), static_cast<uInt>(body.size())));
  };
  std::string lines;
  for (std::size_t y = 0; y < picture.height; ++y) {
    lines += '\0';  // each line is stored as it is, unfiltered
    lines.append(picture.pixels.begin() + static_cast<std::ptrdiff_t>(y * picture.width),
                 picture.pixels.begin() + static_cast<std::ptrdiff_t>((y + 1) * picture.width));
  }
  uLongf length = compressBound(static_cast<uLong>(lines.size()));
  std::string packed(length, '\0');
  if (compress(reinterpret_cast<Bytef*>(packed.data()), &length, bytes(lines), static_cast<uLong>(lines.size())) !=
      Z_OK)
    throw std::runtime_error("zlib could not compress a picture");
  packed.resize(length);
  std::string const header =
      number(picture.width) + number(picture.height) + std::string("\x08\x00\x00\x00\x00", 5);  // 8 bits, grey
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", packed) + chunk("IEND", "");
}

inline void write_png(std::filesystem::path const& path, Picture const& picture) { write(path, png(picture)); }

}  // namespace example
