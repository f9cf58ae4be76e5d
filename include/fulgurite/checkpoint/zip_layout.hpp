#pragma once
// The layout of a zip archive, as far as a file of PyTorch uses it: entries that are stored as they are, then their
// directory, then where the directory is, in 64 bits and in 32.

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>

namespace fulgurite::zip {

static_assert(std::endian::native == std::endian::little, "zip archives are little endian");

inline constexpr std::uint32_t local_mark = 0x04034b50;      ///< begins the header before each entry's bytes
inline constexpr std::uint32_t directory_mark = 0x02014b50;  ///< begins each entry of the directory
inline constexpr std::uint32_t end64_mark = 0x06064b50;      ///< says where the directory is, in 64 bits
inline constexpr std::uint32_t locator_mark = 0x07064b50;    ///< says where that is
inline constexpr std::uint32_t end_mark = 0x06054b50;        ///< says where the directory is, in 32 bits
inline constexpr std::size_t local_size = 30, directory_size = 46, end64_size = 56, locator_size = 20, end_size = 22;

/// Flags of an entry: its sizes and its checksum follow behind its bytes; its name is UTF-8.
inline constexpr std::uint16_t sizes_follow = 1U << 3, name_is_utf8 = 1U << 11;
/// What a field of 16 or 32 bits holds when the number stands elsewhere in 64.
inline constexpr std::uint64_t elsewhere16 = 0xFFFF, elsewhere = 0xFFFFFFFF;
/// The extra field that holds such numbers.
inline constexpr std::uint16_t wide_numbers = 1;

/// A number of the archive. The caller has made sure that its bytes are there.
template <class I>
I number(std::string_view bytes, std::size_t at) {
  I value{};
  std::memcpy(&value, bytes.data() + at, sizeof(I));
  return value;
}

/// Appends a number.
template <class I>
void append(std::string& bytes, I value) {
  char raw[sizeof(I)];
  std::memcpy(raw, &value, sizeof(I));
  bytes.append(raw, sizeof(I));
}

/// Goes on with the checksum of an archive's entries; it begins with 0.
FULGURITE_BULK std::uint32_t checksum(std::uint32_t sum, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const count = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());  // zlib counts in 32 bits
    sum = static_cast<std::uint32_t>(
        ::crc32(sum, reinterpret_cast<Bytef const*>(bytes.data()), static_cast<uInt>(count)));
    bytes = bytes.subspan(count);
  }
  return sum;
}

}  // namespace fulgurite::zip
