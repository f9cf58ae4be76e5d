#pragma once
// A progress bar like tqdm's: one for the epoch, a second one beneath it while validation runs, and plain lines where
// the output is not a terminal.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

// The last line of a fit: the best value, its epoch, the time it took, where the files are.

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

namespace fulgurite {

// What a bar or a dashboard announces of an epoch: its batches and its end, where a limit of the run may come before
// them.

/// The batches of the epoch, `done` of which are over, up to the one in which max_steps ends it; nullopt where neither
/// is known. Where the loader has no size, it is an upper bound: the loader may end before max_steps. By hand, and of
/// sequences that are cut into slices, a batch makes any number of steps, so that max_steps says nothing of batches.
std::optional<long> announced_batches(auto& ctx, long done) {
  using R = typename std::remove_cvref_t<decltype(ctx)>::Run;
  std::optional<long> const batches = ctx.num_training_batches();
  auto const& most = ctx.options().max_steps;
  if constexpr (R::automatic && !Recurrent<typename R::Model>)
    if (most && *most >= 0) {
      long const window = ctx.accumulate_grad_batches(), steps = std::max(0L, *most - ctx.global_step());
      long const until = steps == 0 ? done : done - done % window + steps * window;
      return batches ? std::min(*batches, until) : until;
    }
  return batches;
}

/// When max_time ends training, in seconds of the trainer's clock, and whether it does so in this epoch.
class AnnouncedEnd {
 public:
  /// Training starts, or continues.
  void begin(auto& ctx) {
    auto const& most = ctx.options().max_time;
    moment_ = most ? std::optional(ctx.seconds_now() + most->count() - ctx.training_seconds()) : std::nullopt;
  }
  /// Gives the meter of an epoch its number of batches and its end.
  void announce(report::ProgressMeter& meter, auto& ctx) const {
    auto const& options = ctx.options();
    bool const minima_met =
        ctx.current_epoch() >= options.min_epochs.value_or(0) && ctx.global_step() >= options.min_steps.value_or(0);
    meter.set_total(announced_batches(ctx, meter.done()));
    meter.end_by(minima_met ? moment_ : std::nullopt);
  }

 private:
  std::optional<double> moment_ = std::nullopt;
};

// What a bar or a dashboard has seen of a fit, for the line that is left of it.

/// Where a fit began in this process: of a run that goes on, not at its first epoch.
class FitCounts {
 public:
  void begin(auto& ctx) {
    began_ = ctx.seconds_now();
    go_on(ctx);
  }
  /// Training starts: of a run that goes on its place is known now.
  void go_on(auto& ctx) {
    epoch_ = ctx.current_epoch();
    step_ = ctx.global_step();
  }
  /// Since the fit began.
  double seconds(double now) const { return now - began_; }
  /// Epochs, steps and time of this process, and what came out of the fit.
  std::string line(auto& ctx) const {
    return report::outcome_line(ctx.outcome(), ctx.current_epoch() - epoch_, ctx.global_step() - step_,
                                seconds(ctx.seconds_now())) +
           "\n";
  }

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

  void on_fit_start(auto& ctx) {
    on_ = draws(ctx);
    counts_.begin(ctx);
  }
  void on_train_start(auto& ctx) {
    counts_.go_on(ctx);
    end_.begin(ctx);
    began_ = ctx.seconds_now();
  }
  void on_sanity_check_start() { sanity_ = true; }
  void on_sanity_check_end() {
    sanity_ = false;
    lines_.wipe();
  }

  void on_train_epoch_start(auto& ctx) {
    if (on_) start_epoch(ctx, ctx.seconds_now());
  }
  void on_train_batch_end(auto& ctx) {
    if (!on_) return;
    double const now = ctx.seconds_now();
    if (!train_) start_epoch(ctx, began_);  // the run goes on inside of it
    if (train_->done() == 0) train_->start_at(ctx.batch_idx());
    train_->advance(ctx.batch_idx() + 1, now);
    if (!due(now)) return;
    end_.announce(*train_, ctx);
    auto const line = train_->running(postfix(ctx), columns(), options_.ascii);
    if (terminal_) lines_.show({line});
    else keep(line);
  }
  void on_train_epoch_end(auto& ctx) {
    if (!on_ || !train_) return;
    auto const now = ctx.seconds_now();
    redraws_.begin(now);
    train_->advance(train_->done(), now);
    end_.announce(*train_, ctx);
    last_line_ = train_->finished(postfix(ctx), columns(), options_.ascii);
    if (options_.leave || !terminal_) keep(std::exchange(last_line_, {}));
  }
  void on_train_end();

