#pragma once
// The bodies of report/progress_line.hpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <fulgurite/core/text.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

/// True if both are the same terminal, or the same stream.
FULGURITE_BODY bool same_terminal(std::FILE* one, std::FILE* other) {
  if (one == other) return true;
  struct stat a{}, b{};
  int const first = ::fileno(one), second = ::fileno(other);
  return first >= 0 && second >= 0 && ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && S_ISCHR(a.st_mode) &&
         S_ISCHR(b.st_mode) && a.st_rdev == b.st_rdev;
}

/// A block of lines as it was last drawn. Between two drawings the cursor is in the line above it, which is empty
/// except for `unfinished`: printed text that does not end with a newline yet.
struct DrawnBlock {
  std::FILE* stream;
  std::vector<std::string> lines{};
  std::string unfinished{};

  static constexpr char const* erase = "\r\x1b[J";  ///< erases from the line above the block on

  /// Each call is one write, so that nothing flickers.
  FULGURITE_BODY void write(std::string_view text) const {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
  }

  /// The text that redraws the line above the block, with its unfinished text.
  FULGURITE_BODY std::string line_above() const {
    int const columns = terminal_columns(stream);
    return "\r\x1b[K" + std::string(clipped(unfinished, columns > 0 ? static_cast<std::size_t>(columns) - 1 : 79));
  }

  FULGURITE_BODY void draw() const {
    std::string text = line_above() + "\n";
    // Each line is erased before it is written: erasing afterwards would remove a character in the last column.
    for (auto const& line : lines) ((text += "\x1b[K") += line) += '\n';
    text += "\x1b[J\x1b[" + std::to_string(lines.size() + 1) + "A";
    write(unfinished.empty() ? text : text + line_above());  // later output follows it
  }
};

/// The block that is drawn now. A process has only one, since a terminal has one bottom.
struct Screen {
  std::recursive_mutex mutex{};  ///< also locked by code that prints: loaders have threads that may print
  DrawnBlock* drawn = nullptr;
};
/// Never destroyed: output at the end of the program may still use it.
FULGURITE_BODY Screen& screen() {
  static Screen* const one = new Screen;
  return *one;
}

/// Erases the block, calls `write`, which must print whole lines, and redraws the block below them.
template <class Write>
void write_above(DrawnBlock const& block, Write write) {
  block.write(DrawnBlock::erase);
  write();
  block.draw();
}

/// The action of `print_lines` while a block is drawn.
FULGURITE_BODY void print_above(std::FILE* stream, std::string_view lines) {
  std::lock_guard const one_at_a_time(screen().mutex);
  auto const write = [&] {
    std::fwrite(lines.data(), 1, lines.size(), stream);
    std::fflush(stream);
  };
  auto const* const block = screen().drawn;
  if (block && same_terminal(stream, block->stream)) write_above(*block, write);
  else write();
}

// Prints the output of a program by std::cout, std::cerr and std::clog above the lines that are drawn on the same
// terminal.

/// Replaces the buffer of one of the standard streams while a block is drawn. Whole lines are passed on at once, above
/// the block. An unfinished line is held, and shown when the stream is flushed. A thread that is printing when the
/// stream is restored still finds this buffer: it lives as long as the process.
class PrintedAbove : public std::streambuf {
 public:
  PrintedAbove(std::ostream& of, std::FILE* goes_to) : of_(of), goes_to_(goes_to) {}

  /// Replaces the buffer, unless the stream goes elsewhere, such as to a file.
  FULGURITE_BODY void take(DrawnBlock const& block) {
    if (taken_ || of_.rdbuf() == this || !same_terminal(goes_to_, block.stream)) return;
    behind_ = of_.rdbuf();
    taken_ = true;
    put(this);
  }

  /// Restores the buffer. If other code has replaced it since, that buffer stays.
  FULGURITE_BODY void give_back() {
    if (!taken_) return;
    taken_ = false;
    if (of_.rdbuf() == this) put(behind_);
    if (!held_.empty()) pass_on(std::exchange(held_, {}));
  }

