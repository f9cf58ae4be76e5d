#pragma once
// The checksum of the bytes in a file: CRC-32C, which processors compute with an instruction of their own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

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
inline std::uint32_t by_table(std::uint32_t state, std::span<std::byte const> bytes) {
  for (auto const byte : bytes) state = (state >> 8) ^ table[(state ^ static_cast<std::uint32_t>(byte)) & 0xFFU];
  return state;
}

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
inline std::uint32_t crc32c(std::uint32_t before, std::span<std::byte const> bytes) {
  if constexpr (crc::has_instruction)
    if (crc::instruction_is_there()) return ~crc::by_instruction(~before, bytes);
  return ~crc::by_table(~before, bytes);
}

}  // namespace fulgurite
