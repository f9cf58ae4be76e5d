#pragma once
// Reads the plainest pictures: binary PGM (grey) and PPM (colours), of 8 bits.

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/data/image.hpp>

namespace fulgurite::data {

/// Whether the bytes begin as a PGM or PPM file in binary does.
inline bool is_netpbm(std::span<std::uint8_t const> file) {
  return file.size() >= 2 && file[0] == 'P' && (file[1] == '5' || file[1] == '6');
}

/// Reads such a file from memory. Any bytes are safe input. Error [fulgurite.data.image] for one that is damaged, cut
/// off, or has more than 8 bits a channel.
FULGURITE_BULK Image read_netpbm(std::span<std::uint8_t const> file, std::string const& name) {
  std::size_t at = 2;
  auto const number = [&](char const* what, std::size_t most) {
    while (at < file.size() && (std::isspace(file[at]) != 0 || file[at] == '#'))
      if (file[at++] == '#')
        while (at < file.size() && file[at] != '\n') ++at;
    std::size_t value = 0;
    std::size_t const from = at;
    for (; at < file.size() && file[at] >= '0' && file[at] <= '9' && value <= most; ++at)
      value = 10 * value + file[at] - '0';
    if (at == from || value > most || at == file.size())
      refuse_image(name, from,
                   std::string("there is no ") + what + " from 0 to " + std::to_string(most) +
                       ": it is damaged, or no picture");
    return value;
  };
  if (!is_netpbm(file)) refuse_image(name, 0, "this is no binary PGM or PPM file");
  Image image{.channels = file[1] == '6' ? 3U : 1U};
  image.columns = number("width", longest_image_side);
  image.rows = number("height", longest_image_side);
  std::size_t const white = number("largest value", 65535);
  check_image_size(name, 2, image);
  if (white != 255) refuse_image(name, at, "the largest value is " + std::to_string(white) + ": only 255 is read");
  ++at;  // one space
  std::size_t const bytes = image.rows * image.columns * image.channels;
  if (at > file.size() || file.size() - at < bytes)
    refuse_image(name, file.size(),
                 "it ends, and " + std::to_string(bytes) + " bytes of pixels were to come: it was cut off");
  image.pixels.assign(file.begin() + static_cast<std::ptrdiff_t>(at),
                      file.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  return image;
}

}  // namespace fulgurite::data
