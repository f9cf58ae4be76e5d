#pragma once
// What is drawn at the bottom of a terminal while a run goes on: lines that are written again and again, and those of
// progress bars, as tqdm draws them.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// Whether both are the same terminal, or the same stream.
FULGURITE_COLD bool same_terminal(std::FILE* one, std::FILE* other) {
  if (one == other) return true;
  struct stat a{}, b{};
  int const first = ::fileno(one), second = ::fileno(other);
  return first >= 0 && second >= 0 && ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && S_ISCHR(a.st_mode) &&
         S_ISCHR(b.st_mode) && a.st_rdev == b.st_rdev;
}

/// A block of lines as it was last drawn. Between two drawings the cursor stands in the line above it, which is empty
/// but for `unfinished`: what somebody has printed and not yet ended by a newline.
struct DrawnBlock {
  std::FILE* stream;
  std::vector<std::string> lines{};
  std::string unfinished{};

  static constexpr char const* erase = "\r\x1b[J";  ///< from the line above the block on

  /// Each call is one write, so that nothing flickers.
  FULGURITE_COLD void write(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
  }
  /// The line above the block, from its beginning.
  FULGURITE_COLD std::string line_above() const {
    int const told = terminal_columns(stream);
    return "\r\x1b[K" + std::string(clipped(unfinished, told > 0 ? static_cast<std::size_t>(told) - 1 : 79));
  }
  FULGURITE_COLD void draw() const {
    std::string text = line_above() + "\n";
    // Erased before it is written: erased afterwards, a line that fills the last column would lose that column.
    for (auto const& line : lines) ((text += "\x1b[K") += line) += '\n';
    text += "\x1b[J\x1b[" + std::to_string(lines.size() + 1) + "A";
    write(unfinished.empty() ? text : text + line_above());  // what follows stands behind it
  }
};

/// Which block is drawn now. A process has one such place, since a terminal has one bottom.
struct Screen {
  std::recursive_mutex mutex{};  ///< also of whoever writes: loaders have threads that may print
  DrawnBlock* drawn = nullptr;
};
/// Never destroyed: what is printed while the program ends may still ask.
inline Screen& screen() {
  static Screen* const one = new Screen;
  return *one;
}

/// What `write` writes, whole lines, takes the place of the block, which is drawn anew below them.
template <class Write>
void write_above(DrawnBlock const& block, Write write) {
  block.write(DrawnBlock::erase);
  write();
  block.draw();
}

/// What `tell` does while a block is drawn.
FULGURITE_COLD void tell_above(std::FILE* stream, std::string_view lines) {
  std::lock_guard const one_at_a_time(screen().mutex);
  auto const write = [&] {
    std::fwrite(lines.data(), 1, lines.size(), stream);
    std::fflush(stream);
  };
  auto const* const block = screen().drawn;
  if (block && same_terminal(stream, block->stream)) write_above(*block, write);
  else write();
}

// What a program prints by std::cout, std::cerr and std::clog while lines are drawn on the same terminal comes out
// above them.

/// Stands before the buffer of one of the standard streams while a block is drawn. Whole lines go on to that buffer at
/// once, above the block. A line that has no end yet is held, and shown when the stream is flushed. A thread that has
/// begun to print when the stream is given back still finds the buffer: it lives as long as the process.
class PrintedAbove : public std::streambuf {
 public:
  PrintedAbove(std::ostream& of, std::FILE* goes_to) : of_(of), goes_to_(goes_to) {}

  /// Nothing happens to a stream that goes elsewhere, such as into a file.
  void take(DrawnBlock const& block) {
    if (taken_ || of_.rdbuf() == this || !same_terminal(goes_to_, block.stream)) return;
    behind_ = of_.rdbuf();
    taken_ = true;
    put(this);
  }
  /// Where somebody else has put a buffer before this one, it stays.
  void give_back() {
    if (!taken_) return;
    taken_ = false;
    if (of_.rdbuf() == this) put(behind_);
    if (!held_.empty()) pass_on(std::exchange(held_, {}));
  }

