#pragma once
// The numbers in a TensorBoard event file: of ours, and of other programs.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/protobuf.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::report {

namespace events {

template <class T>
T number_in(std::string_view bytes) {
  T value{};
  if (bytes.size() >= sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// A value of a summary, where it is a number: a field of its own, or a tensor of one float.
FULGURITE_BULK std::optional<double> number_of(std::string_view value) {
  if (auto const plain = protobuf::find(value, 2); plain && plain->size() == 4) return number_in<float>(*plain);
  auto const tensor = protobuf::find(value, 8);
  auto const kind = tensor ? protobuf::find(*tensor, 1) : std::nullopt;
  if (!kind || *kind != "\x01") return std::nullopt;  // not of float
  for (unsigned const field : {5U, 4U})
    if (auto const bytes = protobuf::find(*tensor, field); bytes && bytes->size() == 4) return number_in<float>(*bytes);
  return std::nullopt;
}

}  // namespace events

/// f(tag, step, value) for each number in the bytes of an event file, in their order. It ends at a record that is not
/// whole, as the last one of a run that is still written may be, or whose checksum is wrong.
template <class F>
void each_event_scalar(std::string_view file, F&& f) {
  constexpr std::size_t head = 12, around = 16;  // length and its checksum; the event's checksum
  while (file.size() >= around) {
    auto const length = events::number_in<std::uint64_t>(file);
    if (length > file.size() - around) return;
    auto const event = file.substr(head, static_cast<std::size_t>(length));
    auto const sum = crc32c(0, std::as_bytes(std::span(event)));
    auto const turned = ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
    if (events::number_in<std::uint32_t>(file.substr(head + event.size())) != turned) return;
    file.remove_prefix(event.size() + around);
    double step = 0;
    if (auto bytes = protobuf::find(event, 2))
      step = static_cast<double>(static_cast<std::int64_t>(protobuf::take_varint(*bytes).value_or(0)));
    auto rest = protobuf::find(event, 5).value_or(std::string_view());
    while (auto const value = protobuf::find(rest, 1, &rest)) {
      auto const number = events::number_of(*value);
      if (auto const tag = protobuf::find(*value, 1); tag && number) f(*tag, step, *number);
    }
  }
}

}  // namespace fulgurite::report
