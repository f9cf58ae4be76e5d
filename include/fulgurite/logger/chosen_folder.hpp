#pragma once
// Which folder a run is logged in: the one that it goes on in, that of a logger before this one, or a new one.

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/folders.hpp>
#include <fulgurite/logger/folder_options.hpp>
#include <fulgurite/logger/version_folder.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite::logger {

/// Of a logger with such a `Table`; see FolderLogger for what it takes.
template <class Table>
class ChosenFolder {
 public:
  ChosenFolder(std::filesystem::path save_dir, FolderOptions options)
      : save_dir_(std::move(save_dir)), options_(std::move(options)) {
    check_folder(std::string(Table::owner), options_);
  }

  /// A run begins. Whether this process writes anything of it: rank 0 does, and nobody in a dev run.
  bool choose(auto& ctx, auto const& more) {
    auto const earlier = std::exchange(continued_, {});
    before_.reset();
    goes_on_ = false;
    if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return false;
    auto const root = root_of(ctx.options());
    if (!earlier.empty() && !options_.version) go_on_in(ctx, earlier, root);
    if (folder_.empty() && options_.version) {
      folder_ = root / ("version_" + std::to_string(*options_.version));
      file::make_folders(folder_);
    } else if (folder_.empty()) {
      folder_ = may_share(ctx.log_dir(), root) ? ctx.log_dir() : new_folder(root, more);
    }
    return true;
  }
  /// Told before a run begins: the folder of the run that it goes on with.
  void continue_in(std::filesystem::path folder) { continued_ = std::move(folder); }
  /// The run has failed before it went on: the folder is that of before.
  void do_not_continue() {
    continued_.clear();
    if (before_) folder_ = *std::exchange(before_, std::nullopt);
    goes_on_ = false;
  }
  void end() {
    continued_.clear();
    before_.reset();
  }

  bool is_chosen() const { return !folder_.empty(); }
  std::filesystem::path const& path() const { return folder_; }
  bool is(std::filesystem::path const& folder) const { return is_same(folder, folder_); }
  bool goes_on() const { return goes_on_; }
  FolderOptions const& options() const { return options_; }

  /// The folders of all runs that such a logger has made, or may continue.
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const& options) const {
    std::vector<std::filesystem::path> folders;
    auto const root = root_of(options);
    if constexpr (requires { Table::each_run(root, [](std::filesystem::path const&) {}); })
      Table::each_run(root, [&](std::filesystem::path const& folder) { folders.push_back(folder); });
    else
      each_version(root, [&](long number, std::filesystem::path const& folder) {
        if (!options_.version || *options_.version == number) folders.push_back(folder);
      });
    return folders;
  }

 private:
  std::filesystem::path root_of(TrainerOptions const& options) const {
    return folder_root(save_dir_, options_, options);
  }
  static bool is_same(std::filesystem::path const& a, std::filesystem::path const& b) {
    std::error_code missing;
    return a == b || std::filesystem::equivalent(a, b, missing);
  }
  static std::filesystem::path new_folder(std::filesystem::path const& root, auto const& more) {
    if constexpr (requires { Table::new_run(root, more); }) return Table::new_run(root, more);
    else return new_version(root);
  }
  /// A logger before this one has made the run's folder where this one would, and is of another kind.
  static bool may_share(std::filesystem::path const& folder, std::filesystem::path const& root) {
    std::error_code missing;
    return !folder.empty() && is_same(folder.parent_path(), root) &&
           !std::filesystem::exists(folder / Table::lock, missing);
  }

  /// A program that logs elsewhere by now does not write into the folders of another one.
  void go_on_in(auto& ctx, std::filesystem::path const& folder, std::filesystem::path const& root) {
    before_ = folder_;
    std::error_code missing;
    bool const is_there = std::filesystem::is_directory(folder, missing);
    if (is_there && is_same(folder.parent_path(), root)) {
      goes_on_ = true;
      folder_ = folder;
      return;
    }
    folder_.clear();
    ctx.warn_each("fulgurite.logger.new_folder",
                  std::string(Table::owner) + ": the run that goes on was logged in " + folder.string() +
                      (is_there ? ", which is not in " + root.string() : std::string(", which is not there")) +
                      ": its rows go on in a new folder");
  }

  std::filesystem::path save_dir_;
  FolderOptions options_;
  std::filesystem::path folder_{};
  std::filesystem::path continued_{};                           ///< of the run that the next fit goes on with
  std::optional<std::filesystem::path> before_ = std::nullopt;  ///< its folder before that one, until the fit is over
  bool goes_on_ = false;
};

}  // namespace fulgurite::logger
