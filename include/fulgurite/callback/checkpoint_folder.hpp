#pragma once
// Names in a folder of checkpoints: which are free, which belong to it.

#include <filesystem>
#include <string>
#include <system_error>

namespace fulgurite::checkpointing {

/// folder/name.ext, or folder/name-v1.ext, -v2, ... where that is taken: it exists, or `taken(path)` says so. `ours` is never taken.
template <class Taken>
std::filesystem::path unused_name(std::filesystem::path const& folder, std::string const& name, std::string const& extension,
                                  std::filesystem::path const& ours, Taken&& taken) {
  auto path = folder / (name + extension);
  std::error_code ignored;
  for (int version = 1; path != ours && (taken(path) || std::filesystem::exists(path, ignored)); ++version)
    path = folder / (name + "-v" + std::to_string(version) + extension);
  return path;
}

/// The file lies in the folder, or below it: only then may it be deleted to make room.
inline bool inside(std::filesystem::path const& folder, std::filesystem::path const& file) {
  auto const whole = [](std::filesystem::path const& path) { return std::filesystem::absolute(path).lexically_normal(); };
  auto const relative = whole(file).lexically_relative(whole(folder));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace fulgurite::checkpointing
