#pragma once
// The last line of a fit: the best value, its epoch, the time it took, where the files are.

#include <string>

#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

/// The last line of a fit, such as "10 epochs, 630 steps in 00:22; best val/accuracy 0.983 in epoch 7; best file
/// runs/...; metrics lightning_logs/...". A part for which there is no value is left out.
template <class Outcome>
std::string outcome_line(Outcome const& outcome, int epochs, long steps, double seconds) {
  auto const some = [](auto count, char const* what) { return std::to_string(count) + what + (count == 1 ? "" : "s"); };
  std::string text = some(epochs, " epoch") + ", " + some(steps, " step") + " in " + clock_text(seconds);
  if (!outcome.ended_by.empty() && !outcome.ended_by.starts_with("max_epochs"))  // the epochs are said
    text += "; ended by " + outcome.ended_by;
  if (outcome.best_value)
    text += "; best " + outcome.best_metric + " " + formatted("%.4g", *outcome.best_value) + " in epoch " +
            std::to_string(outcome.best_epoch);
  auto const file = [&](char const* what, auto const& path) {
    if (!path.empty()) text += what + path.string();
  };
  file("; best file ", outcome.best_file);
  if (outcome.last_file != outcome.best_file) file("; last file ", outcome.last_file);
  file("; metrics ", outcome.metrics_file);
  return text;
}

}  // namespace fulgurite::report
