#pragma once
// What a ModelCheckpoint can say of the files that it keeps.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_place.hpp>
#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/loop/outcome.hpp>
#include <fulgurite/report/yaml.hpp>

namespace fulgurite::checkpointing {

/// Its options, its folder, and its files.
class Results {
 public:
  /// The best file; where no metric is watched, the latest one. Empty while there is none.
  std::filesystem::path const& best_model_path() const { return kept_.ranking().best; }
  std::optional<double> best_model_score() const { return kept_.ranking().best_score; }
  std::optional<double> current_score() const { return current_; }
  std::filesystem::path const& last_model_path() const { return kept_.last().file; }
  std::filesystem::path const& dirpath() const { return place_.folder(); }
  std::vector<std::filesystem::path> const& best_k_models() const { return top().paths(); }  ///< in the order of saving
  std::vector<double> const& best_k_scores() const { return top().scores(); }
  /// The file that gives way next, and its value; empty, and nothing, while fewer than k are kept.
  std::filesystem::path kth_best_model_path() const {
    return top().full() && top().size() != 0 ? top().worst_path() : std::filesystem::path{};
  }
  std::optional<double> kth_value() const {
    return top().full() && top().size() != 0 ? std::optional(top().worst_score()) : std::nullopt;
  }

  /// Writes the files that are kept and their values as YAML, "path: value" in each line, to best_k_models.yaml in the
  /// folder unless a file is given.
  void to_yaml(std::filesystem::path const& file = {}) const {
    std::string text;
    for (std::size_t i = 0; i != top().size(); ++i)
      text += report::yaml(top().paths()[i].string()) + ": " + report::yaml(top().scores()[i]) + "\n";
    write_durably(file.empty() ? dirpath() / "best_k_models.yaml" : file, text.empty() ? "{}\n" : text);
  }

 protected:
  /// `watched`: the metric as it is watched, and `metric` its own name; both empty where none is.
  Results(ModelCheckpointOptions options, std::string watched, std::string_view metric)
      : options_(std::move(options)),
        place_(options_.dirpath),
        kept_(options_),
        watched_(std::move(watched)),
        metric_(metric) {}

  void tell(bool here, std::string const& what) const {
    if (options_.verbose && here) fulgurite::tell(stderr, "ModelCheckpoint: " + what + "\n");
  }

  void settle(SavedFile const& saved, Outcome& outcome) const {
    if (!saved.file.empty()) outcome.last_file = saved.file;
    publish(outcome);
    if (saved.failure) std::rethrow_exception(saved.failure);
  }

  void publish(Outcome& outcome) const {
    auto const& ranking = kept_.ranking();
    if (watched_.empty() || !ranking.best_score) return;
    outcome.best_metric = watched_;
    outcome.best_metric_name = metric_;
    outcome.best_value = ranking.best_score;
    outcome.best_epoch = ranking.best_epoch;
    outcome.best_file = ranking.best;
  }

  TopK const& top() const { return kept_.ranking().top; }
  bool writes_any() const { return options_.save_top_k != 0 || options_.save_last.kind != SaveLast::no; }

  ModelCheckpointOptions options_;
  Place place_;
  KeptFiles kept_;
  std::optional<double> current_ = std::nullopt;

 private:
  std::string watched_, metric_;
};

}  // namespace fulgurite::checkpointing
