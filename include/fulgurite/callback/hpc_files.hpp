#pragma once
// The numbered files from which a job that a cluster has begun again goes on.

#include <charconv>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>

namespace fulgurite::checkpointing {

/// `hpc_ckpt_1.safetensors`, `hpc_ckpt_2.safetensors`, ... of a folder; the tasks of an array have each their own, as
/// `hpc_ckpt_task7_1.safetensors`, and so have the fits of a program that follow each other, `hpc_ckpt_fit2_1`.
class HpcFiles {
 public:
  HpcFiles() = default;
  HpcFiles(std::filesystem::path folder, std::string const& task, long fit = 1)
      : folder_(std::move(folder)), prefix_("hpc_ckpt_" + (task.empty() ? "" : "task" + task + "_")) {
    if (fit > 1) prefix_ += "fit" + std::to_string(fit) + "_";
  }

  /// Those that are there, the highest number first.
  std::vector<std::filesystem::path> all() const {
    std::vector<std::filesystem::path> files;
    for (auto const& [number, file] : numbered()) files.push_back(file);
    return files;
  }
  /// The one after the highest.
  FULGURITE_COLD std::filesystem::path next() const {
    auto const there = numbered();
    auto const number = there.empty() ? 1 : there.front().first + 1;
    return folder_ / (prefix_ + std::to_string(number) + std::string(suffix));
  }

 private:
  static constexpr std::string_view suffix = ".safetensors";

  FULGURITE_COLD std::vector<std::pair<long, std::filesystem::path>> numbered() const {
    std::vector<std::pair<long, std::filesystem::path>> found;
    std::error_code none;  // a folder that is not there has no files
    for (auto const& entry : std::filesystem::directory_iterator(folder_, none)) {
      auto const name = entry.path().filename().string();
      if (!name.starts_with(prefix_) || !name.ends_with(suffix)) continue;
      auto const* const end = name.data() + name.size() - suffix.size();
      long number = 0;
      auto const [stop, error] = std::from_chars(name.data() + prefix_.size(), end, number);
      if (error == std::errc() && stop == end && number > 0) found.emplace_back(number, entry.path());
    }
    sort_seldom(found, std::greater{});
    return found;
  }

  std::filesystem::path folder_{};
  std::string prefix_{};
};

}  // namespace fulgurite::checkpointing
