#pragma once
// The k best files by the value of a metric, in the order in which they were written.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// Keeps the k best files; k = -1 keeps all, 0 none. Among equal values the earlier file wins.
class TopK {
 public:
  TopK(Mode mode, int k) : mode_(mode), k_(k) {}

  std::size_t size() const { return scores_.size(); }
  bool full() const { return k_ >= 0 && scores_.size() >= static_cast<std::size_t>(k_); }

  /// Whether a value is admitted: there is room, or it is strictly better than the worst that is kept.
  bool admits(double score) const {
    if (k_ == 0) return false;
    return !full() || watch::better(mode_, score, scores_[worst_at()]);
  }
  /// The file that gives way when another one is admitted.
  std::optional<std::filesystem::path> displaced() const {
    return full() && size() != 0 ? std::optional(paths_[worst_at()]) : std::nullopt;
  }
  /// Adds a file, which has one place only: where it is written once more it loses the earlier one. Where there is no
  /// room, the worst file is dropped: several where k has become smaller. Returns those that were dropped.
  FULGURITE_COLD std::vector<std::filesystem::path> add(std::filesystem::path file, double score, int epoch) {
    drop(file);
    std::vector<std::filesystem::path> dropped;
    while (full() && size() != 0) {
      dropped.push_back(worst_path());
      drop(worst_at());
    }
    paths_.push_back(std::move(file));
    scores_.push_back(score);
    epochs_.push_back(epoch);
    return dropped;
  }
  bool contains(std::filesystem::path const& file) const {
    return std::find(paths_.begin(), paths_.end(), file) != paths_.end();
  }
  /// Forgets a file, if it is there.
  void drop(std::filesystem::path const& file) {
    if (auto const found = std::find(paths_.begin(), paths_.end(), file); found != paths_.end())
      drop(static_cast<std::size_t>(found - paths_.begin()));
  }
  /// Each file gets the name that `named(file)` says.
  void rename(FunctionRef<std::filesystem::path(std::filesystem::path const&)> named) {
    for (auto& path : paths_) path = named(path);
  }
  void clear() {
    paths_.clear();
    scores_.clear();
    epochs_.clear();
  }

  /// The best file; only to be asked for while some file is kept.
  std::filesystem::path const& best_path() const { return paths_[best_at()]; }
  double best_score() const { return scores_[best_at()]; }
  int best_epoch() const { return epochs_[best_at()]; }
  /// The worst file that is kept; once there are k, a new one must be better.
  std::filesystem::path const& worst_path() const { return paths_[worst_at()]; }
  double worst_score() const { return scores_[worst_at()]; }
  std::vector<std::filesystem::path> const& paths() const { return paths_; }
  std::vector<double> const& scores() const { return scores_; }

  void state(auto& archive) { archive("paths", paths_)("scores", scores_)("epochs", epochs_); }

 private:
  FULGURITE_COLD void drop(std::size_t place) {
    auto const at = static_cast<std::ptrdiff_t>(place);
    paths_.erase(paths_.begin() + at);
    scores_.erase(scores_.begin() + at);
    epochs_.erase(epochs_.begin() + at);
  }
  FULGURITE_COLD std::size_t first(Mode mode) const {
    std::size_t at = 0;
    for (std::size_t i = 1; i < scores_.size(); ++i)
      if (watch::better(mode, scores_[i], scores_[at])) at = i;
    return at;
  }
  std::size_t best_at() const { return first(mode_); }
  std::size_t worst_at() const { return first(mode_ == Mode::min ? Mode::max : Mode::min); }

  Mode mode_;
  int k_;
  std::vector<std::filesystem::path> paths_;
  std::vector<double> scores_;
  std::vector<int> epochs_;
};

}  // namespace fulgurite