 protected:
  std::streamsize xsputn(char const* text, std::streamsize size) override {
    std::lock_guard const one_at_a_time(screen().mutex);
    std::string_view const more(text, static_cast<std::size_t>(size));
    auto* const block = screen().drawn;
    if (!taken_ || !block) return behind_->sputn(text, size);
    held_ += more;
    auto const end = held_.rfind('\n');
    if (end == std::string::npos) return size;
    std::string const whole = held_.substr(0, end + 1);
    held_.erase(0, end + 1);
    block->unfinished.clear();
    write_above(*block, [&] { pass_on(whole); });
    return size;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    char const one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override {
    std::lock_guard const one_at_a_time(screen().mutex);
    auto* const block = screen().drawn;
    if (!taken_ || !block) return behind_->pubsync();
    if (held_.empty()) return 0;
    block->unfinished = shown();
    block->write(block->line_above());
    return 0;
  }

 private:
  /// Of a line without an end, what can stand in one line: nothing where it has codes for the terminal.
  std::string shown() const {
    auto const last = held_.rfind('\r');
    auto const text = held_.substr(last == std::string::npos ? 0 : last + 1);
    for (char const c : text)
      if (static_cast<unsigned char>(c) < 0x20) return {};
    return text;
  }
  void pass_on(std::string_view text) {
    behind_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
    behind_->pubsync();
  }
  /// A stream that has failed stays so.
  void put(std::streambuf* buffer) {
    auto const state = of_.rdstate();
    of_.rdbuf(buffer);
    if (state != std::ios_base::goodbit) of_.setstate(state);
  }

  std::ostream& of_;
  std::FILE* goes_to_;
  std::streambuf* behind_ = nullptr;
  bool taken_ = false;
  std::string held_{};
};

/// The three streams. Never destroyed, as they are not.
inline std::array<PrintedAbove, 3>& printed_above() {
  static auto* const all = new std::array<PrintedAbove, 3>{
      PrintedAbove(std::cout, stdout), PrintedAbove(std::cerr, stderr), PrintedAbove(std::clog, stderr)};
  return *all;
}

// Lines at the bottom of a terminal that are written again and again.

/// Draws lines and redraws them in their place. From the first show() until they are left, wiped or kept, what others
/// say comes out above them: all that goes through `tell`, and with `redirect` what the program prints by std::cout,
/// std::cerr and std::clog on the same terminal. Of what comes by printf, or from another process, one line at a time
/// does. Of several blocks in a process the first one that is drawn has this; the others are drawn beside it.
class BlockOfLines {
 public:
  static constexpr int beside = 2;  ///< lines of the screen that are not the block's: the one above, the one below

  explicit BlockOfLines(std::FILE* stream, bool redirect = true)
      : block_(new DrawnBlock{.stream = stream}), redirect_(redirect) {}
  /// A copy has drawn nothing yet.
  BlockOfLines(BlockOfLines const& other) : BlockOfLines(other.block_->stream, other.redirect_) {}
  BlockOfLines(BlockOfLines&&) noexcept = default;
  BlockOfLines& operator=(BlockOfLines other) noexcept {
    std::swap(block_, other.block_);
    std::swap(redirect_, other.redirect_);
    return *this;
  }
  ~BlockOfLines() {
    if (block_) leave();
  }

