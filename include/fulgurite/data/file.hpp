#pragma once
// Reads a whole file into memory. Its length is asked first, so that memory is allocated only for bytes that exist.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

/// The bytes of a file. Error [fulgurite.data.file] for what is not a readable regular file, or ends before the length
/// that was told.
FULGURITE_BULK std::vector<std::uint8_t> read_file(std::filesystem::path const& path) {
  auto const refuse = [&](std::string const& why) { throw Error("fulgurite.data.file", path.string() + ": " + why); };
  std::error_code error;
  auto const status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse("there is no such file; check the path");
  if (!std::filesystem::is_regular_file(status)) refuse("this is not a file; name the file itself");
  auto const length = std::filesystem::file_size(path, error);
  if (error) refuse("its length cannot be read (" + error.message() + ")");

  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("it cannot be opened; check its permissions");
  std::vector<std::uint8_t> bytes(length);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
  if (static_cast<std::uintmax_t>(file.gcount()) != length)
    refuse("reading stopped at byte " + std::to_string(file.gcount()) + " of " + std::to_string(length) +
           "; it changed meanwhile, or its disk fails");
  return bytes;
}

}  // namespace fulgurite::data
