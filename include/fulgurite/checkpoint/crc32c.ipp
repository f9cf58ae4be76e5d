#pragma once
// The bodies of checkpoint/crc32c.hpp.

#include <fulgurite/checkpoint/crc32c.hpp>

namespace fulgurite::crc {

FULGURITE_BODY std::uint32_t by_table(std::uint32_t state, std::span<std::byte const> bytes) {
  for (auto const byte : bytes) state = (state >> 8) ^ table[(state ^ static_cast<std::uint32_t>(byte)) & 0xFFU];
  return state;
}

}  // namespace fulgurite::crc

namespace fulgurite {

FULGURITE_BODY std::uint32_t crc32c(std::uint32_t before, std::span<std::byte const> bytes) {
  if constexpr (crc::has_instruction)
    if (crc::instruction_is_there()) return ~crc::by_instruction(~before, bytes);
  return ~crc::by_table(~before, bytes);
}

}  // namespace fulgurite

namespace fulgurite::protobuf {

FULGURITE_BULK_BODY std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t const sum = crc32c(0, std::as_bytes(std::span(bytes)));
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
}

FULGURITE_BULK_BODY void varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(0x80U | (value & 0x7FU));
  message += static_cast<char>(value);
}

FULGURITE_BULK_BODY void tag(std::string& message, unsigned field, Wire wire) {
  varint(message, std::uint64_t{field} << 3 | static_cast<std::uint64_t>(wire));
}

FULGURITE_BULK_BODY void integer(std::string& message, unsigned field, std::int64_t value) {
  tag(message, field, Wire::varint);
  varint(message, static_cast<std::uint64_t>(value));
}

FULGURITE_BULK_BODY void real(std::string& message, unsigned field, double value) {
  tag(message, field, Wire::eight_bytes);
  raw(message, value);
}

FULGURITE_BULK_BODY void small_real(std::string& message, unsigned field, float value) {
  tag(message, field, Wire::four_bytes);
  raw(message, value);
}

FULGURITE_BULK_BODY void text(std::string& message, unsigned field, std::string_view value) {
  tag(message, field, Wire::text);
  varint(message, value.size());
  message += value;
}

FULGURITE_BULK_BODY void reals(std::string& message, unsigned field, std::span<double const> values) {
  std::string all;
  for (double const value : values) raw(all, value);
  text(message, field, all);
}

FULGURITE_BULK_BODY std::optional<std::uint64_t> take_varint(std::string_view& message) {
  std::uint64_t value = 0;
  for (unsigned bits = 0; bits < 64 && !message.empty(); bits += 7) {
    auto const byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << bits;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

FULGURITE_BULK_BODY std::optional<std::string_view> find(std::string_view message, unsigned field,
                                                         std::string_view* after) {
  while (!message.empty()) {
    auto const head = take_varint(message);
    if (!head) return std::nullopt;
    auto const before = message;
    std::optional<std::uint64_t> size;
    switch (static_cast<Wire>(*head & 7U)) {
    case Wire::varint:
      if (!take_varint(message)) return std::nullopt;
      size = before.size() - message.size();
      message = before;
      break;
    case Wire::eight_bytes: size = 8; break;
    case Wire::four_bytes: size = 4; break;
    case Wire::text: size = take_varint(message); break;
    }
    if (!size || *size > message.size()) return std::nullopt;
    auto const value = message.substr(0, static_cast<std::size_t>(*size));
    message.remove_prefix(value.size());
    if (*head >> 3 != field) continue;
    if (after != nullptr) *after = message;
    return value;
  }
  return std::nullopt;
}

}  // namespace fulgurite::protobuf
