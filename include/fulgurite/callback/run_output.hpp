#pragma once
// Where a callback writes what belongs to a run, and what it calls the run.

#include <filesystem>
#include <string_view>

#include <fulgurite/checkpoint/folders.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::run_output {

/// The folder that the callback was told, else the run's, else default_root_dir, which is made where it is missing.
/// Empty is the folder that the program runs in.
std::filesystem::path folder(auto& ctx, std::filesystem::path const& dirpath) {
  auto folder = dirpath.empty() ? ctx.log_dir() : dirpath;
  if (folder.empty()) folder = ctx.options().default_root_dir.path();
  if (!folder.empty()) file::make_folders(folder);
  return folder;
}

/// "fit", "validate", "test" or "predict".
constexpr std::string_view name_of(Stage stage) {
  constexpr std::string_view names[] = {"fit", "validate", "test", "predict"};
  return names[static_cast<int>(stage)];
}

}  // namespace fulgurite::run_output
