#pragma once
// A run at one glance in a terminal: curves, bar, throughput, memory.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/announced.hpp>
#include <fulgurite/callback/fit_counts.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/redraws.hpp>
#include <fulgurite/callback/resources_line.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/report/block_of_lines.hpp>
#include <fulgurite/report/dashboard_frame.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/progress_meter.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/report/wrapped_text.hpp>

namespace fulgurite {

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

  explicit Dashboard(DashboardOptions options = {})
      : options_(options),
        terminal_(options.terminal.value_or(report::is_terminal(options.stream))),
        glyphs_(options.glyphs.value_or(report::glyphs_of_environment())),
        block_(options.stream, options.redirect),
        bar_(ProgressBarOptions{.stream = options.stream,
                                .ascii = glyphs_ == report::Glyphs::ascii,
                                .columns = options.columns,
                                .terminal = terminal_,
                                .redirect = options.redirect}) {}

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

  void log_metrics(std::span<Scalar const> row, long step) {
    if (!on_) return;
    for (auto const& one : row)
      if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
  }

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
  void end() {
    train_.reset();
    validation_.reset();
    on_ = false;
  }
  bool due(double now) { return redraws_.due(now, options_.seconds_between_redraws); }

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

}  // namespace fulgurite
