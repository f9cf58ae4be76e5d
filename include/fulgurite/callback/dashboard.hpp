#pragma once
// Shows a run at a glance in a terminal: curves, progress bar, throughput, memory.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/run_folder.hpp>

namespace fulgurite::report {

// Formats a dashboard's state as lines for a terminal of any size.

/// The parts of a frame, of any width: frame_lines fits them into the terminal.
struct DashboardFrame {
  std::string head{};                ///< model, epoch, step, time
  std::vector<Curve> curves{};       ///< curves of one kind share a plot
  std::vector<std::string> bars{};   ///< progress bars, made for the terminal's width
  std::vector<std::string> facts{};  ///< shown at the bottom: throughput, memory; three spaces between them
};

namespace dashboard {

/// Joins facts by three spaces. A fact for which there is no room is left out as a whole, since a number that is cut in
/// two reads as another number.
std::string facts_within(std::string_view facts, std::size_t columns);

}  // namespace dashboard

/// The lines of a frame, none wider than `width`, at most `height` of them if `height` is at least 5. If a plot has
/// only one curve, the curve's name is the plot's title.
std::vector<std::string> frame_lines(DashboardFrame const& frame, std::size_t width, std::size_t height, Glyphs glyphs);

}  // namespace fulgurite::report

namespace fulgurite {

// How a run uses the machine, in one line: samples a second, memory, cores.

/// Rates are those since the previous line.
class ResourcesLine {
 public:
  void begin();
  void count(long samples) { samples_ += samples; }

  /// The line at time `now`, in seconds.
  std::string text(Context& ctx, double now);

 private:
  report::HostStats host_{};
  report::Rate rate_{};
  long samples_ = 0, counted_ = 0;
  std::optional<double> counted_at_ = std::nullopt;
};

/// Options of Dashboard: where it is drawn, its size, and how often it is redrawn.
struct DashboardOptions {
  std::FILE* stream = stderr;            ///< where it is drawn
  int columns = 0, lines = 0;            ///< 0: the terminal's
  double seconds_between_redraws = 0.2;  ///< minimum
  std::optional<bool> terminal =
      std::nullopt;  ///< not given: detected from the stream. false: prints the progress bar's lines
  std::optional<report::Glyphs> glyphs = std::nullopt;  ///< not given: detected from the environment's locale
  bool redirect =
      true;  ///< prints the output of std::cout, std::cerr and std::clog on this terminal above the dashboard
};

/// Shows a fit in a terminal; use `Dashboard{}` instead of `ProgressBar{}`. It shows curves of the logged metrics, a
/// bar for the epoch and one for a running validation, batches and samples a second, and memory. If the output is not a
/// terminal, and in validate, test and predict, it is a progress bar. It receives rows as loggers do, in addition to
/// them: the points of the curves are the rows (log_every_n_steps), and it never waits for a device. Other output is
/// kept above it, as with the bar. Rates count the work of this process. Only rank zero draws.
class Dashboard {
 public:
  /// ProgressBar's hooks, since the dashboard is a progress bar if there is no terminal, and log_metrics.
  template <class... Ofs>
  static Implements<Ofs..., hook::log_metrics> and_rows(Implements<Ofs...>);
  using Hooks = decltype(and_rows(ProgressBar::Hooks{}));
  using Stateless = ByChoice;  // a dashboard shows only the present
  static constexpr Order order = Order::progress;
  static constexpr bool ignores_tensors = true;
  static constexpr bool draws_on_terminal = true;  ///< there is only one terminal, so a sweep refuses this callback
  static constexpr bool draws_rows = true, inert_in_dev_run = false;

  explicit Dashboard(DashboardOptions options = {});
  FULGURITE_NAMED_OPTIONS(Dashboard);

  void on_fit_start(Context& ctx);
  void on_train_start(Context& ctx);
  void on_sanity_check_start(Context& ctx);
  void on_sanity_check_end(Context& ctx);
  void on_train_epoch_start(Context& ctx);
  void on_train_batch_end(Context& ctx);
  void on_train_epoch_end(Context& ctx);
  void on_train_end(Context& ctx);

