#pragma once
// Where a logger's folders lie, as its options say, and which of these cannot be.

#include <filesystem>
#include <optional>
#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite::logger {

/// Which folder below save_dir belongs to the run, and what its columns are called: what the options of each logger
/// say.
struct FolderOptions {
  std::string name = {};
  std::optional<long> version = std::nullopt;
  std::string prefix = {};
};

/// Refuses a name that leads elsewhere, and a version that is none. `owner` is the logger's name.
FULGURITE_COLD void check_folder(std::string const& owner, FolderOptions const& options) {
  auto const name = std::filesystem::path(options.name).lexically_normal();
  if (name.has_root_path() || (!name.empty() && *name.begin() == "..") || options.name.find('\0') != std::string::npos)
    throw Error("fulgurite.logger.name",
                owner + ": the name '" + options.name.substr(0, options.name.find('\0')) +
                    "' leads out of save_dir: give a folder below it, and the rest of the way as save_dir");
  if (options.version && *options.version < 0)
    throw Error("fulgurite.logger.version",
                owner + ": version = " + std::to_string(*options.version) + ": versions begin with 0");
}

/// The folder around the versions.
FULGURITE_COLD std::filesystem::path folder_root(std::filesystem::path const& save_dir, FolderOptions const& options,
                                                 TrainerOptions const& trainer) {
  return ((save_dir.empty() ? trainer.default_root_dir.path() : save_dir) / options.name).lexically_normal();
}

}  // namespace fulgurite::logger
