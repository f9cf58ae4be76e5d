#pragma once
// The figures behind one progress bar between its first and its last item.

#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/progress_line.hpp>

namespace fulgurite::report {

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
