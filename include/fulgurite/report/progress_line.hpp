#pragma once
// One line of a progress bar, character for character as tqdm draws it.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// What a line shows. `rate` is in items per second.
struct ProgressLine {
  std::string_view title;
  long done = 0;
  std::optional<long> total = std::nullopt;  ///< without it neither a bar nor an end is shown
  double elapsed = 0;
  std::optional<double> rate = std::nullopt;
  std::string_view postfix = {};                      ///< "train/loss=0.123, val/loss=0.200"
  std::string_view watched = {};                      ///< one of these, which a callback watches: it is left out last
  std::optional<double> seconds_left = std::nullopt;  ///< at most, whatever the rate says
};

/// A bar of `columns` columns of which `part`, from 0 to 1, is filled: with block characters in eighths of a column, in
/// ASCII in tenths.
inline std::string progress_bar(double part, std::size_t columns, bool ascii) {
  static constexpr std::array<std::string_view, 9> blocks{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  static constexpr std::array<std::string_view, 11> digits{" ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"};
  auto const symbol = [&](std::size_t i) { return ascii ? digits[i] : blocks[i]; };
  std::size_t const steps = ascii ? 10 : 8;
  auto const filled =
      static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns) * static_cast<double>(steps));
  std::string bar;
  for (std::size_t i = 0; i != columns; ++i) bar += symbol(std::min(steps, filled - std::min(filled, i * steps)));
  return bar;
}

/// What stands for metrics that found no room.
inline constexpr std::string_view more_metrics = "...";

/// The metrics without the last of them that is not `watched`, with dots at the end in its place; without `watched`
/// where it is the only one.
FULGURITE_COLD std::string without_last(std::string_view metrics, std::string_view watched = {}) {
  if (metrics.ends_with(", ...")) metrics.remove_suffix(5);
  std::string_view kept;
  if (auto const comma = metrics.rfind(", "); comma != metrics.npos && metrics.substr(comma + 2) == watched) {
    kept = watched;
    metrics = metrics.substr(0, comma);
  }
  auto const comma = metrics.rfind(", ");
  std::string rest(metrics.substr(0, comma == metrics.npos ? 0 : comma));
  for (auto const one : {kept, more_metrics})
    if (!one.empty()) (rest += rest.empty() ? "" : ", ") += one;
  return rest;
}

/// The whole line: "Epoch 3:  45%|████▌     | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]". `columns` is the
/// width of the line; the bar takes what the rest leaves, at least one column, and 10 where `columns` is 0, which means
/// unknown. What finds no room is left out as a whole, as a number that is cut in two reads as another one: metrics,
/// the last first, then the rate, the metric that is watched, the times, the bar, the title. Below one item a second
/// the rate is shown as seconds an item, "1.53s/it".
FULGURITE_COLD std::string progress_line(ProgressLine line, int columns = 0, bool ascii = false) {
  bool const rated = line.rate && *line.rate > 0;
  std::string const rate = !rated             ? "?it/s"
                           : *line.rate < 1.0 ? formatted("%5.2f", 1.0 / *line.rate) + "s/it"
                                              : formatted("%5.2f", *line.rate) + "it/s";
  std::string const title = line.title.empty() ? "" : std::string(line.title) + ": ";
  // More items are done than were announced, so the total is wrong and is not shown.
  bool const known = line.total && *line.total > 0 && line.done <= *line.total;
  double const part = known ? static_cast<double>(line.done) / static_cast<double>(*line.total) : 0;
  std::string const share = known ? formatted("%3.0f", part * 100) + "%" : "";
  std::string const done = std::to_string(line.done) + (known ? "/" + std::to_string(*line.total) : "it");
  std::string times = clock_text(line.elapsed);
  if (known && rated) {
    double const left = static_cast<double>(*line.total - line.done) / *line.rate;
    times += "<" + clock_text(std::max(0.0, std::min(left, line.seconds_left.value_or(left))));
  } else if (known) {
    times += "<?";
  }

  auto const most = static_cast<std::size_t>(std::max(columns, 0));
  // With a bar, where there is an end and room for one.
  auto const joined = [&](std::string const& right) {
    if (!known) return title + right;
    auto const taken = display_width(title + share + right) + 3;
    std::size_t const width = most == 0 ? 10 : most > taken ? most - taken : 1;
    return title + share + "|" + progress_bar(part, width, ascii) + "| " + right;
  };
  std::string metrics(line.postfix);
  std::string const watched(line.watched);
  bool const watches = !watched.empty() && (metrics == watched || metrics.ends_with(", " + watched) ||
                                            metrics.starts_with(watched + ", ") ||
                                            metrics.find(", " + watched + ", ") != std::string::npos);
  for (bool first = true;; first = false) {
    if (!first) metrics = without_last(metrics, watched);
    auto const whole = joined(done + " [" + times + ", " + rate + (metrics.empty() ? "" : ", " + metrics) + "]");
    if (most == 0 || display_width(whole) <= most) return whole;
    if (metrics.empty() || metrics == more_metrics) break;
    if (watches && (metrics == watched || metrics == watched + ", ...")) break;
  }
  std::string const short_title(line.title.substr(0, line.title.find(' ')));
  std::string const alone = done + " [" + times + (watches ? ", " + watched : ", " + rate) + "]";
  for (auto const& fewer : {watches ? joined(done + " [" + times + ", " + rate + ", " + watched + "]") : joined(alone),
                            joined(alone), joined(done + " [" + times + "]"), joined(done),
                            title + (known ? share : done), short_title + " " + (known ? share : done)})
    if (display_width(fewer) <= most) return fewer;
  return std::string(clipped(known ? share : done, most));
}

/// A metric's value in three significant digits, filled up to five characters so that the line does not jump: "0.123",
/// "2.000", "1e-05".
FULGURITE_COLD std::string short_value(double value) {
  std::string text = formatted("%.3g", value);
  for (std::string_view sign : {"e+0", "e-0"})
    if (auto const at = text.find(sign); at != std::string::npos) text.erase(at + 2, 1);
  if (!std::isfinite(value) || text.find('e') != std::string::npos) return text;
  if (text.find('.') == std::string::npos && text.size() < 5) text += '.';
  return text.size() < 5 ? text + std::string(5 - text.size(), '0') : text;
}

/// Items a second, smoothed as tqdm does: the quotient of two moving averages, of items and of seconds between two
/// looks.
class Rate {
 public:
  void add(double items, double seconds) {
    if (items <= 0 || seconds <= 0) return;
    items_ = alpha * items + (1 - alpha) * items_;
    seconds_ = alpha * seconds + (1 - alpha) * seconds_;
  }
  /// Both averages begin at 0 and are too small by the same factor at first, which the quotient cancels.
  std::optional<double> value() const { return seconds_ > 0 ? std::optional(items_ / seconds_) : std::nullopt; }

 private:
  static constexpr double alpha = 0.3;
  double items_ = 0;
  double seconds_ = 0;
};

}  // namespace fulgurite::report
