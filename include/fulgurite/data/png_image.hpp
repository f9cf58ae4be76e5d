#pragma once
// Reads PNG pictures of 8 bits a channel, or of a palette, that are not interlaced; through zlib (link with -lz).

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/data/gzip.hpp>
#include <fulgurite/data/image.hpp>

namespace fulgurite::data {

/// Whether the bytes begin as a PNG file does.
inline bool is_png(std::span<std::uint8_t const> file) {
  constexpr std::string_view mark = "\x89PNG\r\n\x1a\n";
  return file.size() >= mark.size() && std::equal(mark.begin(), mark.end(), file.begin(), [](char a, std::uint8_t b) {
           return static_cast<unsigned char>(a) == b;
         });
}

/// Reads such a file from memory. Any bytes are safe input: what a picture needs is known from its header before any of
/// it is unpacked.
class PngReader {
 public:
  PngReader(std::span<std::uint8_t const> file, std::string name) : file_(file), name_(std::move(name)) {}

  /// Error [fulgurite.data.image] for a file that is damaged, cut off, or of a kind that is not read.
  FULGURITE_BULK Image read() {
    if (!is_png(file_)) refuse_image(name_, 0, "this is no PNG file");
    at_ = 8;
    for (bool ended = false; !ended;) ended = chunk();
    if (image_.rows == 0) refuse_image(name_, at_, "it ends without a header (IHDR): it is damaged");
    unpack();
    return has_palette_ ? coloured() : std::move(image_);
  }

 private:
  std::size_t number(std::size_t at) const {
    return std::size_t{file_[at]} << 24 | std::size_t{file_[at + 1]} << 16 | std::size_t{file_[at + 2]} << 8 |
           file_[at + 3];
  }

  /// Whether it was the last.
  FULGURITE_BULK bool chunk() {
    if (file_.size() - at_ < 12) refuse_image(name_, file_.size(), "it ends inside of a part: it was cut off");
    std::size_t const length = number(at_), from = at_ + 8;
    if (length > file_.size() - at_ - 12) refuse_image(name_, at_, "a part is longer than the file: it was cut off");
    std::string const kind(file_.begin() + static_cast<std::ptrdiff_t>(at_ + 4),
                           file_.begin() + static_cast<std::ptrdiff_t>(from));
    auto const sum = ::crc32_z(0, file_.data() + at_ + 4, length + 4);
    if (sum != number(from + length))
      refuse_image(name_, at_, "the checksum of the part " + kind + " is wrong: it is damaged");
    auto const bytes = file_.subspan(from, length);
    if (kind == "IHDR") header(bytes);
    else if (kind == "PLTE") palette_.assign(bytes.begin(), bytes.end());
    else if (kind == "IDAT") packed_.insert(packed_.end(), bytes.begin(), bytes.end());
    else if (kind[0] >= 'A' && kind[0] <= 'Z' && kind != "IEND")
      refuse_image(name_, at_, "there is a part " + kind + ", which is not known: save the picture as a plain PNG");
    at_ = from + length + 4;
    return kind == "IEND";
  }

  FULGURITE_BULK void header(std::span<std::uint8_t const> bytes) {
    if (bytes.size() != 13 || image_.rows != 0) refuse_image(name_, at_, "the header is damaged");
    auto const kind = bytes[9];
    has_palette_ = kind == 3;
    bool const known = kind == 0 || kind == 2 || kind == 3 || kind == 4 || kind == 6;
    if (bytes[8] != 8 || !known || bytes[10] != 0 || bytes[11] != 0 || bytes[12] != 0)
      refuse_image(name_, at_,
                   "the picture has " + std::to_string(bytes[8]) + " bits a channel" +
                       (bytes[12] != 0 ? " and is interlaced" : "") +
                       ": 8 bits without interlacing are read; save it so");
    image_.columns = number(at_ + 8);
    image_.rows = number(at_ + 12);
    image_.channels = kind == 2 ? 3 : kind == 4 ? 2 : kind == 6 ? 4 : 1;
    check_image_size(name_, at_, image_);
  }

  FULGURITE_BULK void unpack() {
    std::size_t const line = image_.columns * image_.channels;
    if ((line + 1) * image_.rows / largest_gzip_ratio > packed_.size())
      refuse_image(name_, at_, "the header promises more pixels than the file can hold: it was cut off, or is damaged");
    std::vector<std::uint8_t> lines((line + 1) * image_.rows);
    uLongf size = lines.size();
    uLong given = packed_.size();
    if (::uncompress2(lines.data(), &size, packed_.data(), &given) != Z_OK || size != lines.size())
      refuse_image(name_, at_,
                   "the pixels cannot be unpacked to " + std::to_string(image_.rows) + " lines of " +
                       std::to_string(line) + " bytes: it is damaged");
    packed_ = {};
    image_.pixels.resize(line * image_.rows);
    for (std::size_t row = 0; row != image_.rows; ++row) {
      auto const* from = lines.data() + row * (line + 1);
      auto* to = image_.pixels.data() + row * line;
      if (*from > 4) refuse_image(name_, at_, "line " + std::to_string(row) + " has an unknown filter: it is damaged");
      for (std::size_t i = 0; i != line; ++i) {
        int const left = i >= image_.channels ? to[i - image_.channels] : 0, above = row > 0 ? (to - line)[i] : 0,
                  corner = i >= image_.channels && row > 0 ? (to - line)[i - image_.channels] : 0;
        to[i] = static_cast<std::uint8_t>(from[1 + i] + guess(*from, left, above, corner));
      }
    }
  }
  /// What a filter takes for the next byte.
  static int guess(std::uint8_t filter, int left, int above, int corner) {
    if (filter == 1) return left;
    if (filter == 2) return above;
    if (filter == 3) return (left + above) / 2;
    if (filter == 0) return 0;
    int const to_left = std::abs(above - corner), to_above = std::abs(left - corner),
              to_corner = std::abs(left + above - 2 * corner);
    return to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
  }

  FULGURITE_BULK Image coloured() const {
    Image made{image_.rows, image_.columns, 3, {}};
    made.pixels.reserve(3 * image_.pixels.size());
    for (std::size_t const index : image_.pixels) {
      if (3 * index + 2 >= palette_.size()) refuse_image(name_, at_, "a colour is not in the palette: it is damaged");
      made.pixels.insert(made.pixels.end(), palette_.begin() + static_cast<std::ptrdiff_t>(3 * index),
                         palette_.begin() + static_cast<std::ptrdiff_t>(3 * index + 3));
    }
    return made;
  }

  std::span<std::uint8_t const> file_;
  std::string name_;
  Image image_;
  std::vector<std::uint8_t> palette_, packed_;
  std::size_t at_ = 0;
  bool has_palette_ = false;
};

}  // namespace fulgurite::data
