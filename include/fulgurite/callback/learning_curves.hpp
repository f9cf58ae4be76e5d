#pragma once
// A picture of all curves of a run, which is there while it trains.

#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/callback/run_output.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/plot_panels.hpp>

namespace fulgurite {

/// Where the picture is, and how often it is drawn anew.
struct LearningCurvesOptions {
  std::filesystem::path dirpath = {};  ///< not given: the run's folder, else default_root_dir
  std::string filename = "curves.svg";
  double seconds_between_pictures = 1;  ///< at least, while a fit runs; its end has a picture in any case
  std::size_t columns = 2;              ///< plots in a row
};

/// Draws what the model logs into one SVG file, `curves.svg` in the run's folder: `LearningCurves{}`. Metrics of one
/// kind, as train/loss and val/loss, share a plot; learning rates that LearningRateMonitor logs are there as well. The
/// file is rewritten when an epoch or a validation has ended, in one piece: a browser that shows it never finds half a
/// picture. A run that goes on draws on. It is given rows as a logger is, so the values are those of rows
/// (log_every_n_steps), and stands beside loggers; only rank 0 draws.
class LearningCurves {
 public:
  using Hooks = Implements<hook::on_fit_start, hook::on_train_epoch_start, hook::on_validation_end, hook::on_train_end,
                           hook::on_fit_end, hook::on_exception, hook::log_metrics>;
  static constexpr Order order = Order::monitor;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool draws_rows = true;

  explicit LearningCurves(LearningCurvesOptions options = {}) : options_(std::move(options)) {
    if (!options_.filename.ends_with(".svg") || options_.filename.find('/') != std::string::npos)
      throw Error("fulgurite.callback.curves_filename",
                  "LearningCurves: filename = '" + options_.filename +
                      "' is no name of a picture: it ends in .svg, and its folder is dirpath");
  }

  void on_fit_start(auto& ctx) {
    if (ctx.global_step() == 0) history_.clear();  // what a file holds is loaded later
  }
  void log_metrics(std::span<Scalar const> row, long step) {
    for (auto const& one : row)
      if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
    is_new_ = true;
  }
  void on_train_epoch_start(auto& ctx) { draw(ctx, false); }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) draw(ctx, false);
  }
  void on_train_end(auto& ctx) { draw(ctx, true); }
  void on_fit_end(auto& ctx) { draw(ctx, true); }
  void on_exception(auto& ctx) { draw(ctx, true); }

  /// All curves so far.
  std::vector<report::Curve> curves() const { return history_.curves(); }
  /// The picture, once there is one.
  std::filesystem::path const& path() const { return path_; }

  void state(auto& archive) { archive.child("curves", history_); }

 private:
  void draw(auto& ctx, bool ends) {
    if (!is_new_ || ctx.stage() != decltype(ctx.stage())::fit || ctx.rank() != 0 || ctx.dev_run()) return;
    double const now = ctx.seconds_now();
    if (!ends && now - drawn_ < options_.seconds_between_pictures) return;
    drawn_ = now;
    is_new_ = false;
    path_ = run_output::folder(ctx, options_.dirpath) / options_.filename;
    std::string title(type_name<std::remove_cvref_t<decltype(ctx.model())>>());
    title += ": epoch " + std::to_string(ctx.current_epoch()) + ", step " + std::to_string(ctx.global_step());
    write_whole(path_, report::svg_of(report::panels(history_.curves()), title, options_.columns));
  }

  LearningCurvesOptions options_;
  report::History history_{};
  std::filesystem::path path_{};
  double drawn_ = -std::numeric_limits<double>::infinity();
  bool is_new_ = false;
};

}  // namespace fulgurite
