#pragma once
// Which of the files that a ModelCheckpoint keeps is the best, and which gives way to the next one.

#include <filesystem>
#include <optional>
#include <vector>

#include <fulgurite/callback/saving_file.hpp>
#include <fulgurite/callback/top_k.hpp>

namespace fulgurite::checkpointing {

/// Where no metric is watched the latest file is the best, and it has no score.
struct Ranking {
  TopK top;
  std::filesystem::path best = {};
  std::optional<double> best_score = std::nullopt;
  int best_epoch = 0;
  /// Files that gave way to others, and are yet to be removed. The file that displaces one names it here: a run that
  /// ends between the two leaves the removal to the run that goes on.
  std::vector<std::filesystem::path> outdated = {};

  /// The file that gives way to this one, whose name it may have; nullopt where none does.
  std::optional<std::filesystem::path> displaced_by(SavingFile const& now, int save_top_k) const {
    if (now.score) return top.displaced();
    if (save_top_k == 1 && !best.empty()) return best;
    return std::nullopt;
  }

  void add(std::filesystem::path const& file, SavingFile const& now, int save_top_k) {
    if (now.score) {
      for (auto& dropped : top.add(file, *now.score, now.epoch)) outdated.push_back(std::move(dropped));
      take_best();
    } else {
      if (auto const before = displaced_by(now, save_top_k)) outdated.push_back(*before);
      best = file;
      best_epoch = now.epoch;
    }
    keep(file);
  }

  /// The file is written, perhaps once more, and stays.
  void keep(std::filesystem::path const& file) { std::erase(outdated, file); }

  /// The best file is the best one of those that are left.
  void take_best() {
    bool const any = top.size() != 0;
    best = any ? top.best_path() : std::filesystem::path();
    best_score = any ? std::optional(top.best_score()) : std::nullopt;
    best_epoch = any ? top.best_epoch() : 0;
  }
};

}  // namespace fulgurite::checkpointing
