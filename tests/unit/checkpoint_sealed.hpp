#pragma once
// A file with checksums whose header was changed on purpose, with the checksum that this header has.

#include <cstdint>
#include <cstring>
#include <string>

#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/text.hpp>

inline std::string sealed(std::string file) {
  namespace safetensors = fulgurite::safetensors;
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  auto header = file.substr(8, length);
  auto const sum = safetensors::header_sum(header);
  header.replace(safetensors::sum_place(header, safetensors::header_sum_key), 8, safetensors::sum_text(sum));
  return file.replace(8, length, header);
}
