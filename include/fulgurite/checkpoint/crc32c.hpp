#pragma once
// The checksum of the bytes in a file: CRC-32C, which processors compute with an instruction of their own.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace fulgurite {

namespace crc {

/// The checksum's register after each possible byte: the polynomial of Castagnoli, bits reversed.
inline constexpr auto table = [] {
  std::array<std::uint32_t, 256> all{};
  for (std::uint32_t byte = 0; byte != 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit != 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    all[byte] = value;
  }
  return all;
}();

/// On any processor, byte by byte. `state` is the register, not the checksum: see crc32c.
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

/// Eight bytes at a time, on a processor that has the instruction.
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

/// The CRC-32C of bytes, as iSCSI and ext4 use it; of a text in pieces: `crc32c(crc32c(0, first), second)`.
std::uint32_t crc32c(std::uint32_t before, std::span<std::byte const> bytes);

}  // namespace fulgurite

namespace fulgurite::protobuf {

// As much of Protocol Buffers as TensorBoard's event files need: fields are appended to a text, and found again.

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

/// How the bytes after a field's number are to be read.
enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, text = 2, four_bytes = 5 };

/// A number in seven bits a byte, the lowest first.
void varint(std::string& message, std::uint64_t value);
/// A field's number, before its value.
void tag(std::string& message, unsigned field, Wire wire);
/// The bytes of a number as they lie in memory.
template <class T>
void raw(std::string& message, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  message.append(bytes, sizeof(T));
}

/// A field that is an integer, negative ones in two's complement; an enumerator; a truth value.
void integer(std::string& message, unsigned field, std::int64_t value);
/// A field that is a double.
void real(std::string& message, unsigned field, double value);
/// A field that is a float.
void small_real(std::string& message, unsigned field, float value);
/// A field that is a text, bytes, or a message of its own.
void text(std::string& message, unsigned field, std::string_view value);
/// A field that is a list of doubles.
void reals(std::string& message, unsigned field, std::span<double const> values);

/// Takes a number from the beginning of a message; nothing where it is not whole.
std::optional<std::uint64_t> take_varint(std::string_view& message);

/// The first field of that number: its bytes, or nothing where there is none or the message is none. `after`: gets what
/// follows it, where further ones of that number may be.
std::optional<std::string_view> find(std::string_view message, unsigned field, std::string_view* after = nullptr);

}  // namespace fulgurite::protobuf

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/crc32c.ipp>
#endif
