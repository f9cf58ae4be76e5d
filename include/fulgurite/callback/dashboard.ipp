#pragma once
// The bodies of callback/dashboard.hpp.

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report::dashboard {

inline constexpr std::size_t narrowest = 38, lowest = 9, highest = 16;  // of a plot, in characters

FULGURITE_BODY std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

/// Cuts or pads a line to exactly this many columns.
FULGURITE_BODY std::string filled(std::string_view line, std::size_t columns) {
  std::string text(clipped(line, columns));
  text.append(columns - display_width(text), ' ');
  return text;
}

FULGURITE_BODY std::string facts_within(std::string_view facts, std::size_t columns) {
  constexpr std::string_view gap = "   ", more = "...";
  if (display_width(facts) <= columns) return std::string(facts);
  auto room = clipped(facts, columns - std::min(columns, gap.size() + more.size()));
  if (!facts.substr(room.size()).starts_with(gap)) {
    auto const at = room.rfind(gap);
    room = room.substr(0, at == room.npos ? 0 : at);
  }
  while (room.ends_with(' ')) room.remove_suffix(1);  // the cut may fall into a gap, or the facts have wider gaps
  if (room.empty()) return std::string(clipped(more, columns));
  return std::string(room).append(gap).append(more);
}

/// Cuts a title that is too wide at its beginning: names of metrics differ at their ends.
FULGURITE_BODY std::string title_within(std::string_view title, std::size_t columns, Glyphs glyphs) {
  std::string_view const dots = glyphs == Glyphs::ascii ? "..." : "…";
  std::size_t const all = display_width(title), marked = display_width(dots);
  if (all <= columns || columns <= marked) return std::string(title);
  return std::string(dots).append(title.substr(clipped(title, all - (columns - marked)).size()));
}

/// Places plots side by side: as many as the width allows, in as many rows as the height allows.
FULGURITE_BODY std::vector<std::string> plots_of(std::vector<Plot> plots, std::size_t width, std::size_t height,
                                                 Glyphs glyphs) {
  std::vector<std::string> lines;
  if (plots.empty() || height < lowest) return lines;
  std::size_t const across = std::clamp<std::size_t>(width / narrowest, 1, plots.size());
  std::size_t const rows = std::min((plots.size() + across - 1) / across, height / lowest);
  std::size_t const wide = (width - (across - 1)) / across, high = std::min(height / rows, highest);
  for (std::size_t row = 0; row != rows; ++row) {
    std::vector<std::vector<std::string>> beside;
    for (std::size_t i = row * across; i != std::min(plots.size(), (row + 1) * across); ++i) {
      auto& plot = plots[i];
      std::size_t labels = 0;
      if (plot.curves.size() == 1) plot.curves[0].label.clear();
      plot.title = title_within(plot.title, wide, glyphs);
      for (auto const& curve : plot.curves) labels += !curve.label.empty();
      plot.x.name.clear();
      auto const most = [](std::size_t n) { return static_cast<int>(n); };
      beside.push_back(lines_of(plot.text(most(wide), most(high > labels + 5 ? high - labels : 5), glyphs)));
      beside.back().resize(std::max(high, beside.back().size()));
    }
    for (std::size_t line = 0; line != high; ++line) {
      std::string text;
      for (auto const& plot : beside) {
        if (&plot != beside.data()) text += ' ';
        text += filled(plot[line], wide);
      }
      while (text.ends_with(' ')) text.pop_back();
      lines.push_back(std::move(text));
    }
  }
  return lines;
}

}  // namespace fulgurite::report::dashboard

namespace fulgurite::report {

FULGURITE_BODY std::vector<std::string> frame_lines(DashboardFrame const& frame, std::size_t width, std::size_t height,
                                                    Glyphs glyphs) {
  auto plots = panels(frame.curves);
  for (auto& plot : plots)
    if (plot.curves.size() == 1) plot.title = plot.curves[0].label;
  std::size_t const others = 1 + frame.bars.size() + frame.facts.size();
  std::vector<std::string> lines{std::string(clipped(frame.head, width))};
  for (auto& line : dashboard::plots_of(std::move(plots), width, height > others ? height - others : 0, glyphs))
    lines.push_back(std::move(line));
  for (auto const& line : frame.bars) lines.emplace_back(clipped(line, width));
  for (auto const& line : frame.facts) lines.push_back(dashboard::facts_within(line, width));
  return lines;
}

}  // namespace fulgurite::report

