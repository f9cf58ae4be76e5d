#pragma once
// Identifiers of warnings: their form, those of the library, and a list of them that are not to be printed.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

namespace loop {

/// Everything that the library warns of, without `fulgurite.` in front.
// clang-format off
inline constexpr auto library_warnings = std::to_array<std::string_view>({
    "callback.checkpoint_folder", "callback.checkpoint_gone", "callback.checkpoint_moved",
    "callback.checkpoint_old_value", "callback.checkpoint_waits", "callback.learning_rate", "callback.once_a_window",
    "callback.patience_spent",
    "callback.profiler_too_short",
    "capture.eager", "capture.gone_back", "capture.unchecked", "checkpoint.failed_too", "checkpoint.forgets_part",
    "checkpoint.forgets_place", "cli.variable", "data.none", "data.uneven", "data.waits", "exception.second",
    "hook.once_a_window", "logger.new_folder", "logger.rows_dropped", "loop.non_finite_skipped", "loop.scaler_skips",
    "manual.dropped_gradients", "manual.no_gradients", "manual.not_cleared", "metric.no_logger", "metric.undefined",
    "options.barebones_log", "options.dev_run", "options.few_rows", "options.long_window", "options.overfit_order",
    "options.save_in_background", "precision.default_type", "precision.loss_type", "resume.after_exception",
    "resume.after_requeue", "resume.callback", "resume.damaged", "resume.data_state", "resume.finished",
    "resume.hidden", "resume.no_callback", "resume.no_last", "resume.no_state", "resume.options", "resume.passed_over",
    "resume.skips", "resume.untold", "run.failing", "run.requeue", "schedule.metric", "tuner.no_suggestion",
    "tuner.not_searched", "tuner.unanswered"});
// clang-format on

/// Words of lower-case letters, digits and underscores with points between them, two at least.
constexpr bool is_identifier(std::string_view text) {
  bool const spelt = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  return spelt && text.find('.') != text.npos && !text.starts_with('.') && !text.ends_with('.') &&
         text.find("..") == text.npos;
}
/// It is one, and where it says that it is of the library, the library has it.
constexpr bool is_warning(std::string_view identifier) {
  constexpr std::string_view ours = "fulgurite.";
  if (!is_identifier(identifier)) return false;
  return !identifier.starts_with(ours) || std::find(library_warnings.begin(), library_warnings.end(),
                                                    identifier.substr(ours.size())) != library_warnings.end();
}

}  // namespace loop

/// Warnings that are not printed: `.silence = {"fulgurite.capture.eager"}`. `trainer.warnings()` holds them all the
/// same. The texts are borrowed: give literals.
class Silence {
 public:
  constexpr Silence() = default;
  constexpr Silence(std::initializer_list<std::string_view> identifiers)
      : Silence(std::vector<std::string_view>(identifiers)) {}
  constexpr explicit Silence(std::vector<std::string_view> identifiers) : identifiers_(std::move(identifiers)) {
    for (auto const identifier : identifiers_)
      if (!loop::is_warning(identifier))
        throw Error("fulgurite.options.silence", std::string(identifier) + " is no warning of the library: write the "
                                                                           "identifier that it has in front");
  }
  constexpr bool has(std::string_view identifier) const {
    return std::find(identifiers_.begin(), identifiers_.end(), identifier) != identifiers_.end();
  }
  constexpr std::vector<std::string_view> const& all() const { return identifiers_; }

 private:
  std::vector<std::string_view> identifiers_{};
};

}  // namespace fulgurite
