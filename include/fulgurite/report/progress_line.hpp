#pragma once
// What is drawn at the bottom of a terminal while a run goes on: lines that are written again and again, and those of
// progress bars, as tqdm draws them.

#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::report {

/// Whether both are the same terminal, or the same stream.
bool same_terminal(std::FILE* one, std::FILE* other);

/// A block of lines as it was last drawn. Between two drawings the cursor stands in the line above it, which is empty
/// but for `unfinished`: what somebody has printed and not yet ended by a newline.
struct DrawnBlock {
  std::FILE* stream;
  std::vector<std::string> lines{};
  std::string unfinished{};

  static constexpr char const* erase = "\r\x1b[J";  ///< from the line above the block on

  /// Each call is one write, so that nothing flickers.
  void write(std::string_view text) const;
  /// The line above the block, from its beginning.
  std::string line_above() const;
  void draw() const;
};

/// Which block is drawn now. A process has one such place, since a terminal has one bottom.
struct Screen {
  std::recursive_mutex mutex{};  ///< also of whoever writes: loaders have threads that may print
  DrawnBlock* drawn = nullptr;
};
/// Never destroyed: what is printed while the program ends may still ask.
Screen& screen();

/// What `write` writes, whole lines, takes the place of the block, which is drawn anew below them.
template <class Write>
void write_above(DrawnBlock const& block, Write write) {
  block.write(DrawnBlock::erase);
  write();
  block.draw();
}

/// What `tell` does while a block is drawn.
void tell_above(std::FILE* stream, std::string_view lines);

// What a program prints by std::cout, std::cerr and std::clog while lines are drawn on the same terminal comes out
// above them.

/// Stands before the buffer of one of the standard streams while a block is drawn. Whole lines go on to that buffer at
/// once, above the block. A line that has no end yet is held, and shown when the stream is flushed. A thread that has
/// begun to print when the stream is given back still finds the buffer: it lives as long as the process.
class PrintedAbove : public std::streambuf {
 public:
  PrintedAbove(std::ostream& of, std::FILE* goes_to) : of_(of), goes_to_(goes_to) {}

  /// Nothing happens to a stream that goes elsewhere, such as into a file.
  void take(DrawnBlock const& block);
  /// Where somebody else has put a buffer before this one, it stays.
  void give_back();

 protected:
  std::streamsize xsputn(char const* text, std::streamsize size) override;
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  /// Of a line without an end, what can stand in one line: nothing where it has codes for the terminal.
  std::string shown() const;
  void pass_on(std::string_view text);
  /// A stream that has failed stays so.
  void put(std::streambuf* buffer);

  std::ostream& of_;
  std::FILE* goes_to_;
  std::streambuf* behind_ = nullptr;
  bool taken_ = false;
  std::string held_{};
};

/// The three streams. Never destroyed, as they are not.
std::array<PrintedAbove, 3>& printed_above();

// Lines at the bottom of a terminal that are written again and again.

/// Draws lines and redraws them in their place. From the first show() until they are left, wiped or kept, what others
/// say comes out above them: all that goes through `tell`, and with `redirect` what the program prints by std::cout,
/// std::cerr and std::clog on the same terminal. Of what comes by printf, or from another process, one line at a time
/// does. Of several blocks in a process the first one that is drawn has this; the others are drawn beside it.
class BlockOfLines {
 public:
  static constexpr int beside = 2;  ///< lines of the screen that are not the block's: the one above, the one below

  explicit BlockOfLines(std::FILE* stream, bool redirect = true);
  /// A copy has drawn nothing yet.
  BlockOfLines(BlockOfLines const& other);
  BlockOfLines(BlockOfLines&&) noexcept = default;
  BlockOfLines& operator=(BlockOfLines other) noexcept;
  ~BlockOfLines() {
    if (block_) leave();
  }

  /// Lines are to be no wider than the terminal. One that the block had, and has no more, is erased.
  void show(std::vector<std::string> lines);
  /// Only the first so many lines stay.
  void shorten(std::size_t lines);
  /// Removes the block.
  void wipe();
  /// Writes this text in place of the block, and leaves it there for good.
  void keep(std::string_view line);
  /// Leaves the block as it is; what is written next begins below.
  void leave();
  void write(std::string_view text) { block_->write(text); }

 private:
  void begin();
  void end(std::string const& instead);

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
std::string progress_bar(double part, std::size_t columns, bool ascii);

/// What stands for metrics that found no room.
inline constexpr std::string_view more_metrics = "...";

/// The metrics without the last of them that is not `watched`, with dots at the end in its place; without `watched`
/// where it is the only one.
std::string without_last(std::string_view metrics, std::string_view watched = {});

/// The whole line: "Epoch 3:  45%|████▌     | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]". `columns` is the
/// width of the line; the bar takes what the rest leaves, at least one column, and 10 where `columns` is 0, which means
/// unknown. What finds no room is left out as a whole, as a number that is cut in two reads as another one: metrics,
/// the last first, then the rate, the metric that is watched, the times, the bar, the title. Below one item a second
/// the rate is shown as seconds an item, "1.53s/it".
std::string progress_line(ProgressLine line, int columns = 0, bool ascii = false);

/// A metric's value in three significant digits, filled up to five characters so that the line does not jump: "0.123",
/// "2.000", "1e-05".
std::string short_value(double value);

/// Items a second, smoothed as tqdm does: the quotient of two moving averages, of items and of seconds between two
/// looks.
class Rate {
 public:
  void add(double items, double seconds);
  /// Both averages begin at 0 and are too small by the same factor at first, which the quotient cancels.
  std::optional<double> value() const;

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
  ProgressMeter(std::string title, std::optional<long> total, double now);

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
  std::string running(Postfix const& postfix, int columns, bool ascii);
  /// The line of a bar that is finished, with the rate over all its items.
  std::string finished(Postfix const& postfix, int columns, bool ascii) const;

 private:
  std::optional<double> average() const;
  std::string line(std::optional<double> rate, Postfix const& postfix, int columns, bool ascii) const;

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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/progress_line.ipp>
#endif