namespace fulgurite {

FULGURITE_BODY void ResourcesLine::begin() {
  samples_ = counted_ = 0;
  counted_at_.reset();
  host_.read();
}

FULGURITE_BODY Dashboard::Dashboard(DashboardOptions options)
    : options_(options),
      terminal_(options.terminal.value_or(report::is_terminal(options.stream))),
      glyphs_(options.glyphs.value_or(report::glyphs_of_environment())),
      block_(options.stream, options.redirect),
      bar_(ProgressBarOptions{.stream = options.stream,
                              .ascii = glyphs_ == report::Glyphs::ascii,
                              .columns = options.columns,
                              .terminal = terminal_,
                              .redirect = options.redirect}) {}

FULGURITE_BODY void Dashboard::log_metrics(std::span<Scalar const> row, long step) {
  if (!on_) return;
  for (auto const& one : row)
    if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
}

FULGURITE_BODY void Dashboard::end() {
  meters_.train.reset();
  meters_.evaluation.reset();
  on_ = false;
}

FULGURITE_BODY bool Dashboard::due(double now) { return meters_.due(now, options_.seconds_between_redraws); }

FULGURITE_BODY LearningCurves::LearningCurves(LearningCurvesOptions options) : options_(std::move(options)) {
  if (!options_.filename.ends_with(".svg") || options_.filename.find('/') != std::string::npos)
    throw Error("fulgurite.callback.curves_filename",
                "LearningCurves: filename = '" + options_.filename +
                    "' is no name of a picture: it ends in .svg, and its folder is dirpath");
}

FULGURITE_BODY void LearningCurves::log_metrics(std::span<Scalar const> row, long step) {
  for (auto const& one : row)
    if (one.name != "epoch") history_.add(one.name, static_cast<double>(step), one.value);
  is_new_ = true;
}

void LearningCurves::state(auto& archive) { archive.child("curves", history_); }
FULGURITE_STATE(LearningCurves)

FULGURITE_BODY std::string ResourcesLine::text(Context& ctx, double now) {
  std::string text;
  auto const add = [&](std::string const& fact) { append_item(text, fact, "   "); };
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
  ctx.device_stats([&](std::string const& name, double value) {
    if (name == "allocated_bytes.all.current")
      add(report::bytes_text(static_cast<std::int64_t>(value)) + " on the device");
    if (name == "allocated_bytes.all.peak") add(report::bytes_text(static_cast<std::int64_t>(value)) + " at most");
  });
  return text;
}

FULGURITE_BODY void Dashboard::on_fit_start(Context& ctx) {
  on_ = terminal_ && ctx.rank() == 0;
  if (!on_) return notify_bar<hook::on_fit_start>(ctx);
  if (ctx.global_step() == 0) history_.clear();
  meters_.begin_fit(ctx);
  resources_.begin();
}

FULGURITE_BODY void Dashboard::on_train_start(Context& ctx) {
  if (!on_) return notify_bar<hook::on_train_start>(ctx);
  meters_.begin_training(ctx);
}

FULGURITE_BODY void Dashboard::on_sanity_check_start(Context& ctx) {
  if (!on_) notify_bar<hook::on_sanity_check_start>(ctx);
}

FULGURITE_BODY void Dashboard::on_sanity_check_end(Context& ctx) {
  if (!on_) notify_bar<hook::on_sanity_check_end>(ctx);
}

FULGURITE_BODY void Dashboard::on_train_epoch_start(Context& ctx) {
  if (!on_) return notify_bar<hook::on_train_epoch_start>(ctx);
  meters_.begin_epoch(ctx, ctx.seconds_now());
}

FULGURITE_BULK_BODY void Dashboard::on_train_batch_end(Context& ctx) {
  if (!on_) return notify_bar<hook::on_train_batch_end>(ctx);
  if (!meters_.train) meters_.begin_epoch(ctx, meters_.training_began());  // the run resumes inside of the epoch
  double const now = meters_.train_batch(ctx);
  resources_.count(ctx.batch_size());
  if (due(now)) draw(ctx, now);
}

FULGURITE_BODY void Dashboard::on_train_epoch_end(Context& ctx) {
  if (!on_) return notify_bar<hook::on_train_epoch_end>(ctx);
  if (auto& train = meters_.train) train->advance(train->done(), ctx.seconds_now());
}

FULGURITE_BODY void Dashboard::on_train_end(Context& ctx) {
  if (!on_) notify_bar<hook::on_train_end>(ctx);
}

FULGURITE_BODY void Dashboard::on_validation_start(Context& ctx) {
  if (!shows(ctx)) return notify_bar<hook::on_validation_start>(ctx);
  meters_.evaluation.emplace("Validation", ctx.num_eval_batches(), ctx.seconds_now());
}

FULGURITE_BULK_BODY void Dashboard::on_validation_batch_end(Context& ctx) {
  if (!shows(ctx)) return notify_bar<hook::on_validation_batch_end>(ctx);
  if (!meters_.evaluation) return;
  double const now = meters_.evaluation_batch(ctx);
  if (due(now)) draw(ctx, now);
}

FULGURITE_BODY void Dashboard::on_validation_end(Context& ctx) {
  if (!shows(ctx)) return notify_bar<hook::on_validation_end>(ctx);
  meters_.evaluation.reset();
}

FULGURITE_BODY void Dashboard::on_fit_end(Context& ctx) {
  if (!on_) return notify_bar<hook::on_fit_end>(ctx);
  draw(ctx, ctx.seconds_now());
  block_.leave();
  block_.write(report::wrapped(meters_.line(ctx), report::text_columns(options_.stream, options_.columns)));
  end();
}

FULGURITE_BODY void Dashboard::on_exception(std::exception const& error, Context& ctx) {
  block_.leave();
  if (!on_) invoke<hook::on_exception>(bar_, error, ctx);
  end();
}

FULGURITE_BODY bool Dashboard::shows(Context& ctx) const { return on_ && ctx.stage() == Stage::fit; }

FULGURITE_BODY void Dashboard::draw(Context& ctx, double now) {
  int columns = options_.columns > 0 ? options_.columns : report::terminal_columns(options_.stream);
  int lines = options_.lines > 0 ? options_.lines : report::terminal_lines(options_.stream);
  if (columns <= 0) columns = 80;
  if (lines <= 0) lines = 24;
  bool const ascii = glyphs_ == report::Glyphs::ascii;
  report::DashboardFrame frame;
  frame.head = std::string(ctx.model_name()) + "  epoch " + std::to_string(ctx.current_epoch());
  if (auto const& most = ctx.options().max_epochs; most && *most > 0) frame.head += " of " + std::to_string(*most);
  frame.head += "  step " + std::to_string(ctx.global_step());
  if (auto const all = ctx.estimated_steps()) frame.head += " of " + std::to_string(*all);
  frame.head += "  " + report::clock_text(meters_.seconds(now));
  frame.curves = history_.curves();
  if (meters_.train) meters_.announce(ctx);
  for (auto* const meter : {&meters_.train, &meters_.evaluation})
    frame.bars.push_back(*meter ? (*meter)->running({}, columns, ascii) : "");
  std::string values;
  ctx.each_metric([&](DeclaredMetric const& metric, std::optional<double> value) {
    if (metric.prog_bar && value)
      append_item(values, std::string(metric.name) + " " + report::short_value(*value), "   ");
  });
  frame.facts.push_back(std::move(values));
  frame.facts.push_back(resources_.text(ctx, now));
  block_.show(report::frame_lines(frame, static_cast<std::size_t>(columns),
                                  static_cast<std::size_t>(std::max(1, lines - block_.beside)), glyphs_));
}

FULGURITE_BODY void LearningCurves::on_fit_start(Context& ctx) {
  if (ctx.global_step() == 0) history_.clear();  // a resumed run loads its history later
}

FULGURITE_BODY void LearningCurves::on_validation_end(Context& ctx) {
  if (!ctx.sanity_checking()) draw(ctx, false);
}

FULGURITE_BODY void LearningCurves::draw(Context& ctx, bool ends) {
  if (!is_new_ || ctx.stage() != Stage::fit || ctx.rank() != 0 || ctx.dev_run()) return;
  double const now = ctx.seconds_now();
  if (!ends && now - drawn_ < options_.seconds_between_pictures) return;
  drawn_ = now;
  is_new_ = false;
  path_ = run_output::folder(ctx, options_.dirpath) / options_.filename;
  std::string title(ctx.model_name());
  title += ": epoch " + std::to_string(ctx.current_epoch()) + ", step " + std::to_string(ctx.global_step());
  write_whole(path_, report::svg_of(report::panels(history_.curves()), title, options_.columns));
}

}  // namespace fulgurite
