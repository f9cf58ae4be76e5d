#pragma once
// Part of a run's state: what it has made so far, and where that lies.

#include <filesystem>

#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/outcome.hpp>

namespace fulgurite::loop {

struct Made {
  HeldFiles held_files{};           ///< checkpoint files, and who counts on them
  std::filesystem::path log_dir{};  ///< the first logger's folder
  Outcome outcome{};
  std::filesystem::path log_dir_before{}, metrics_file_before{};  ///< what both were before the call's setup
};

}  // namespace fulgurite::loop
