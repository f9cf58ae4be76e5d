#pragma once
// The lines at the bottom of a terminal during a run, which are redrawn repeatedly, and progress bars in tqdm's format.

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::report {

struct DrawnBlock;

// Lines at the bottom of a terminal that are redrawn repeatedly.

/// Draws lines and redraws them in place. From the first show() until leave(), wipe() or keep(), other output is
/// printed above them: everything that uses `print_lines`, and with `redirect` the program's output by std::cout,
/// std::cerr and std::clog on the same terminal. Output by printf, or from another process, is only printed above them
/// if it comes one line at a time. With several blocks in a process, this holds for the first one that is drawn; the
/// others are drawn without it.
class BlockOfLines {
 public:
  static constexpr int beside = 2;  ///< lines of the screen outside of the block: the one above, the one below

  explicit BlockOfLines(std::FILE* stream, bool redirect = true);
  /// A copy has drawn nothing yet.
  BlockOfLines(BlockOfLines const& other);
  BlockOfLines(BlockOfLines&&) noexcept;
  BlockOfLines& operator=(BlockOfLines other) noexcept;
  ~BlockOfLines();

  /// Draws lines, which must not be wider than the terminal. Earlier lines that are no longer in the block are erased.
  void show(std::vector<std::string> lines);
  /// Keeps only the first `lines` lines.
  void shorten(std::size_t lines);
  /// Removes the block.
  void wipe();
  /// Replaces the block by this text, permanently.
  void keep(std::string_view line);
  /// Leaves the block on the screen; later output begins below it.
  void leave();
  void write(std::string_view text);

 private:
  void begin();
  void end(std::string const& instead);

  std::unique_ptr<DrawnBlock> block_;
  bool redirect_;
};

// One line of a progress bar, in the same format as tqdm.

/// The contents of a line. `rate` is in items per second.
struct ProgressLine {
  std::string_view title;
  long done = 0;
  std::optional<long> total = std::nullopt;  ///< if not given, neither a bar nor an end is shown
  double elapsed = 0;
  std::optional<double> rate = std::nullopt;
  std::string_view postfix = {};  ///< "train/loss=0.123, val/loss=0.200"
  std::string_view watched = {};  ///< the metric among these that a callback watches: it is dropped last
  std::optional<double> seconds_left = std::nullopt;  ///< upper limit, whatever the rate says
};

/// A bar of `columns` columns, filled to `part`, from 0 to 1: with block characters in eighths of a column, in ASCII in
/// tenths.
std::string progress_bar(double part, std::size_t columns, bool ascii);

/// Replaces metrics for which there is no room.
inline constexpr std::string_view more_metrics = "...";

/// Removes the last metric that is not `watched`, and appends dots instead; removes `watched` if it is the only one.
std::string without_last(std::string_view metrics, std::string_view watched = {});

/// The whole line: "Epoch 3:  45%|████▌     | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]". `columns` is the
/// width of the line; the bar gets the remaining columns, at least one, and 10 if `columns` is 0, which means unknown.
/// Parts for which there is no room are left out as a whole, since a number that is cut in two reads as another number:
/// first metrics, from the last one on, then the rate, the watched metric, the times, the bar, the title. Below one
/// item a second the rate is shown as seconds an item, "1.53s/it".
std::string progress_line(ProgressLine line, int columns = 0, bool ascii = false);

/// A metric's value in three significant digits, padded to five characters so that the line does not jump: "0.123",
/// "2.000", "1e-05".
std::string short_value(double value);

/// Items a second, smoothed as in tqdm: the quotient of two moving averages, of the items and of the seconds between
/// two updates.
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

// The counts and times of one progress bar between its first and its last item.

/// The text after a line's rate.
struct Postfix {
  std::string metrics{};  ///< "train/loss=0.123, val/loss=0.200"
  std::string watched{};  ///< one of the metrics, which is dropped last
};

/// Counts items and times (in seconds) for one bar. The caller supplies both; the meter draws nothing, and reads no
/// clock.
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
  /// Sets the time at which the last item is over in any case; nullopt: there is none.
  void end_by(std::optional<double> moment) { ends_ = moment; }

  /// The line of a running bar, with the smoothed rate.
  std::string running(Postfix const& postfix, int columns, bool ascii);
  /// The line of a finished bar, with the rate over all its items.
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
