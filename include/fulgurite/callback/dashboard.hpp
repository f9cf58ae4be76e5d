#pragma once
// A run at one glance in a terminal: curves, bar, throughput, memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/terminal.hpp>

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
  std::string text(auto& ctx, double now) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    std::string text;
    auto const add = [&](std::string const& fact) { (text += text.empty() ? "" : "   ") += fact; };
    if (samples_ != 0) {
      if (counted_at_) rate_.add(static_cast<double>(samples_ - counted_), now - *counted_at_);
      counted_ = samples_;
      counted_at_ = now;
      if (auto const rate = rate_.value()) add(report::count_text(static_cast<std::int64_t>(*rate)) + " samples/s");
    }
    for (auto const& [name, value] : host_.read()) {
      if (name == "cpu_process_bytes") add(report::bytes_text(static_cast<std::int64_t>(value)) + " resident");
      if (name == "cpu_percent") add(report::formatted("%.0f", value) + " % of the cores");
    }
    if constexpr (requires { Backend::device_stats(ctx.device()); })
      for (auto const& [name, value] : Backend::device_stats(ctx.device())) {
        if (name == "allocated_bytes.all.current")
          add(report::bytes_text(static_cast<std::int64_t>(value)) + " on the device");
        if (name == "allocated_bytes.all.peak") add(report::bytes_text(static_cast<std::int64_t>(value)) + " at most");
      }
    return text;
  }

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

  void on_fit_start(auto& ctx) {
    on_ = terminal_ && ctx.rank() == 0;
    if (!on_) return tell_bar<hook::on_fit_start>(ctx);
    if (ctx.global_step() == 0) history_.clear();
    counts_.begin(ctx);
    resources_.begin();
  }
  void on_train_start(auto& ctx) {
    if (!on_) return tell_bar<hook::on_train_start>(ctx);
    counts_.go_on(ctx);
    end_.begin(ctx);
    began_ = ctx.seconds_now();
  }
  void on_sanity_check_start(auto& ctx) {
    if (!on_) tell_bar<hook::on_sanity_check_start>(ctx);
  }
  void on_sanity_check_end(auto& ctx) {
    if (!on_) tell_bar<hook::on_sanity_check_end>(ctx);
  }
  void on_train_epoch_start(auto& ctx) {
    if (!on_) return tell_bar<hook::on_train_epoch_start>(ctx);
    start_epoch(ctx, ctx.seconds_now());
  }
  void on_train_batch_end(auto& ctx) {
    if (!on_) return tell_bar<hook::on_train_batch_end>(ctx);
    if (!train_) start_epoch(ctx, began_);  // the run goes on inside of it
    double const now = ctx.seconds_now();
    if (train_->done() == 0) train_->start_at(ctx.batch_idx());
    train_->advance(ctx.batch_idx() + 1, now);
    resources_.count(ctx.batch_size());
    if (due(now)) draw(ctx, now);
  }
  void on_train_epoch_end(auto& ctx) {
    if (!on_) return tell_bar<hook::on_train_epoch_end>(ctx);
    if (train_) train_->advance(train_->done(), ctx.seconds_now());
  }
  void on_train_end(auto& ctx) {
    if (!on_) tell_bar<hook::on_train_end>(ctx);
  }

  void on_validation_start(auto& ctx) {
    if (!shows(ctx)) return tell_bar<hook::on_validation_start>(ctx);
    validation_.emplace("Validation", ctx.num_eval_batches(), ctx.seconds_now());
  }
  void on_validation_batch_end(auto& ctx) {
    if (!shows(ctx)) return tell_bar<hook::on_validation_batch_end>(ctx);
    if (!validation_) return;
    if (ctx.batch_idx() == 0) validation_->set_total(ctx.num_eval_batches());
    double const now = ctx.seconds_now();
    validation_->advance(ctx.batch_idx() + 1, now);
    if (due(now)) draw(ctx, now);
  }
  void on_validation_end(auto& ctx) {
    if (!shows(ctx)) return tell_bar<hook::on_validation_end>(ctx);
    validation_.reset();
  }
  void on_test_start(auto& ctx) { tell_bar<hook::on_test_start>(ctx); }
  void on_test_batch_end(auto& ctx) { tell_bar<hook::on_test_batch_end>(ctx); }
  void on_test_end(auto& ctx) { tell_bar<hook::on_test_end>(ctx); }
  void on_predict_start(auto& ctx) { tell_bar<hook::on_predict_start>(ctx); }
  void on_predict_batch_end(auto& ctx) { tell_bar<hook::on_predict_batch_end>(ctx); }
  void on_predict_end(auto& ctx) { tell_bar<hook::on_predict_end>(ctx); }

  void log_metrics(std::span<Scalar const> row, long step);

  void on_fit_end(auto& ctx) {
    if (!on_) return tell_bar<hook::on_fit_end>(ctx);
    draw(ctx, ctx.seconds_now());
    block_.leave();
    std::string line = counts_.line(ctx);
    line.pop_back();  // the end of the line
    block_.write(report::wrapped(line, report::text_columns(options_.stream, options_.columns)));
    end();
  }
  /// Leaves the dashboard as it is; the text of the error begins below.
  void on_exception(std::exception const& error, auto& ctx) {
    block_.leave();
    if (!on_) invoke<hook::on_exception>(bar_, error, ctx);
    end();
  }

 private:
  template <class Hook>
  void tell_bar(auto& ctx) {
    invoke<Hook>(bar_, ctx);
  }
  void start_epoch(auto& ctx, double began) {
    train_.emplace("Epoch " + std::to_string(ctx.current_epoch()), std::nullopt, began);
  }
  bool shows(auto& ctx) const { return on_ && ctx.stage() == decltype(ctx.stage())::fit; }
  void end();
  bool due(double now);

  void draw(auto& ctx, double now) {
    using Model = std::remove_cvref_t<decltype(ctx.model())>;
    int columns = options_.columns > 0 ? options_.columns : report::terminal_columns(options_.stream);
    int lines = options_.lines > 0 ? options_.lines : report::terminal_lines(options_.stream);
    if (columns <= 0) columns = 80;
    if (lines <= 0) lines = 24;
    bool const ascii = glyphs_ == report::Glyphs::ascii;
    report::DashboardFrame frame;
    frame.head = std::string(type_name<Model>()) + "  epoch " + std::to_string(ctx.current_epoch());
    if (auto const& most = ctx.options().max_epochs; most && *most > 0) frame.head += " of " + std::to_string(*most);
    frame.head += "  step " + std::to_string(ctx.global_step());
    if (auto const all = ctx.estimated_steps()) frame.head += " of " + std::to_string(*all);
    frame.head += "  " + report::clock_text(counts_.seconds(now));
    frame.curves = history_.curves();
    if (train_) end_.announce(*train_, ctx);
    frame.bars.push_back(train_ ? train_->running({}, columns, ascii) : "");
    frame.bars.push_back(validation_ ? validation_->running({}, columns, ascii) : "");
    std::string values;
    ctx.each_metric([&](auto const& metric, std::optional<double> value) {
      if (metric.prog_bar && value)
        (values += values.empty() ? "" : "   ") += std::string(metric.name()) + " " + report::short_value(*value);
    });
    frame.facts.push_back(std::move(values));
    frame.facts.push_back(resources_.text(ctx, now));
    block_.show(report::frame_lines(frame, static_cast<std::size_t>(columns),
                                    static_cast<std::size_t>(std::max(1, lines - block_.beside)), glyphs_));
  }

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

  void on_fit_start(auto& ctx) {
    if (ctx.global_step() == 0) history_.clear();  // what a file holds is loaded later
  }
  void log_metrics(std::span<Scalar const> row, long step);
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

  void state(auto& archive);

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/dashboard.ipp>
#endif
