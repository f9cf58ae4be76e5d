#pragma once
// The names of files in a folder of checkpoints: which are allowed, which are free, and which belong to the folder.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite::checkpointing {

/// Explains why a file of that name would not lie in the folder; empty where it would.
FULGURITE_COLD std::string why_no_name(std::string const& name, std::string const& extension,
                                       std::filesystem::path const& folder = {}) {
  auto const holds_nul = [](std::string_view text) { return text.find('\0') != text.npos; };
  if (holds_nul(name) || holds_nul(extension) || holds_nul(folder.native()))
    return "it holds a NUL, at which the system would cut it off";
  std::filesystem::path const path(name);
  if (!path.has_filename()) return "it is empty, or ends in a folder: a file needs a name";
  if (extension.find('/') != extension.npos)
    return "its ending '" + extension + "' leads into another folder: begin it with a dot, as .safetensors";
  if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    return "'" + name + "' leads out of the folder: name the folder in .dirpath";
  return {};
}

/// The name of a file in a folder that several programs may share: it names the program and the model, so that no fit
/// resumes from the file of another one.
inline std::string name_of_run(std::string const& prefix, std::string_view model) {
  std::string name = prefix + "_";
#ifdef __GLIBC__
  name += program_invocation_short_name;
  name += "_";
#endif
  return name += model;
}

/// The first path that is free among folder/name.ext, folder/name-v1.ext, folder/name-v2.ext, ... `taken(path)` says
/// that one is not free; `ours` always is.
template <class Taken>
std::filesystem::path unused_name(std::filesystem::path const& folder, std::string const& name,
                                  std::string const& extension, std::filesystem::path const& ours, Taken&& taken) {
  auto path = folder / (name + extension);
  for (int version = 1; path != ours && taken(path); ++version)
    path = folder / (name + "-v" + std::to_string(version) + extension);
  return path;
}

/// All files with that ending in the folder and below it.
FULGURITE_COLD std::vector<std::filesystem::path> files_of(std::filesystem::path const& folder,
                                                           std::string const& extension) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (std::filesystem::recursive_directory_iterator at(folder, none), end; !none && at != end; at.increment(none))
    if (at->path().filename().string().ends_with(extension) && at->is_regular_file(none)) files.push_back(at->path());
  return files;
}

/// Whether a file lies in the folder or below it. Only such files may be deleted to make room.
FULGURITE_COLD bool inside(std::filesystem::path const& folder, std::filesystem::path const& file) {
  auto const whole = [](std::filesystem::path const& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  auto const relative = whole(file).lexically_relative(whole(folder));
  return !relative.empty() && *relative.begin() != "..";
}

/// Whether last is not there, or is older than the file that it is to lead to, or to be a copy of.
FULGURITE_COLD bool is_behind(std::filesystem::path const& last, std::filesystem::path const& file) {
  namespace fs = std::filesystem;
  std::error_code none, unknown;
  auto const written = fs::last_write_time(file, none);
  if (none) return false;
  auto const of_last = fs::last_write_time(last, none);
  bool const is_other_link = fs::is_symlink(last, unknown) && !fs::equivalent(last, file, unknown);
  return none || of_last < written || (of_last == written && is_other_link);
}

/// Removes a file that is no longer needed, and the folders that its name has made, as "{val/loss}" does, where they
/// are empty.
FULGURITE_COLD void make_room(CheckpointFiles& files, std::filesystem::path const& folder,
                              std::filesystem::path const& file) {
  if (!inside(folder, file) || !files.give_up(file)) return;
  std::error_code full;
  for (auto around = file.parent_path();
       inside(folder, around) && !std::filesystem::equivalent(folder, around, full) && !full;
       around = around.parent_path())
    if (std::filesystem::is_symlink(around, full) || !std::filesystem::remove(around, full)) return;
}

}  // namespace fulgurite::checkpointing