  void on_validation_start(Context& ctx);
  void on_validation_batch_end(Context& ctx);
  void on_validation_end(Context& ctx);
  void on_test_start(Context& ctx) { notify_bar<hook::on_test_start>(ctx); }
  void on_test_batch_end(Context& ctx) { notify_bar<hook::on_test_batch_end>(ctx); }
  void on_test_end(Context& ctx) { notify_bar<hook::on_test_end>(ctx); }
  void on_predict_start(Context& ctx) { notify_bar<hook::on_predict_start>(ctx); }
  void on_predict_batch_end(Context& ctx) { notify_bar<hook::on_predict_batch_end>(ctx); }
  void on_predict_end(Context& ctx) { notify_bar<hook::on_predict_end>(ctx); }

  void log_metrics(std::span<Scalar const> row, long step);

  void on_fit_end(Context& ctx);
  /// Leaves the dashboard on the screen; the text of the error begins below it.
  void on_exception(std::exception const& error, Context& ctx);

 private:
  template <class Hook>
  void notify_bar(Context& ctx) {
    invoke<Hook>(bar_, ctx);
  }
  bool shows(Context& ctx) const;
  void end();
  bool due(double now);

  void draw(Context& ctx, double now);

  DashboardOptions options_;
  bool terminal_;
  report::Glyphs glyphs_;
  report::BlockOfLines block_;
  ProgressBar bar_;
  report::History history_{500};
  RunMeters meters_{};
  ResourcesLine resources_{};
  bool on_ = false;
};

// An image of all curves of a run, updated while it trains.

/// Options of LearningCurves: where the image is written, and how often it is redrawn.
struct LearningCurvesOptions {
  std::filesystem::path dirpath = {};   ///< not given: the run's folder, else default_root_dir
  std::string filename = "curves.svg";  ///< the name of the file in that folder
  double seconds_between_pictures = 1;  ///< minimum while a fit runs; the image is always drawn at its end
  std::size_t columns = 2;              ///< plots in each row
};

/// Draws the logged metrics into one SVG file, `curves.svg` in the run's folder: `LearningCurves{}`. Metrics of one
/// kind, such as train/loss and val/loss, share a plot; learning rates that LearningRateMonitor logs are drawn, too.
/// The file is rewritten atomically after each epoch and each validation, so a browser that shows it never reads half
/// an image. A resumed run continues its curves. It receives rows as loggers do, in addition to them, so the values are
/// those of the rows (log_every_n_steps). Only rank zero draws.
class LearningCurves {
 public:
  using Hooks = Implements<hook::on_fit_start, hook::on_train_epoch_start, hook::on_validation_end, hook::on_train_end,
                           hook::on_fit_end, hook::on_exception, hook::log_metrics>;
  static constexpr Order order = Order::monitor;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool draws_rows = true;

  explicit LearningCurves(LearningCurvesOptions options = {});
  FULGURITE_NAMED_OPTIONS(LearningCurves);

  void on_fit_start(Context& ctx);
  void log_metrics(std::span<Scalar const> row, long step);
  void on_train_epoch_start(Context& ctx) { draw(ctx, false); }
  void on_validation_end(Context& ctx);
  void on_train_end(Context& ctx) { draw(ctx, true); }
  void on_fit_end(Context& ctx) { draw(ctx, true); }
  void on_exception(Context& ctx) { draw(ctx, true); }

  /// All curves so far.
  std::vector<report::Curve> curves() const { return history_.curves(); }
  /// The path of the image, once it has been drawn.
  std::filesystem::path const& path() const { return path_; }

  void state(auto& archive);

 private:
  void draw(Context& ctx, bool ends);

  LearningCurvesOptions options_;
  report::History history_{};
  std::filesystem::path path_{};
  double drawn_ = -std::numeric_limits<double>::infinity();
  bool is_new_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/dashboard.ipp>
#endif
