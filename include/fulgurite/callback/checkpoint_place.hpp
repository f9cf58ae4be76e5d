#pragma once
// The folder that a ModelCheckpoint writes to, and what it has to do with the folder of a run that was resumed.

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>

namespace fulgurite::checkpointing {

/// A folder, and the one that a loaded state names.
class Place {
 public:
  /// `given` is the folder that the options name; empty where they name none.
  explicit Place(std::filesystem::path given) : given_(std::move(given)) {}

  std::filesystem::path const& folder() const { return folder_; }

  /// Where files of this run and of earlier ones may lie: in the folder; before a run is set up in the folders that
  /// earlier runs may have had, which are those of the loggers' runs where there is a logger.
  FULGURITE_COLD std::vector<std::filesystem::path> folders(CheckpointSearch const& search) const {
    if (!folder_.empty()) return {folder_};
    if (!given_.empty()) return {given_};
    if (!search.runs) return {(search.root / "checkpoints").lexically_normal()};
    std::vector<std::filesystem::path> folders;
    for (auto const& run : *search.runs) folders.push_back(run / "checkpoints");
    return folders;
  }

  /// A run is set up: the folder is the one given, else `checkpoints` in the first logger's folder, else in
  /// default_root_dir. Returns whether it is another one than that of a run which was loaded before.
  bool choose(auto& ctx) {
    before_ = folder_;
    if (!given_.empty()) folder_ = given_;
    else if (!ctx.log_dir().empty()) folder_ = ctx.log_dir() / "checkpoints";
    else folder_ = (ctx.options().default_root_dir / "checkpoints").lexically_normal();
    folder_ = ctx.of_first_rank(folder_.string());  // loggers name theirs there alone
    chosen_ = true;
    return moved();
  }

  /// Warns where files of others lie in the folder.
  void tell_of_files(auto& ctx) const {
    std::error_code none;
    if (std::filesystem::is_directory(folder_, none) && !std::filesystem::is_empty(folder_, none))
      ctx.warn_each("fulgurite.callback.checkpoint_folder",
                    "ModelCheckpoint: " + folder_.string() + " is not empty: what lies there is left alone");
  }

  /// Warns, once, where the run goes on in another folder than the one that was loaded. Returns whether it does.
  bool tell_of_move(auto& ctx) {
    auto const from = std::exchange(moved_from_, {});
    if (!from.empty())
      ctx.warn_each("fulgurite.callback.checkpoint_moved",
                    "ModelCheckpoint: resumed from " + from.string() + " into " + folder_.string() +
                        ": the best file is remembered, the other kept ones are left alone");
    return !from.empty();
  }

  /// Loading, the folder is that of the run before, unless one was given or chosen. Returns whether that is another.
  bool state(auto& archive) {
    auto saved = folder_;
    archive("dirpath", saved);
    if (!archive.loading) return false;
    loaded_ = saved;
    if (!given_.empty()) folder_ = given_;
    else if (!chosen_) folder_ = saved;
    return moved();
  }
  /// Nothing was resumed after all: the folder is that of before, and the next run moves from nowhere.
  void do_not_continue() {
    folder_ = before_;
    loaded_.clear();
    moved_from_.clear();
    other_spelling_.clear();
  }
  /// The loaded state spells this folder in another way, as "runs/c" and "./runs/c" are one; else empty. Asked
  /// once.
  std::filesystem::path take_other_spelling() { return std::exchange(other_spelling_, {}); }
  /// The move was told of before.
  void forget_move() { moved_from_.clear(); }

 private:
  /// A run that is resumed into another folder must not delete what the first one left.
  bool moved() {
    if (loaded_.empty() || folder_.empty() || loaded_ == folder_) return false;
    bool const same = is_same(loaded_, folder_);
    (same ? other_spelling_ : moved_from_) = std::exchange(loaded_, {});
    return !same;
  }
  FULGURITE_COLD static bool is_same(std::filesystem::path const& one, std::filesystem::path const& other) {
    std::error_code no_one, no_other;
    auto const a = std::filesystem::weakly_canonical(std::filesystem::absolute(one), no_one),
               b = std::filesystem::weakly_canonical(std::filesystem::absolute(other), no_other);
    return !no_one && !no_other && a == b;
  }

  std::filesystem::path given_;
  std::filesystem::path folder_{};
  std::filesystem::path before_{};  ///< the folder before this call's setup
  std::filesystem::path loaded_{}, moved_from_{}, other_spelling_{};
  bool chosen_ = false;
};

}  // namespace fulgurite::checkpointing
