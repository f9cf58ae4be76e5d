#pragma once
// A progress bar like tqdm's: one for the epoch, a second one beneath it while validation runs, and plain lines where
// the output is not a terminal.

#include <cstddef>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite::report {

// The last line of a fit: the best value, its epoch, the time it took, where the files are.

/// The last line of a fit, such as "10 epochs, 630 steps in 00:22; best val/accuracy 0.983 in epoch 7; best file
/// runs/...; metrics lightning_logs/...". A part for which there is no value is left out.
std::string outcome_line(Outcome const& outcome, int epochs, long steps, double seconds);

}  // namespace fulgurite::report

namespace fulgurite {

// What a bar or a dashboard announces of an epoch: its batches and its end, where a limit of the run may come before
// them.

/// The batches of the epoch, `done` of which are over, up to the one in which max_steps ends it; nullopt where neither
/// is known. Where the loader has no size, it is an upper bound: the loader may end before max_steps. By hand, and of
/// sequences that are cut into slices, a batch makes any number of steps, so that max_steps says nothing of batches.
std::optional<long> announced_batches(Context& ctx, long done);

/// When max_time ends training, in seconds of the trainer's clock, and whether it does so in this epoch.
class AnnouncedEnd {
 public:
  /// Training starts, or continues.
  void begin(Context& ctx);
  /// Gives the meter of an epoch its number of batches and its end.
  void announce(report::ProgressMeter& meter, Context& ctx) const;

 private:
  std::optional<double> moment_ = std::nullopt;
};

// What a bar or a dashboard has seen of a fit, for the line that is left of it.

/// Where a fit began in this process: of a run that goes on, not at its first epoch.
class FitCounts {
 public:
  void begin(Context& ctx);
  /// Training starts: of a run that goes on its place is known now.
  void go_on(Context& ctx);
  /// Since the fit began.
  double seconds(double now) const { return now - began_; }
  /// Epochs, steps and time of this process, and what came out of the fit.
  std::string line(Context& ctx) const;

 private:
  double began_ = 0;
  int epoch_ = 0;
  long step_ = 0;
};

// When a bar or a dashboard draws again: not with each batch, which may be a matter of microseconds.

/// Remembers when something was drawn last.
class Redraws {
 public:
  /// Whether `seconds` have passed since the last time at which this said so, or `begin` was called.
  bool due(double now, double seconds);
  /// Counts from here on.
  void begin(double now) { last_ = now; }

 private:
  double last_ = -std::numeric_limits<double>::infinity();
};

/// Where the bar is drawn, how wide, how often, and what stays of it.
struct ProgressBarOptions {
  std::FILE* stream = stderr;
  bool ascii = false;                    ///< digits and '#' instead of block characters
  bool leave = false;                    ///< keep the line of each finished epoch
  int columns = 0;                       ///< width of a line; 0: the terminal's
  double seconds_between_redraws = 0.1;  ///< at least
  double seconds_between_lines = 60;     ///< not on a terminal: within an epoch or an evaluation, at least
  std::optional<bool> terminal =
      std::nullopt;      ///< not given: asked from the stream. false: no control codes, whole lines
  bool redirect = true;  ///< what std::cout, std::cerr and std::clog print on the bar's terminal comes out above it
};

/// Shows how far a run is: `ProgressBar{}`. It shows the metrics declared with `.prog_bar = true`, with the values that
/// the host knows already, and never waits for a device. It looks at the clock once a batch. On a terminal it redraws
/// at most ten times a second, as wide as the terminal then is; elsewhere, as in a file or a notebook, it writes one
/// line for each epoch and each evaluation, and one a minute within those that last. Rates count what this process did:
/// of a run that goes on inside an epoch, the batches from there on. What others print while bars are there stays
/// above them: any text by `ctx.print`, by warnings, by std::cout and std::cerr; a line at a time by printf. Only rank
/// 0 writes. A fit ends with one line that says what came out of it and where.
class ProgressBar {
 public:
  using Hooks =
      Implements<hook::on_sanity_check_start, hook::on_sanity_check_end, hook::on_train_start,
                 hook::on_train_epoch_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_train_end,
                 hook::on_validation_start, hook::on_validation_batch_end, hook::on_validation_end, hook::on_test_start,
                 hook::on_test_batch_end, hook::on_test_end, hook::on_predict_start, hook::on_predict_batch_end,
                 hook::on_predict_end, hook::on_fit_start, hook::on_fit_end, hook::on_exception>;
  using Stateless = ByChoice;  // a bar shows the present
  static constexpr Order order = Order::progress;
  static constexpr bool draws_on_terminal = true;  ///< of which there is one: a sweep refuses it

  explicit ProgressBar(ProgressBarOptions options = {});
  ProgressBar(ProgressBar const&) = default;
  ProgressBar& operator=(ProgressBar const&) = default;
  FULGURITE_MOVES(ProgressBar);

  void on_fit_start(Context& ctx);
  void on_train_start(Context& ctx);
  void on_sanity_check_start() { sanity_ = true; }
  void on_sanity_check_end() {
    sanity_ = false;
    lines_.wipe();
  }

  void on_train_epoch_start(Context& ctx);
  void on_train_batch_end(Context& ctx) {
    if (on_) train_batch(ctx);
  }
  void on_train_epoch_end(Context& ctx);
  void on_train_end();

  void on_validation_start(Context& ctx);
  void on_validation_batch_end(Context& ctx) {
    if (on_) evaluation_batch(ctx);
  }
  void on_validation_end(Context& ctx) { evaluation_end(ctx); }
  void on_test_start(Context& ctx) { evaluation_start("Testing", ctx); }
  void on_test_batch_end(Context& ctx) {
    if (on_) evaluation_batch(ctx);
  }
  void on_test_end(Context& ctx) { evaluation_end(ctx); }
  void on_predict_start(Context& ctx) { evaluation_start("Predicting", ctx); }
  void on_predict_batch_end(Context& ctx) {
    if (on_) evaluation_batch(ctx);
  }
  void on_predict_end(Context& ctx) { evaluation_end(ctx); }

  void on_fit_end(Context& ctx);
  /// Leaves the bar as it is; the text of the error begins on a line of its own.
  void on_exception();

 private:
  static bool draws(Context& ctx);
  void train_batch(Context& ctx);
  void start_epoch(Context& ctx, double began);
  void evaluation_start(char const* title, Context& ctx);
  void start_loader(Context& ctx, double now);
  void evaluation_batch(Context& ctx);
  void evaluation_end(Context& ctx);

  bool due(double now);
  void keep(std::string_view line);
  int columns() const;
  /// With the metric by which files are ranked, or an early stop is found, among them.
  report::Postfix postfix(Context& ctx) const;

  ProgressBarOptions options_;
  bool terminal_;
  report::BlockOfLines lines_;
  std::optional<report::ProgressMeter> train_ = std::nullopt;
  std::optional<report::ProgressMeter> evaluation_ = std::nullopt;
  std::string title_{};
  std::string last_line_{};
  Redraws redraws_{};
  double began_ = 0;
  FitCounts counts_{};
  AnnouncedEnd end_{};
  std::size_t loader_ = 0;
  bool on_ = false;
  bool sanity_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/progress_bar.ipp>
#endif