  void on_validation_start(auto& ctx) { evaluation_start(sanity_ ? "Sanity Checking" : "Validation", ctx); }
  void on_validation_batch_end(auto& ctx) { evaluation_batch(ctx); }
  void on_validation_end(auto& ctx) { evaluation_end(ctx); }
  void on_test_start(auto& ctx) { evaluation_start("Testing", ctx); }
  void on_test_batch_end(auto& ctx) { evaluation_batch(ctx); }
  void on_test_end(auto& ctx) { evaluation_end(ctx); }
  void on_predict_start(auto& ctx) { evaluation_start("Predicting", ctx); }
  void on_predict_batch_end(auto& ctx) { evaluation_batch(ctx); }
  void on_predict_end(auto& ctx) { evaluation_end(ctx); }

  void on_fit_end(auto& ctx) {
    if (!on_) return;
    lines_.leave();
    std::string line = counts_.line(ctx);
    line.pop_back();  // the end of the line
    lines_.write(report::wrapped(line, static_cast<std::size_t>(columns())));
  }
  /// Leaves the bar as it is; the text of the error begins on a line of its own.
  void on_exception();

 private:
  static bool draws(auto& ctx) { return ctx.rank() == 0 && !ctx.options().barebones; }
  void start_epoch(auto& ctx, double began) {
    last_line_.clear();
    train_.emplace("Epoch " + std::to_string(ctx.current_epoch()), std::nullopt, began);
    end_.announce(*train_, ctx);
    if (!terminal_) redraws_.begin(began);  // the first line comes a while later
  }
  void evaluation_start(char const* title, auto& ctx) {
    on_ = draws(ctx);
    title_ = title;
    loader_ = 0;
    if (on_) start_loader(ctx, ctx.seconds_now());
  }
  void start_loader(auto& ctx, double now) {
    evaluation_.emplace(title_ + " DataLoader " + std::to_string(loader_), ctx.num_eval_batches(), now);
    if (!terminal_) redraws_.begin(now);
  }
  void evaluation_batch(auto& ctx) {
    if (!on_ || !evaluation_) return;
    double const now = ctx.seconds_now();
    if (loader_ != ctx.loader()) {
      if (!terminal_) keep(evaluation_->finished({}, columns(), options_.ascii));
      loader_ = ctx.loader();
      start_loader(ctx, evaluation_->last_look());
    }
    if (ctx.batch_idx() == 0) evaluation_->set_total(ctx.num_eval_batches());
    evaluation_->advance(ctx.batch_idx() + 1, now);
    if (!due(now)) return;
    auto const line = evaluation_->running({}, columns(), options_.ascii);
    if (!terminal_) keep(line);
    else if (train_) lines_.show({train_->running(postfix(ctx), columns(), options_.ascii), line});
    else lines_.show({line});
  }
  void evaluation_end(auto& ctx) {
    if (!on_ || !evaluation_) return;
    bool const transient = terminal_ && (train_ || sanity_);
    if (!transient)
      keep(evaluation_->finished(train_ || sanity_ ? report::Postfix{} : postfix(ctx), columns(), options_.ascii));
    else lines_.shorten(1);
    evaluation_.reset();
  }

  bool due(double now);
  void keep(std::string_view line);
  int columns() const;
  /// With the metric by which files are ranked, or an early stop is found, among them.
  report::Postfix postfix(auto& ctx) const {
    report::Postfix postfix;
    ctx.each_metric([&](auto const& metric, std::optional<double> value) {
      if (!metric.prog_bar || !value) return;
      auto const cell = std::string(metric.name()) + "=" + report::short_value(*value);
      (postfix.metrics += postfix.metrics.empty() ? "" : ", ") += cell;
      if (metric.name() == ctx.outcome().best_metric_name) postfix.watched = cell;
    });
    return postfix;
  }

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
