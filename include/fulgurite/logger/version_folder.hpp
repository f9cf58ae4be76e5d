#pragma once
// A folder of its own for each run: version_0, version_1, ..., safe against two runs that start at once.

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include <fulgurite/checkpoint/file_descriptor.hpp>
#include <fulgurite/checkpoint/folders.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger {

/// The next number; an Error where there is none.
inline long version_after(long number, std::filesystem::path const& root) {
  if (number == std::numeric_limits<long>::max())
    throw Error("fulgurite.logger.version",
                (root / ("version_" + std::to_string(number))).string() +
                    " is there, and no number is above it: rename that folder, or give the logger a version");
  return number + 1;
}

/// f(number, path) for each version_N in `root`, in any order.
template <class F>
void each_version(std::filesystem::path const& root, F&& f) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    constexpr std::string_view prefix = "version_";
    long number = -1;
    auto const* const last = name.data() + name.size();
    if (!name.starts_with(prefix) || std::from_chars(name.data() + prefix.size(), last, number).ptr != last) continue;
    f(number, entry->path());
  }
}

/// The number above the highest version_N in `root`, 0 where there is none. Gaps are not filled.
inline long next_version(std::filesystem::path const& root) {
  long next = 0;
  each_version(root, [&](long number, std::filesystem::path const&) {
    if (number >= next) next = version_after(number, root);
  });
  return next;
}

/// Makes the first version folder that is free, from a number on. mkdir decides a race: who comes second takes the next
/// number.
FULGURITE_COLD std::filesystem::path claim_version(std::filesystem::path const& root, long number) {
  for (;; number = version_after(number, root)) {
    auto folder = root / ("version_" + std::to_string(number));
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
  }
}

/// Makes the next version's folder in `root`.
inline std::filesystem::path new_version(std::filesystem::path const& root) {
  file::make_folders(root);
  return claim_version(root, next_version(root));
}

}  // namespace fulgurite::logger
