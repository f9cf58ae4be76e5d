#pragma once
// Checksums inside a safetensors file, as two entries of its metadata, which other programs pass over: of each tensor,
// and of the header that holds them. Each is eight hexadecimal digits of CRC-32C.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/safetensors_layout.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::safetensors {

/// The entry with the checksums of the tensors, in the order of their bytes.
inline constexpr char const* tensor_sums_key = "fulgurite.crc32c";
/// The entry with the checksum of the header, computed with zeros in its place.
inline constexpr char const* header_sum_key = "fulgurite.header";

inline constexpr std::size_t sum_digits = 8;

FULGURITE_COLD std::string sum_text(std::uint32_t sum) {
  char digits[sum_digits + 1];
  std::string text(digits, std::to_chars(digits, digits + sum_digits, sum, 16).ptr);
  return std::string(sum_digits - text.size(), '0') + text;
}

/// Where the value of such an entry begins in a header that header_of made. A text that looks the same cannot stand
/// elsewhere: quotes inside of texts are escaped.
FULGURITE_COLD std::size_t sum_place(std::string_view header, std::string_view key) {
  auto const before = std::string(key) + "\":\"";
  for (char const* opening : {",\"", "{\""})
    if (auto const at = header.find(opening + before); at != header.npos) return at + 2 + before.size();
  return header.npos;
}

/// Makes room for the checksums of so many tensors, so that the header's length is known before they are.
inline void reserve_sums(Metadata& metadata, std::size_t tensors) {
  metadata[tensor_sums_key] = std::string(sum_digits * tensors, '0');
  metadata[header_sum_key] = std::string(sum_digits, '0');
}

/// Puts them into a header with such room.
FULGURITE_COLD void enter_sums(std::string& header, std::span<std::uint32_t const> of_tensors) {
  auto at = sum_place(header, tensor_sums_key);
  for (auto const sum : of_tensors) {
    header.replace(at, sum_digits, sum_text(sum));
    at += sum_digits;
  }
  header.replace(sum_place(header, header_sum_key), sum_digits, sum_text(crc32c(0, std::as_bytes(std::span(header)))));
}

/// The checksum of a header that has one.
FULGURITE_COLD std::uint32_t header_sum(std::string header) {
  if (auto const at = sum_place(header, header_sum_key); at != header.npos && header.size() - at >= sum_digits)
    header.replace(at, sum_digits, std::string(sum_digits, '0'));
  return crc32c(0, std::as_bytes(std::span(header)));
}

/// The numbers in a text of such digits; nothing where it is not one.
FULGURITE_COLD std::optional<std::vector<std::uint32_t>> sums_in(std::string_view text) {
  if (text.size() % sum_digits != 0) return std::nullopt;
  std::vector<std::uint32_t> sums(text.size() / sum_digits);
  for (std::size_t i = 0; i != sums.size(); ++i) {
    auto const* const digits = text.data() + i * sum_digits;
    auto const [end, error] = std::from_chars(digits, digits + sum_digits, sums[i], 16);
    if (error != std::errc{} || end != digits + sum_digits) return std::nullopt;
  }
  return sums;
}

}  // namespace fulgurite::safetensors
