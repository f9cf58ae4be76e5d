#pragma once
// A progress bar like tqdm's: one for the epoch, a second one below it while validation runs, and plain lines if the
// output is not a terminal.

#include <cstddef>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite::report {

// The last line of a fit: the best value, its epoch, the time, and where the files are.

/// The last line of a fit, such as "10 epochs, 630 steps in 00:22; best val/accuracy 0.983 in epoch 7; best file
/// runs/...; metrics lightning_logs/...". Parts without a value are left out.
std::string outcome_line(Outcome const& outcome, int epochs, long steps, double seconds);

}  // namespace fulgurite::report

namespace fulgurite {

/// What a bar or a dashboard follows in a run: the batches of the epoch and of a running evaluation, where the fit
/// began in this process, and when something was last drawn. Nothing is drawn after each batch, since a batch may take
/// only microseconds.
class RunMeters {
 public:
  std::optional<report::ProgressMeter> train = std::nullopt, evaluation = std::nullopt;

  void begin_fit(Context& ctx);
  /// Training starts, or continues: the position of a resumed run is known from here on.
  void begin_training(Context& ctx);
  /// When training began, in seconds of the trainer's clock.
  double training_began() const { return training_began_; }
  void begin_epoch(Context& ctx, double now);

  /// Counts a batch of training, and returns the time. Requires `train`, as from begin_epoch.
  double train_batch(Context& ctx);
  /// Counts a batch of an evaluation, and returns the time. Requires `evaluation`, which the caller sets.
  double evaluation_batch(Context& ctx);
  /// Sets the number of batches of the epoch and its end: a limit of the run may end it earlier than its loader.
  /// Requires `train`.
  void announce(Context& ctx);

  /// True if `seconds` have passed since it last returned true, or since `note_drawn` was called.
  bool due(double now, double seconds);
  void note_drawn(double now) { drawn_ = now; }

  /// Seconds since the fit began.
  double seconds(double now) const { return now - fit_began_; }
  /// The last line of a fit: the epochs, steps and time of this process, and the result.
  std::string line(Context& ctx) const;

 private:
  double fit_began_ = 0, training_began_ = 0;
  int first_epoch_ = 0;
  long first_step_ = 0;
  std::optional<double> ends_ = std::nullopt;  ///< when max_time ends training
  double drawn_ = -std::numeric_limits<double>::infinity();
};

/// Options of ProgressBar: where it is drawn, its width, how often it is redrawn, and what remains on the screen.
struct ProgressBarOptions {
  std::FILE* stream = stderr;            ///< where it is drawn
  bool ascii = false;                    ///< digits and '#' instead of block characters
  bool leave = false;                    ///< keep the line of each finished epoch
  int columns = 0;                       ///< width of a line; 0: the terminal's
  double seconds_between_redraws = 0.1;  ///< minimum on a terminal
  double seconds_between_lines = 60;     ///< if not on a terminal: minimum, within an epoch or an evaluation
  std::optional<bool> terminal =
      std::nullopt;      ///< not given: detected from the stream. false: no control codes, whole lines
  bool redirect = true;  ///< prints the output of std::cout, std::cerr and std::clog on the bar's terminal above it
};

/// Shows the progress of a run: `ProgressBar{}`. It shows the metrics declared with `.prog_bar = true`, with the values
/// that are already on the host, and never waits for a device. It reads the clock once a batch. On a terminal it
/// redraws at most ten times a second, at the terminal's current width. Elsewhere, as in a file or a notebook, it
/// writes one line for each epoch and each evaluation, and one a minute within long ones. Rates count the work of this
/// process: for a run that resumes inside of an epoch, the batches from there on. Other output is kept above the bars:
/// any text by `ctx.print`, by warnings, by std::cout and std::cerr; whole lines by printf. Only rank zero writes. At
/// the end of a fit it prints one line with the result and the paths of the files.
class ProgressBar {
 public:
  using Hooks =
      Implements<hook::on_sanity_check_start, hook::on_sanity_check_end, hook::on_train_start,
                 hook::on_train_epoch_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_train_end,
                 hook::on_validation_start, hook::on_validation_batch_end, hook::on_validation_end, hook::on_test_start,
                 hook::on_test_batch_end, hook::on_test_end, hook::on_predict_start, hook::on_predict_batch_end,
                 hook::on_predict_end, hook::on_fit_start, hook::on_fit_end, hook::on_exception>;
  using Stateless = ByChoice;  // a bar shows only the present
  static constexpr Order order = Order::progress;
  static constexpr bool ignores_tensors = true;
  static constexpr bool draws_on_terminal = true;  ///< there is only one terminal, so a sweep refuses this callback

  explicit ProgressBar(ProgressBarOptions options = {});
  FULGURITE_NAMED_OPTIONS(ProgressBar);
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
  /// Leaves the bar on the screen; the text of the error begins on a line of its own.
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
  /// The metrics to show, including the one that ranks files or decides an early stop.
  report::Postfix postfix(Context& ctx) const;

  ProgressBarOptions options_;
  bool terminal_;
  report::BlockOfLines lines_;
  RunMeters meters_{};
  std::string title_{};
  std::string last_line_{};
  std::size_t loader_ = 0;
  bool on_ = false;
  bool sanity_ = false;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/progress_bar.ipp>
#endif
