#pragma once
// The bodies of callback/progress_bar.hpp.

#include <algorithm>
#include <limits>
#include <utility>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

FULGURITE_BODY std::string outcome_line(Outcome const& outcome, int epochs, long steps, double seconds) {
  auto const some = [](auto count, char const* what) { return std::to_string(count) + what + (count == 1 ? "" : "s"); };
  std::string text = some(epochs, " epoch") + ", " + some(steps, " step") + " in " + clock_text(seconds);
  if (!outcome.ended_by.empty() && !outcome.ended_by.starts_with("max_epochs"))  // the line has the epochs already
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

FULGURITE_BODY ProgressBar::ProgressBar(ProgressBarOptions options)
    : options_(options),
      terminal_(options.terminal.value_or(report::is_terminal(options.stream))),
      lines_(options.stream, options.redirect) {}

FULGURITE_BODY void ProgressBar::on_train_end() {
  if (on_ && !last_line_.empty()) keep(std::exchange(last_line_, {}));
  meters_.train.reset();
}

FULGURITE_BODY void ProgressBar::on_exception() {
  lines_.leave();
  meters_.train.reset();
  meters_.evaluation.reset();
  last_line_.clear();
  sanity_ = false;
}

FULGURITE_BODY bool ProgressBar::due(double now) {
  return meters_.due(now, terminal_ ? options_.seconds_between_redraws : options_.seconds_between_lines);
}

FULGURITE_BODY void ProgressBar::keep(std::string_view line) {
  if (terminal_) lines_.keep(line);
  else lines_.write(std::string(line) + "\n");
}

FULGURITE_BODY int ProgressBar::columns() const {
  auto const columns = static_cast<int>(report::text_columns(options_.stream, options_.columns));
  return columns == 0 && terminal_ ? 80 : columns;  // a terminal without a size, as in some containers
}

/// The number of batches of the epoch, of which `done` are over, up to the batch in which max_steps ends it; nullopt if
/// neither is known. If the loader has no size, this is an upper bound: the loader may end before max_steps. In manual
/// optimization, and for sequences that are cut into slices, a batch may take any number of steps, so max_steps does
/// not determine the number of batches.
FULGURITE_BODY std::optional<long> announced_batches(Context& ctx, long done) {
  std::optional<long> const batches = ctx.num_training_batches();
  auto const& most = ctx.options().max_steps;
  if (!ctx.steps_by_batch() || !most || *most < 0) return batches;
  long const window = ctx.accumulate_grad_batches(), steps = std::max(0L, *most - ctx.global_step());
  if (steps > (std::numeric_limits<long>::max() - done) / window) return batches;  // more than a long counts
  long const until = steps == 0 ? done : done - done % window + steps * window;
  return batches ? std::min(*batches, until) : until;
}

FULGURITE_BODY void RunMeters::begin_fit(Context& ctx) {
  fit_began_ = ctx.seconds_now();
  first_epoch_ = ctx.current_epoch();
  first_step_ = ctx.global_step();
}

FULGURITE_BODY void RunMeters::begin_training(Context& ctx) {
  first_epoch_ = ctx.current_epoch();
  first_step_ = ctx.global_step();
  training_began_ = ctx.seconds_now();
  auto const& most = ctx.options().max_time;
  ends_ = most ? std::optional(training_began_ + most->count() - ctx.training_seconds()) : std::nullopt;
}

FULGURITE_BODY void RunMeters::begin_epoch(Context& ctx, double now) {
  train.emplace("Epoch " + std::to_string(ctx.current_epoch()), std::nullopt, now);
  announce(ctx);
}

FULGURITE_BULK_BODY double RunMeters::train_batch(Context& ctx) {
  double const now = ctx.seconds_now();
  if (train->done() == 0) train->start_at(ctx.batch_idx());
  train->advance(ctx.batch_idx() + 1, now);
  return now;
}

FULGURITE_BULK_BODY double RunMeters::evaluation_batch(Context& ctx) {
  double const now = ctx.seconds_now();
  if (ctx.batch_idx() == 0) evaluation->set_total(ctx.num_eval_batches());
  evaluation->advance(ctx.batch_idx() + 1, now);
  return now;
}

FULGURITE_BODY void RunMeters::announce(Context& ctx) {
  auto const& options = ctx.options();
  bool const minima_met =
      ctx.current_epoch() >= options.min_epochs.value_or(0) && ctx.global_step() >= options.min_steps.value_or(0);
  train->set_total(announced_batches(ctx, train->done()));
  train->end_by(minima_met ? ends_ : std::nullopt);
}

FULGURITE_BODY bool RunMeters::due(double now, double seconds) {
  if (now - drawn_ < seconds) return false;
  drawn_ = now;
  return true;
}

FULGURITE_BODY std::string RunMeters::line(Context& ctx) const {
  return report::outcome_line(ctx.outcome().with_present_files(), ctx.current_epoch() - first_epoch_,
                              ctx.global_step() - first_step_, seconds(ctx.seconds_now()));
}

FULGURITE_BODY void ProgressBar::on_fit_start(Context& ctx) {
  on_ = draws(ctx);
  meters_.begin_fit(ctx);
}

FULGURITE_BODY void ProgressBar::on_train_start(Context& ctx) { meters_.begin_training(ctx); }

FULGURITE_BODY void ProgressBar::on_train_epoch_start(Context& ctx) {
  if (on_) start_epoch(ctx, ctx.seconds_now());
}

FULGURITE_BODY void ProgressBar::on_train_epoch_end(Context& ctx) {
  if (!on_ || !meters_.train) return;
  auto const now = ctx.seconds_now();
  meters_.note_drawn(now);
  meters_.train->advance(meters_.train->done(), now);
  meters_.announce(ctx);
  last_line_ = meters_.train->finished(postfix(ctx), columns(), options_.ascii);
  if (options_.leave || !terminal_) keep(std::exchange(last_line_, {}));
}

FULGURITE_BODY void ProgressBar::on_validation_start(Context& ctx) {
  evaluation_start(sanity_ ? "Sanity Checking" : "Validation", ctx);
}

FULGURITE_BODY void ProgressBar::on_fit_end(Context& ctx) {
  if (!on_) return;
  lines_.leave();
  lines_.write(report::wrapped(meters_.line(ctx), static_cast<std::size_t>(columns())));
}

FULGURITE_BODY bool ProgressBar::draws(Context& ctx) { return ctx.rank() == 0 && !ctx.options().barebones; }

FULGURITE_BULK_BODY void ProgressBar::train_batch(Context& ctx) {
  if (!meters_.train) start_epoch(ctx, meters_.training_began());  // the run resumes inside of the epoch
  if (!due(meters_.train_batch(ctx))) return;
  meters_.announce(ctx);
  auto const line = meters_.train->running(postfix(ctx), columns(), options_.ascii);
  if (terminal_) lines_.show({line});
  else keep(line);
}

FULGURITE_BODY void ProgressBar::start_epoch(Context& ctx, double began) {
  last_line_.clear();
  meters_.begin_epoch(ctx, began);
  if (!terminal_) meters_.note_drawn(began);  // the first line is printed after an interval
}

FULGURITE_BODY void ProgressBar::evaluation_start(char const* title, Context& ctx) {
  on_ = draws(ctx);
  title_ = title;
  loader_ = 0;
  if (on_) start_loader(ctx, ctx.seconds_now());
}

FULGURITE_BODY void ProgressBar::start_loader(Context& ctx, double now) {
  meters_.evaluation.emplace(title_ + " DataLoader " + std::to_string(loader_), ctx.num_eval_batches(), now);
  if (!terminal_) meters_.note_drawn(now);
}

FULGURITE_BULK_BODY void ProgressBar::evaluation_batch(Context& ctx) {
  if (!meters_.evaluation) return;
  if (loader_ != ctx.loader()) {
    if (!terminal_) keep(meters_.evaluation->finished({}, columns(), options_.ascii));
    loader_ = ctx.loader();
    start_loader(ctx, meters_.evaluation->last_look());
  }
  if (!due(meters_.evaluation_batch(ctx))) return;
  auto const line = meters_.evaluation->running({}, columns(), options_.ascii);
  if (!terminal_) keep(line);
  else if (meters_.train) lines_.show({meters_.train->running(postfix(ctx), columns(), options_.ascii), line});
  else lines_.show({line});
}

FULGURITE_BODY void ProgressBar::evaluation_end(Context& ctx) {
  if (!on_ || !meters_.evaluation) return;
  bool const transient = terminal_ && (meters_.train || sanity_);
  if (!transient)
    keep(meters_.evaluation->finished(meters_.train || sanity_ ? report::Postfix{} : postfix(ctx), columns(),
                                      options_.ascii));
  else lines_.shorten(1);
  meters_.evaluation.reset();
}

FULGURITE_BODY report::Postfix ProgressBar::postfix(Context& ctx) const {
  report::Postfix postfix;
  ctx.each_metric([&](DeclaredMetric const& metric, std::optional<double> value) {
    if (!metric.prog_bar || !value) return;
    auto const cell = std::string(metric.name) + "=" + report::short_value(*value);
    append_item(postfix.metrics, cell);
    if (metric.name == ctx.outcome().best_metric_name) postfix.watched = cell;
  });
  return postfix;
}

FULGURITE_MOVES_BODY(ProgressBar);

}  // namespace fulgurite
