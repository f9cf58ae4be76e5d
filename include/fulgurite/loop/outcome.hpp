#pragma once
// What a run has to show for itself.

#include <filesystem>
#include <optional>
#include <string>

namespace fulgurite {

/// Callbacks fill it, the last line of a fit is made of it.
struct Outcome {
  std::string best_metric = {};       ///< as it is watched: "vl.last()"
  std::string best_metric_name = {};  ///< the metric's own: "vl"
  std::optional<double> best_value = std::nullopt;
  int best_epoch = 0;
  std::filesystem::path best_file = {};
  std::filesystem::path last_file = {};
  std::filesystem::path metrics_file = {};
  /// What ended the last fit: "max_epochs = 10", "EarlyStopping: val/loss = ...", the reason that a stop request gave.
  /// Empty while it runs, after an exception, and where it was closed before its end.
  std::string ended_by = {};

  void state(auto& archive) {
    archive("best_metric", best_metric)("best_metric_name", best_metric_name)("best_value", best_value)(
        "best_epoch", best_epoch)("best_file", best_file)("last_file", last_file);
  }
};

}  // namespace fulgurite