 protected:
  FULGURITE_BODY std::streamsize xsputn(char const* text, std::streamsize size) override {
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

  FULGURITE_BODY int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    char const one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }

  FULGURITE_BODY int sync() override {
    std::lock_guard const one_at_a_time(screen().mutex);
    auto* const block = screen().drawn;
    if (!taken_ || !block) return behind_->pubsync();
    if (held_.empty()) return 0;
    block->unfinished = shown();
    block->write(block->line_above());
    return 0;
  }

 private:
  /// An unfinished line as it can be shown in one line; empty if it has control codes.
  FULGURITE_BODY std::string shown() const {
    auto const last = held_.rfind('\r');
    auto const text = held_.substr(last == std::string::npos ? 0 : last + 1);
    for (char const c : text)
      if (static_cast<unsigned char>(c) < 0x20) return {};
    return text;
  }

  FULGURITE_BODY void pass_on(std::string_view text) {
    behind_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
    behind_->pubsync();
  }

  /// Sets the stream's buffer. A stream that has failed remains failed.
  FULGURITE_BODY void put(std::streambuf* buffer) {
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

/// The three streams. Never destroyed, like the streams themselves.
FULGURITE_BODY std::array<PrintedAbove, 3>& printed_above() {
  static auto* const all = new std::array<PrintedAbove, 3>{
      PrintedAbove(std::cout, stdout), PrintedAbove(std::cerr, stderr), PrintedAbove(std::clog, stderr)};
  return *all;
}

FULGURITE_BODY BlockOfLines::BlockOfLines(std::FILE* stream, bool redirect)
    : block_(new DrawnBlock{.stream = stream}), redirect_(redirect) {}

FULGURITE_BODY BlockOfLines::BlockOfLines(BlockOfLines const& other)
    : BlockOfLines(other.block_->stream, other.redirect_) {}

FULGURITE_BODY BlockOfLines::BlockOfLines(BlockOfLines&& other) noexcept
    : block_(std::move(other.block_)), redirect_(other.redirect_) {}

FULGURITE_BODY BlockOfLines::~BlockOfLines() {
  if (block_) leave();
}

FULGURITE_BODY BlockOfLines& BlockOfLines::operator=(BlockOfLines other) noexcept {
  std::swap(block_, other.block_);
  std::swap(redirect_, other.redirect_);
  return *this;
}

FULGURITE_BODY void BlockOfLines::show(std::vector<std::string> lines) {
  std::lock_guard const one_at_a_time(screen().mutex);
  block_->lines = std::move(lines);
  if (screen().drawn == nullptr) begin();
  block_->draw();
}

FULGURITE_BODY void BlockOfLines::shorten(std::size_t lines) {
  if (block_->lines.size() <= lines) return;
  auto fewer = block_->lines;
  fewer.resize(lines);
  show(std::move(fewer));
}

FULGURITE_BODY void BlockOfLines::wipe() {
  if (!block_->lines.empty()) end("");
}

FULGURITE_BODY void BlockOfLines::keep(std::string_view line) { end(std::string(line) + "\n"); }

FULGURITE_BODY void BlockOfLines::leave() {
  std::string text;
  for (auto const& line : block_->lines) (text += line) += '\n';
  if (!text.empty()) end(text);
}

FULGURITE_BODY void BlockOfLines::write(std::string_view text) { block_->write(text); }

FULGURITE_BODY void BlockOfLines::begin() {
  screen().drawn = block_.get();
  if (redirect_)
    for (auto& stream : printed_above()) stream.take(*block_);
  writes_above = &print_above;
}

FULGURITE_BODY void BlockOfLines::end(std::string const& instead) {
  std::lock_guard const one_at_a_time(screen().mutex);
  write(DrawnBlock::erase + instead);
  block_->lines.clear();
  block_->unfinished.clear();
  if (screen().drawn != block_.get()) return;
  writes_above = nullptr;
  for (auto& stream : printed_above()) stream.give_back();
  screen().drawn = nullptr;
}

FULGURITE_BODY std::string progress_bar(double part, std::size_t columns, bool ascii) {
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

FULGURITE_BODY std::string without_last(std::string_view metrics, std::string_view watched) {
  if (metrics.ends_with(", ...")) metrics.remove_suffix(5);
  std::string_view kept;
  if (auto const comma = metrics.rfind(", "); comma != metrics.npos && metrics.substr(comma + 2) == watched) {
    kept = watched;
    metrics = metrics.substr(0, comma);
  }
  auto const comma = metrics.rfind(", ");
  std::string rest(metrics.substr(0, comma == metrics.npos ? 0 : comma));
  for (auto const one : {kept, more_metrics})
    if (!one.empty()) append_item(rest, one);
  return rest;
}

FULGURITE_BODY std::string progress_line(ProgressLine line, int columns, bool ascii) {
  bool const rated = line.rate && *line.rate > 0;
  std::string const rate = !rated             ? "?it/s"
                           : *line.rate < 1.0 ? formatted("%5.2f", 1.0 / *line.rate) + "s/it"
                                              : formatted("%5.2f", *line.rate) + "it/s";
  std::string const title = line.title.empty() ? "" : std::string(line.title) + ": ";
  // If more items are done than announced, the total is wrong and is not shown.
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
  // The bar is included if there is a total and room for it.
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

FULGURITE_BODY std::string short_value(double value) {
  std::string text = formatted("%.3g", value);
  for (std::string_view sign : {"e+0", "e-0"})
    if (auto const at = text.find(sign); at != std::string::npos) text.erase(at + 2, 1);
  if (!std::isfinite(value) || text.find('e') != std::string::npos) return text;
  if (text.find('.') == std::string::npos && text.size() < 5) text += '.';
  return text.size() < 5 ? text + std::string(5 - text.size(), '0') : text;
}

FULGURITE_BODY void Rate::add(double items, double seconds) {
  if (items <= 0 || seconds <= 0) return;
  items_ = alpha * items + (1 - alpha) * items_;
  seconds_ = alpha * seconds + (1 - alpha) * seconds_;
}

FULGURITE_BODY std::optional<double> Rate::value() const {
  return seconds_ > 0 ? std::optional(items_ / seconds_) : std::nullopt;
}

FULGURITE_BODY ProgressMeter::ProgressMeter(std::string title, std::optional<long> total, double now)
    : title_(std::move(title)), total_(total), began_(now), looked_(now), now_(now) {}

FULGURITE_BODY std::string ProgressMeter::running(Postfix const& postfix, int columns, bool ascii) {
  rate_.add(static_cast<double>(done_ - shown_), now_ - looked_);
  if (done_ != shown_) {
    shown_ = done_;
    looked_ = now_;
  }
  auto const rate = rate_.value();
  return line(rate ? rate : average(), postfix, columns, ascii);
}

FULGURITE_BODY std::string ProgressMeter::finished(Postfix const& postfix, int columns, bool ascii) const {
  return line(average(), postfix, columns, ascii);
}

FULGURITE_BODY std::optional<double> ProgressMeter::average() const {
  double const elapsed = now_ - began_;
  return elapsed > 0 && done_ > initial_ ? std::optional(static_cast<double>(done_ - initial_) / elapsed)
                                         : std::nullopt;
}

FULGURITE_BODY std::string ProgressMeter::line(std::optional<double> rate, Postfix const& postfix, int columns,
                                               bool ascii) const {
  return progress_line({title_, done_, total_, now_ - began_, rate, postfix.metrics, postfix.watched,
                        ends_ ? std::optional(*ends_ - now_) : std::nullopt},
                       columns, ascii);
}

}  // namespace fulgurite::report
