#pragma once
// Of what is fuzzed the readers of data, and of other programs' logs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/image_folder.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/report/run_folder.hpp>

#include "../unit/checkpoint_pt_bytes.hpp"

namespace fuzz {

inline std::span<std::uint8_t const> as_bytes(std::string_view text) {
  return {reinterpret_cast<std::uint8_t const*>(text.data()), text.size()};
}

/// Images, plain or compressed.
inline bool idx(std::string_view bytes) {
  try {
    auto const images = fulgurite::data::IdxReader{"fuzz"}.read(as_bytes(bytes), 3);
    if (images.values.size() != images.shape[0] * images.shape[1] * images.shape[2]) std::abort();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

/// Read in pieces of many lengths.
inline bool gzip(std::string_view bytes) {
  try {
    fulgurite::data::Gunzip source(as_bytes(bytes), "fuzz");
    std::array<std::uint8_t, 1000> part{};
    for (std::size_t length = 1;; length = length * 3 % 997) {
      auto const count = source.read(std::span(part).first(length));
      if (count > length) std::abort();
      if (count != length) return true;
    }
  } catch (fulgurite::Error const&) { return false; }
}

inline bool digits_csv(std::string_view bytes) {
  try {
    auto const digits = fulgurite::data::DigitsCsvReader{"fuzz"}.read(as_bytes(bytes));
    if (digits.pixels.size() != 64 * digits.labels.size()) std::abort();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

/// A table of a user's own.
inline bool table(std::string_view bytes) {
  try {
    auto const file = fulgurite::data::CsvReader("fuzz", {}).read(std::string(bytes));
    if (file.fields.size() != file.rows() * file.columns.size()) std::abort();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

inline bool netpbm(std::string_view bytes) {
  try {
    auto const image = fulgurite::data::read_netpbm(as_bytes(bytes), "fuzz");
    if (image.pixels.size() != image.rows * image.columns * image.channels) std::abort();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

/// An event of TensorBoard's, in a record whose length and checksum are right: else nothing would look into it.
inline bool event_scalars(std::string_view event) {
  auto const sum = fulgurite::crc32c(0, std::as_bytes(std::span(event)));
  auto const record = pt_bytes::le(event.size()) + std::string(4, '\0') + std::string(event) +
                      pt_bytes::le(((sum >> 15) | (sum << 17)) + 0xa282ead8U).substr(0, 4);
  bool any = false;
  fulgurite::report::each_event_scalar(record, [&](std::string_view, double, double) { any = true; });
  return any;
}

}  // namespace fuzz
