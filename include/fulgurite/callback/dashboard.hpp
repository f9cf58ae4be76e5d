#pragma once
// A run at one glance in a terminal: curves, bar, throughput, memory.

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite::report {

// What a dashboard shows at one moment, as lines for a terminal of any size.

/// The parts of a frame, each as wide as it likes: it is made to fit.
struct DashboardFrame {
  std::string head{};                ///< model, epoch, step, time
  std::vector<Curve> curves{};       ///< those of one kind share a plot
  std::vector<std::string> bars{};   ///< progress bars, made for the width
  std::vector<std::string> facts{};  ///< what stands below: throughput, memory; three blanks between them
};

namespace dashboard {

inline constexpr std::size_t narrowest = 38, lowest = 9, highest = 16;

std::vector<std::string> lines_of(std::string_view text);
/// A line of exactly so many columns.
std::string filled(std::string_view line, std::size_t columns);

/// Facts with three blanks between them. Those that find no room are left out as a whole, as a number that is cut in
/// two reads as another one.
std::string facts_within(std::string_view facts, std::size_t columns);
/// A title that is too wide loses its beginning: names of metrics differ at their ends.
std::string title_within(std::string_view title, std::size_t columns, Glyphs glyphs);

/// Plots side by side: as many as their width lets in, in as many rows as the height lets in.
std::vector<std::string> plots_of(std::vector<Plot> plots, std::size_t width, std::size_t height, Glyphs glyphs);

}  // namespace dashboard

/// The lines of a frame, none wider than `width`, no more than `height` of them where that is 5 at least. A curve alone
/// in its plot has its name as the plot's title.
std::vector<std::string> frame_lines(DashboardFrame const& frame, std::size_t width, std::size_t height, Glyphs glyphs);

}  // namespace fulgurite::report

namespace fulgurite {

// What a run does with its machine, in a line: samples a second, memory, cores.

/// Rates are those since the last line.
class ResourcesLine {
 public:
  void begin();
  void count(long samples) { samples_ += samples; }

  /// At `now`, in seconds.
  std::string text(Context& ctx, double now);

 private:
  report::HostStats host_{};
  report::Rate rate_{};
  long samples_ = 0, counted_ = 0;
  std::optional<double> counted_at_ = std::nullopt;
};

/// Where the dashboard is drawn, how large, how often.
struct DashboardOptions {
  std::FILE* stream = stderr;
  int columns = 0, lines = 0;                   ///< 0: the terminal's
  double seconds_between_redraws = 0.2;         ///< at least
  std::optional<bool> terminal = std::nullopt;  ///< not given: asked from the stream. false: the progress bar's lines
  std::optional<report::Glyphs> glyphs = std::nullopt;  ///< not given: what the environment's locale can show
  bool redirect = true;  ///< what std::cout, std::cerr and std::clog print on its terminal comes out above it
};

/// Shows a fit in a terminal: `Dashboard{}` in the place of `ProgressBar{}`. Curves of what the model logs, a bar for
/// the epoch and one for a validation that runs, batches and samples a second, memory. Where the output is no terminal,
/// and in validate, test and predict, it is a progress bar. It is given rows as a logger is, and stands beside loggers:
/// the curves' points are the rows (log_every_n_steps), and no device is waited for beside them. What others
/// print stays, above it, as with the bar. Rates count what this process did. Only rank 0 draws.
class Dashboard {
 public:
  /// ProgressBar's hooks, since it is one where there is no terminal, and log_metrics.
  template <class... Ofs>
  static Implements<Ofs..., hook::log_metrics> and_rows(Implements<Ofs...>);
  using Hooks = decltype(and_rows(ProgressBar::Hooks{}));
  using Stateless = ByChoice;  // a dashboard shows the present
  static constexpr Order order = Order::progress;
  static constexpr bool draws_on_terminal = true;  ///< of which there is one: a sweep refuses it
  static constexpr bool draws_rows = true, inert_in_dev_run = false;

  explicit Dashboard(DashboardOptions options = {});

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
  void on_test_start(Context& ctx) { tell_bar<hook::on_test_start>(ctx); }
  void on_test_batch_end(Context& ctx) { tell_bar<hook::on_test_batch_end>(ctx); }
  void on_test_end(Context& ctx) { tell_bar<hook::on_test_end>(ctx); }
  void on_predict_start(Context& ctx) { tell_bar<hook::on_predict_start>(ctx); }
  void on_predict_batch_end(Context& ctx) { tell_bar<hook::on_predict_batch_end>(ctx); }
  void on_predict_end(Context& ctx) { tell_bar<hook::on_predict_end>(ctx); }

  void log_metrics(std::span<Scalar const> row, long step);

  void on_fit_end(Context& ctx);
  /// Leaves the dashboard as it is; the text of the error begins below.
  void on_exception(std::exception const& error, Context& ctx);

 private:
  template <class Hook>
  void tell_bar(Context& ctx) {
    invoke<Hook>(bar_, ctx);
  }
  void start_epoch(Context& ctx, double began);
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
  std::optional<report::ProgressMeter> train_ = std::nullopt;
  std::optional<report::ProgressMeter> validation_ = std::nullopt;
  ResourcesLine resources_{};
  Redraws redraws_{};
  double began_ = 0;
  FitCounts counts_{};
  AnnouncedEnd end_{};
  bool on_ = false;
};

// A picture of all curves of a run, which is there while it trains.

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

  explicit LearningCurves(LearningCurvesOptions options = {});

  void on_fit_start(Context& ctx);
  void log_metrics(std::span<Scalar const> row, long step);
  void on_train_epoch_start(Context& ctx) { draw(ctx, false); }
  void on_validation_end(Context& ctx);
  void on_train_end(Context& ctx) { draw(ctx, true); }
  void on_fit_end(Context& ctx) { draw(ctx, true); }
  void on_exception(Context& ctx) { draw(ctx, true); }

  /// All curves so far.
  std::vector<report::Curve> curves() const { return history_.curves(); }
  /// The picture, once there is one.
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