  /// Lines are to be no wider than the terminal. One that the block had, and has no more, is erased.
  void show(std::vector<std::string> lines) {
    std::lock_guard const one_at_a_time(screen().mutex);
    block_->lines = std::move(lines);
    if (screen().drawn == nullptr) begin();
    block_->draw();
  }
  /// Only the first so many lines stay.
  void shorten(std::size_t lines) {
    if (block_->lines.size() <= lines) return;
    auto fewer = block_->lines;
    fewer.resize(lines);
    show(std::move(fewer));
  }
  /// Removes the block.
  void wipe() {
    if (!block_->lines.empty()) end("");
  }
  /// Writes this text in place of the block, and leaves it there for good.
  void keep(std::string_view line) { end(std::string(line) + "\n"); }
  /// Leaves the block as it is; what is written next begins below.
  void leave() {
    std::string text;
    for (auto const& line : block_->lines) (text += line) += '\n';
    if (!text.empty()) end(text);
  }
  void write(std::string_view text) { block_->write(text); }

 private:
  void begin() {
    screen().drawn = block_.get();
    if (redirect_)
      for (auto& stream : printed_above()) stream.take(*block_);
    writes_above = &tell_above;
  }
  void end(std::string const& instead) {
    std::lock_guard const one_at_a_time(screen().mutex);
    write(DrawnBlock::erase + instead);
    block_->lines.clear();
    block_->unfinished.clear();
    if (screen().drawn != block_.get()) return;
    writes_above = nullptr;
    for (auto& stream : printed_above()) stream.give_back();
    screen().drawn = nullptr;
  }

  std::unique_ptr<DrawnBlock> block_;
  bool redirect_;
};

// One line of a progress bar, character for character as tqdm draws it.

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

// The figures behind one progress bar between its first and its last item.

/// What stands behind a line's rate.
struct Postfix {
  std::string metrics{};  ///< "train/loss=0.123, val/loss=0.200"
  std::string watched{};  ///< one of them, which is left out last
};

/// Keeps count of items and times (in seconds) for one bar. It is told both, draws nothing, and looks at no clock.
class ProgressMeter {
 public:
  ProgressMeter() = default;
  ProgressMeter(std::string title, std::optional<long> total, double now)
      : title_(std::move(title)), total_(total), began_(now), looked_(now), now_(now) {}

  /// Begins at `done` items, as a resumed epoch does. They do not count for the rate.
  void start_at(long done) { initial_ = done_ = shown_ = done; }
  void advance(long done, double now) {
    done_ = done;
    now_ = now;
  }
  long done() const { return done_; }
  double last_look() const { return now_; }
  void set_total(std::optional<long> total) { total_ = total; }
  /// The moment at which the last item is over in any case; nullopt: there is none.
  void end_by(std::optional<double> moment) { ends_ = moment; }

  /// The line of a bar that runs, with the smoothed rate.
  FULGURITE_COLD std::string running(Postfix const& postfix, int columns, bool ascii) {
    rate_.add(static_cast<double>(done_ - shown_), now_ - looked_);
    if (done_ != shown_) {
      shown_ = done_;
      looked_ = now_;
    }
    auto const rate = rate_.value();
    return line(rate ? rate : average(), postfix, columns, ascii);
  }
  /// The line of a bar that is finished, with the rate over all its items.
  std::string finished(Postfix const& postfix, int columns, bool ascii) const {
    return line(average(), postfix, columns, ascii);
  }

 private:
  std::optional<double> average() const {
    double const elapsed = now_ - began_;
    return elapsed > 0 && done_ > initial_ ? std::optional(static_cast<double>(done_ - initial_) / elapsed)
                                           : std::nullopt;
  }
  std::string line(std::optional<double> rate, Postfix const& postfix, int columns, bool ascii) const {
    return progress_line({title_, done_, total_, now_ - began_, rate, postfix.metrics, postfix.watched,
                          ends_ ? std::optional(*ends_ - now_) : std::nullopt},
                         columns, ascii);
  }

  std::string title_{};
  std::optional<long> total_ = std::nullopt;
  std::optional<double> ends_ = std::nullopt;
  long initial_ = 0;
  long done_ = 0;
  long shown_ = 0;
  double began_ = 0;
  double looked_ = 0;
  double now_ = 0;
  Rate rate_{};
};

}  // namespace fulgurite::report
