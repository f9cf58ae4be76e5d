#pragma once
// The one decoder of UTF-8: where a character ends, and whether it is one.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fulgurite::utf8 {

/// Bytes of the character that begins at `at`, 1 to 4; 0 where none does: a stray or a missing continuation, an
/// overlong form, a surrogate, or a number above U+10FFFF.
constexpr std::size_t length(std::string_view text, std::size_t at) {
  auto const lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  std::size_t const bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < bytes) return 0;
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i != bytes; ++i) {
    auto const next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  bool const overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  bool const surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : bytes;
}

/// Whether all of the text is UTF-8.
constexpr bool is_valid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = length(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

}  // namespace fulgurite::utf8
