#pragma once
// Reads MNIST's IDX format: a magic number, lengths (32 bits, big endian), then bytes. Whether the file is compressed
// by gzip is seen from its content.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/gzip.hpp>

namespace fulgurite::data {

/// An array of unsigned bytes in which the last dimension varies fastest.
struct Idx {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> values;
};

/// Reads one IDX file from memory. Any bytes are safe input: the lengths in the header are compared with the bytes that
/// are there before memory is allocated. Offsets in errors count unpacked bytes, but those of fulgurite.data.gzip count
/// compressed ones.
class IdxReader {
 public:
  explicit IdxReader(std::string name) : name_(std::move(name)) {}

  /// `dimensions` is what the magic number must promise: 3 for images, 1 for labels.
  FULGURITE_BULK Idx read(std::span<std::uint8_t const> file, std::size_t dimensions) const {
    if (!is_gzip(file)) {
      Plain source{file};
      std::size_t const header = 4 + 4 * dimensions;
      return parse(Source::to<&Plain::read>(source), file.size() - std::min(file.size(), header), dimensions);
    }
    Gunzip source{file, name_};
    return parse(Source::to<&Gunzip::read>(source), file.size() * largest_gzip_ratio, dimensions);
  }

 private:
  struct Plain {
    std::span<std::uint8_t const> rest;

    FULGURITE_BULK std::size_t read(std::span<std::uint8_t> into) {
      std::size_t const count = std::min(into.size(), rest.size());
      std::copy_n(rest.begin(), count, into.begin());
      rest = rest.subspan(count);
      return count;
    }
  };

  /// Fills as much of the bytes as there is left, and says how much that was.
  using Source = FunctionRef<std::size_t(std::span<std::uint8_t>)>;

  /// `most` is the largest number of values that the source can contain.
  FULGURITE_BULK Idx parse(Source read, std::size_t most, std::size_t dimensions) const {
    std::uint32_t const expected = 0x0800 | static_cast<std::uint32_t>(dimensions), magic = number(read, 0);
    if (magic != expected) {
      std::ostringstream said;
      said << std::hex << std::setfill('0') << "at byte 0 the magic number 0x" << std::setw(8) << expected
           << " (unsigned bytes, " << dimensions << (dimensions == 1 ? " dimension: labels" : " dimensions: images")
           << ") was expected, 0x" << std::setw(8) << magic << " found";
      refuse("fulgurite.data.idx_magic", said.str() + (magic == 0x0801   ? ": this is a file of labels"
                                                       : magic == 0x0803 ? ": this is a file of images"
                                                                         : ": this is not such an IDX file"));
    }
    Idx idx;
    std::size_t const header = 4 + 4 * dimensions;
    std::string shape;
    for (std::size_t i = 0; i < dimensions; ++i) {
      idx.shape.push_back(number(read, 4 + 4 * i));
      (shape += i == 0 ? "" : " x ") += std::to_string(idx.shape.back());
    }
    std::size_t count = 1;
    for (std::size_t const length : idx.shape) {
      if (length != 0 && count > most / length)
        refuse("fulgurite.data.idx_shape", "the header (bytes 4 to " + std::to_string(header - 1) + ") promises " +
                                               shape + " bytes, but the file has room for " + std::to_string(most) +
                                               " at most: it was cut off, or its header is damaged; fetch it again");
      count *= length;
    }
    // The array grows as bytes arrive: a small gzip file may truthfully be able to contain a thousand times its size,
    // and yet contain less.
    std::size_t found = 0;
    for (bool more = true; more && found < count;) {
      idx.values.resize(std::min(count, std::max<std::size_t>(2 * found, 1 << 20)));
      std::size_t const done = read(std::span(idx.values).subspan(found));
      more = found + done == idx.values.size();
      found += done;
    }
    if (found != count)
      refuse("fulgurite.data.idx_length", "the header promises " + shape + " = " + std::to_string(count) +
                                              " bytes from byte " + std::to_string(header) +
                                              " on, but the file ends at byte " + std::to_string(header + found) +
                                              ": it was cut off; fetch it again");
    std::array<std::uint8_t, 1> behind{};
    if (read(behind) != 0)
      refuse("fulgurite.data.idx_length",
             "the header promises " + shape + " bytes, that is an end at byte " + std::to_string(header + count) +
                 ", but more follow: its header is damaged, or it was written twice; fetch it again");
    return idx;
  }

  FULGURITE_BULK std::uint32_t number(Source read, std::size_t offset) const {
    std::array<std::uint8_t, 4> bytes{};
    if (std::size_t const found = read(bytes); found != bytes.size())
      refuse("fulgurite.data.idx_length", "the header needs 4 bytes at byte " + std::to_string(offset) +
                                              ", but the file ends at byte " + std::to_string(offset + found) +
                                              ": it was cut off; fetch it again");
    std::uint32_t value = 0;
    for (std::uint8_t const byte : bytes) value = (value << 8) | byte;
    return value;
  }

  [[noreturn]] void refuse(std::string_view identifier, std::string const& sentence) const {
    throw Error(identifier, name_ + ": " + sentence);
  }

  std::string name_;
};

/// Reads a file: `read_idx("train-images-idx3-ubyte.gz", 3)`. Errors: fulgurite.data.file, .gzip, .idx_magic,
/// .idx_shape or .idx_length; they name the file, the byte, and what was expected and found there.
inline Idx read_idx(std::filesystem::path const& file, std::size_t dimensions) {
  return IdxReader{file.string()}.read(read_file(file), dimensions);
}

}  // namespace fulgurite::data
