#pragma once
// The records of a TensorBoard event file: each has its length, and a checksum of both, so that a reader knows a whole
// one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/checkpoint/protobuf.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

/// The form of event files: length (8 bytes), its checksum (4), the event, its checksum (4). Numbers are little endian.
struct EventRecord {
  static constexpr std::size_t head = 12, around = 16;

  /// A checksum of bytes that may hold checksums themselves: it is turned and shifted, so that it is none of theirs.
  FULGURITE_BULK static std::uint32_t checksum(std::string_view bytes) {
    std::uint32_t const sum = crc32c(0, std::as_bytes(std::span(bytes)));
    return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
  }

  /// An event as a record.
  FULGURITE_BULK static std::string of(std::string_view event) {
    std::string record;
    record.reserve(event.size() + around);
    protobuf::raw(record, std::uint64_t{event.size()});
    protobuf::raw(record, checksum(record));
    record += event;
    protobuf::raw(record, checksum(event));
    return record;
  }

  /// The record that begins there; nothing where it is not whole.
  FULGURITE_BULK static std::optional<JournalEntry> next(FileWindow& file, std::uint64_t at, std::uint64_t size) {
    auto const length = length_at(file, at, size);
    if (!length || *length + around > size - at) return std::nullopt;
    auto const rest = file.at(at + head, static_cast<std::size_t>(*length) + 4);
    auto const event = rest.substr(0, static_cast<std::size_t>(*length));
    if (number<std::uint32_t>(rest.substr(event.size())) != checksum(event)) return std::nullopt;
    return JournalEntry{at + around + *length, is_row(event)};
  }

  /// Whether what begins there, and is no record, is the beginning of one that was not written to its end.
  FULGURITE_BULK static bool is_torn(FileWindow& file, std::uint64_t at, std::uint64_t size) {
    auto const left = end_of_data(file, at, size) - at;
    auto const length = length_at(file, at, size);
    return left < head || (length && *length + around >= left);
  }

 private:
  template <class I>
  static I number(std::string_view bytes) {
    I value{};
    if (bytes.size() >= sizeof(I)) std::memcpy(&value, bytes.data(), sizeof(I));
    return value;
  }
  /// Of the event in a record; nothing where no length stands there.
  FULGURITE_BULK static std::optional<std::uint64_t> length_at(FileWindow& file, std::uint64_t at, std::uint64_t size) {
    if (size < at || size - at < head) return std::nullopt;
    auto const bytes = file.at(at, head);
    auto const length = number<std::uint64_t>(bytes);
    bool const sound = number<std::uint32_t>(bytes.substr(8)) == checksum(bytes.substr(0, 8));
    return sound && length < (std::uint64_t{1} << 40) ? std::optional(length) : std::nullopt;
  }
  /// The first value of the event's summary is a plain number: only rows are written so.
  FULGURITE_BULK static bool is_row(std::string_view event) {
    auto const summary = protobuf::find(event, 5);
    auto const value = summary ? protobuf::find(*summary, 1) : std::nullopt;
    return value && protobuf::find(*value, 2);
  }
};

}  // namespace fulgurite::logger
