#pragma once
// The names of the files that a ModelCheckpoint keeps, the best or the latest ones and the one called last. They are
// names of files that exist.

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fulgurite/callback/checkpoint_ranking.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite::checkpointing {

/// The names, and the values that rank them.
class KeptNames {
 public:
  explicit KeptNames(ModelCheckpointOptions const& how) : ranking_{TopK(how.mode, how.save_top_k)} {}

  struct Last {
    std::filesystem::path file = {};
    long step = 0;
    /// The file that `file` is to lead to, or to be a copy of, until that is done. The state in that file names it: a
    /// run that ends between the two leaves last to the run that goes on.
    std::filesystem::path pending = {};
  };
  Ranking const& ranking() const { return ranking_; }
  Last const& last() const { return last_; }

  /// Registers the files that are kept, so that no other callback removes them. It is called when a fit starts, since a
  /// state may have been loaded.
  FULGURITE_COLD void hold(HeldFiles& held, HeldFiles::Holder holder) const {
    for (auto const& file : ranking_.top.paths()) held.hold(file, holder);
    for (auto const& file : {ranking_.best, last_.file})
      if (!file.empty()) held.hold(file, holder);
  }

  /// Those that are named here and are no longer on the disk.
  std::vector<std::filesystem::path> gone() const {
    std::vector<std::filesystem::path> files;
    auto const is_there = [](std::filesystem::path const& file) {
      std::error_code unknown;
      return std::filesystem::status(file, unknown).type() != std::filesystem::file_type::not_found;
    };
    auto const look = [&](std::filesystem::path const& file) {
      if (!file.empty() && !is_there(file) && std::find(files.begin(), files.end(), file) == files.end())
        files.push_back(file);
    };
    for (auto const& file : ranking_.top.paths()) look(file);
    look(ranking_.best);
    if (last_.pending.empty() || !is_there(last_.pending)) look(last_.file);  // else it is yet to be made
    return files;
  }
  /// They leave the ranking; the best file is the best one of those that are left.
  void forget(std::vector<std::filesystem::path> const& files) {
    auto const is_one = [&](auto const& file) { return std::find(files.begin(), files.end(), file) != files.end(); };
    for (auto const& file : files) ranking_.top.drop(file);
    if (is_one(last_.file)) last_ = {.step = last_.step};
    if (is_one(ranking_.best)) ranking_.take_best();
  }

  /// The folder is spelt in another way from now on, and so are the files in it. Nothing where `before` is empty.
  FULGURITE_COLD void respell(std::filesystem::path const& before, std::filesystem::path const& now) {
    if (before.empty()) return;
    auto const respelt = [&](std::filesystem::path const& file) {
      auto const inside = file.lexically_relative(before);
      return inside.empty() || *inside.begin() == ".." ? file : now / inside;
    };
    ranking_.top.rename(respelt);
    ranking_.best = respelt(ranking_.best);
    last_.file = respelt(last_.file);
    last_.pending = respelt(last_.pending);
    for (auto& file : ranking_.outdated) file = respelt(file);
  }

  /// Leaves the folder: the path of the best file is remembered, and all files stay as they are.
  void leave() {
    ranking_.top.clear();
    ranking_.outdated.clear();
    last_ = {.step = last_.step};
  }

  void state(auto& archive) {
    archive("best_model_path", ranking_.best)("best_model_score", ranking_.best_score)("best_epoch",
                                                                                       ranking_.best_epoch);
    archive("last_model_path", last_.file)("last_written_step", last_.step)("last_pending", last_.pending);
    archive("outdated", ranking_.outdated);
    archive.child("best_k_models", ranking_.top);
  }

 protected:
  Ranking ranking_;
  Last last_{};
};

}  // namespace fulgurite::checkpointing
