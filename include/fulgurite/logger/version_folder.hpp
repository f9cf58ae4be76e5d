#pragma once
// A folder of its own for each run: version_0, version_1, ..., safe against two runs that start at once.

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <fulgurite/checkpoint/file_descriptor.hpp>

namespace fulgurite::logger {

/// One above the highest version_N in `root`, 0 where there is none; gaps are not filled.
inline long next_version(std::filesystem::path const& root) {
  long next = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    constexpr std::string_view prefix = "version_";
    long number = -1;
    auto const* const last = name.data() + name.size();
    if (!name.starts_with(prefix) || std::from_chars(name.data() + prefix.size(), last, number).ptr != last) continue;
    if (number >= next) next = number + 1;
  }
  return next;
}

inline void make_folders(std::filesystem::path const& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) file::fail("fulgurite.file.write", "make the folder", folder, error.value());
}

/// Makes the first folder that is free, from a number on. mkdir decides a race: who comes second takes the next number.
inline std::filesystem::path claim_version(std::filesystem::path const& root, long number) {
  for (;; ++number) {
    auto folder = root / ("version_" + std::to_string(number));
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
  }
}

/// Makes the next version's folder in `root`.
inline std::filesystem::path new_version(std::filesystem::path const& root) {
  make_folders(root);
  return claim_version(root, next_version(root));
}

}  // namespace fulgurite::logger
