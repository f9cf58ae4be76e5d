#pragma once
// The k best files by a metric's value, in the order in which they were written.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include <fulgurite/callback/watch.hpp>

namespace fulgurite {

/// k = -1 keeps all, 0 none. Ties go to the earlier file.
class TopK {
 public:
  TopK(Mode mode, int k) : mode_(mode), k_(k) {}

  std::size_t size() const { return scores_.size(); }
  bool full() const { return k_ >= 0 && scores_.size() >= static_cast<std::size_t>(k_); }

  /// There is room, or the value is strictly better than the worst that is kept.
  bool admits(double score) const {
    if (k_ == 0) return false;
    return !full() || watch::better(mode_, score, scores_[worst_at()]);
  }
  /// The file that gives way when another one is admitted.
  std::optional<std::filesystem::path> displaced() const {
    return full() && size() != 0 ? std::optional(paths_[worst_at()]) : std::nullopt;
  }
  void add(std::filesystem::path file, double score) {
    if (full() && size() != 0) {
      auto const at = static_cast<std::ptrdiff_t>(worst_at());
      paths_.erase(paths_.begin() + at);
      scores_.erase(scores_.begin() + at);
    }
    paths_.push_back(std::move(file));
    scores_.push_back(score);
  }
  bool contains(std::filesystem::path const& file) const {
    for (auto const& path : paths_)
      if (path == file) return true;
    return false;
  }
  void clear() {
    paths_.clear();
    scores_.clear();
  }

  /// Undefined while nothing is kept.
  std::filesystem::path const& best_path() const { return paths_[best_at()]; }
  double best_score() const { return scores_[best_at()]; }
  /// The worst that is kept: what the next one must beat once k are.
  std::filesystem::path const& worst_path() const { return paths_[worst_at()]; }
  double worst_score() const { return scores_[worst_at()]; }
  std::vector<std::filesystem::path> const& paths() const { return paths_; }
  std::vector<double> const& scores() const { return scores_; }

  void state(auto& archive) { archive("paths", paths_)("scores", scores_); }

 private:
  std::size_t first(Mode mode) const {
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
};

}  // namespace fulgurite
