#pragma once
// The checksum of the bytes in a file: CRC-32C, for which processors have an instruction.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/body.hpp>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace fulgurite {

namespace crc {

/// The checksum's register after each possible byte: Castagnoli's polynomial, bits reversed.
inline constexpr auto table = [] {
  std::array<std::uint32_t, 256> all{};
  for (std::uint32_t byte = 0; byte != 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit != 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    all[byte] = value;
  }
  return all;
}();

/// For any processor, byte by byte. `state` is the register, not the checksum: see crc32c.
std::uint32_t by_table(std::uint32_t state, std::span<std::byte const> bytes);

#if defined(__x86_64__)
inline constexpr bool has_instruction = true;
inline bool instruction_is_there() { return __builtin_cpu_supports("sse4.2") != 0; }
[[gnu::target("sse4.2")]] inline std::uint64_t eight(std::uint64_t state, std::uint64_t bytes) {
  return _mm_crc32_u64(state, bytes);
}
#define FULGURITE_CRC_TARGET [[gnu::target("sse4.2")]]
#elif defined(__ARM_FEATURE_CRC32)
inline constexpr bool has_instruction = true;
inline bool instruction_is_there() { return true; }
inline std::uint64_t eight(std::uint64_t state, std::uint64_t bytes) {
  return __crc32cd(static_cast<std::uint32_t>(state), bytes);
}
#define FULGURITE_CRC_TARGET
#else
inline constexpr bool has_instruction = false;
inline bool instruction_is_there() { return false; }
inline std::uint64_t eight(std::uint64_t state, std::uint64_t) { return state; }
#define FULGURITE_CRC_TARGET
#endif

/// Eight bytes at a time, for processors that have the instruction.
FULGURITE_CRC_TARGET inline std::uint32_t by_instruction(std::uint32_t state, std::span<std::byte const> bytes) {
  std::uint64_t wide = state;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t next = 0;
    std::memcpy(&next, bytes.data(), 8);
    wide = eight(wide, next);
  }
  return by_table(static_cast<std::uint32_t>(wide), bytes);
}
#undef FULGURITE_CRC_TARGET

}  // namespace crc

/// The CRC-32C of bytes, as in iSCSI and ext4. For data in pieces: `crc32c(crc32c(0, first), second)`.
std::uint32_t crc32c(std::uint32_t before, std::span<std::byte const> bytes);

}  // namespace fulgurite

namespace fulgurite::protobuf {

// The subset of Protocol Buffers that TensorBoard's event files need: appending fields to a message, and finding them.

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

/// The encoding of the bytes after a field's number.
enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

/// Appends a number with seven bits in each byte, the lowest first.
void varint(std::string& message, std::uint64_t value);
/// Appends a field's number, before its value.
void tag(std::string& message, unsigned field, Wire wire);
/// Appends the bytes of a number as they are in memory.
template <class T>
void raw(std::string& message, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  message.append(bytes, sizeof(T));
}

/// The number in the first bytes, as `raw` appends it; 0 if there are too few.
template <class T>
T number(std::string_view bytes) {
  T value{};
  if (bytes.size() >= sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The checksum in an event file, for bytes that may contain checksums themselves: it is rotated and an offset is
/// added, so that it differs from those.
std::uint32_t checksum(std::string_view bytes);

/// Appends an integer field (negative ones in two's complement), an enumerator or a boolean.
void integer(std::string& message, unsigned field, std::int64_t value);
/// Appends a double field.
void real(std::string& message, unsigned field, double value);
/// Appends a float field.
void small_real(std::string& message, unsigned field, float value);
/// Appends a field that is a string, bytes, or a nested message.
void text(std::string& message, unsigned field, std::string_view value);
/// Appends a list of doubles.
void reals(std::string& message, unsigned field, std::span<double const> values);

/// Takes a number from the beginning of a message; nullopt if it is not complete.
std::optional<std::uint64_t> take_varint(std::string_view& message);

/// The bytes of the first field with that number; nullopt if there is none or the message is invalid. `after`: receives
/// the rest of the message, which may have more fields of that number.
std::optional<std::string_view> find(std::string_view message, unsigned field, std::string_view* after = nullptr);

}  // namespace fulgurite::protobuf

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/crc32c.ipp>
#endif
