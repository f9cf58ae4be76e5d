#pragma once
// Shared by callbacks that watch a run: which value is better, and when to check.

#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

namespace watch {

/// True if `a` is strictly better than `b`. False if either is NaN.
constexpr bool better(Mode mode, double a, double b) { return mode == Mode::min ? a < b : a > b; }

/// A value that every number is better than.
constexpr double worst(Mode mode) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return mode == Mode::min ? infinity : -infinity;
}

/// True in a real fit: false in other stages, the sanity check, a fast_dev_run, and barebones.
bool in_fit(auto const& ctx) {
  return ctx.stage() == Stage::fit && !ctx.sanity_checking() && !ctx.dev_run() && !ctx.options().barebones;
}

/// True if this step (or batch of an evaluation), counted from 0, has a row of its own by log_every_n_steps.
bool logs_rows_of(auto const& ctx, long step) {
  long const every = ctx.options().log_every_n_steps;
  return every != 0 && (step + 1) % every == 0;
}

/// True if the metric is checked at the end of the training epoch, false if at the end of each validation. By default
/// it is true if validation runs once at the end of each epoch, or never; `said` overrides that.
bool at_train_epoch_end(std::optional<bool> said, auto const& ctx) {
  return said.value_or(!ctx.has_validation() || ctx.validating_each_epoch_end());
}

}  // namespace watch

namespace run_output {

// Where a callback writes the files of a run, and the run's name.

/// The folder given to the callback, else the run's, else default_root_dir, which is created if it does not exist. An
/// empty result means the current directory of the program.
std::filesystem::path folder(Context const& ctx, std::filesystem::path const& dirpath);

/// "fit", "validate", "test" or "predict".
constexpr std::string_view name_of(Stage stage) {
  constexpr std::string_view names[] = {"fit", "validate", "test", "predict"};
  return names[static_cast<int>(stage)];
}

}  // namespace run_output
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/watch.ipp>
#endif
