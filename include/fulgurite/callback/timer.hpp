#pragma once
// Ends a fit after some time, and measures how long training, validation and test take.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>

namespace fulgurite {

/// Options of Timer: the time, when it reads the clock, and whether it prints that the deadline is reached.
struct TimerOptions {
  /// The time after which a fit ends; not given: it only measures.
  TimeSpan duration = std::nullopt;
  Interval interval = Interval::step;  ///< read the clock after each optimizer step, or after each epoch
  bool verbose = true;                 ///< print to stderr that the time is used up
};

/// Ends a fit after a time: `Timer{std::chrono::hours{8}}` or `Timer{"00:08:00:00"}` (DD:HH:MM:SS), or as an option,
/// `Timer{{.duration = std::chrono::hours{8}, .verbose = false}}`. `Timer{}` only measures. The time used so far is
/// saved: a resumed fit continues the count, and if the time is already used up it stops at once. min_epochs and
/// min_steps take precedence over the timer.
class Timer {
 public:
  using Seconds = fulgurite::Seconds;
  using Hooks = Implements<hook::on_fit_start, hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end,
                           hook::on_train_end, hook::on_validation_start, hook::on_validation_end, hook::on_test_start,
                           hook::on_test_end, hook::before_save, hook::on_exception>;
  static constexpr bool ignores_tensors = true;
  static constexpr Order order = Order::timer;
  static constexpr std::string_view reads = "the clock", writes = "the end of training";
  /// The stages that are measured separately; training includes the validations within it.
  enum class Timed : std::uint8_t { train, validate, test };

  Timer() = default;
  explicit Timer(TimerOptions options);
  explicit Timer(TimeSpan duration, TimerOptions options = {});
  template <class fulgurite_callback_no_such_option_of = TimerOptions>
  explicit Timer(FULGURITE_ANYTHING_AFTER(TimeSpan)) FULGURITE_REFUSED(FULGURITE_SENTENCE_NO_SUCH_OPTION);

  void on_fit_start(Context& ctx) { stop_when_spent(ctx); }
  void on_train_start(Context& ctx) { begin(Timed::train, ctx); }
  void on_train_batch_end(Context& ctx);
  void on_train_epoch_end(Context& ctx) { stop_when_spent(ctx); }
  void on_train_end(Context& ctx) { end(Timed::train, ctx); }
  void on_validation_start(Context& ctx) { begin(Timed::validate, ctx); }
  void on_validation_end(Context& ctx) { end(Timed::validate, ctx); }
  void on_test_start(Context& ctx) { begin(Timed::test, ctx); }
  void on_test_end(Context& ctx) { end(Timed::test, ctx); }
  // Updates the clock, so that a file contains the time used until the file was requested.
  void before_save(Context& ctx);
  // Stops the clocks: time after a failed run does not count.
  void on_exception(Context& ctx);

  bool limits_time() const { return limit_.has_value(); }
  /// Time spent in training, validation or test, summed over all runs, as of the latest event of which this timer was
  /// notified; training includes its validations.
  Seconds elapsed(Timed what = Timed::train) const;
  /// When the latest run of that stage began or ended, on the trainer's clock; nullopt before that.
  std::optional<Seconds> start_time(Timed what = Timed::train) const;
  std::optional<Seconds> end_time(Timed what = Timed::train) const;
  /// The remaining time, never negative; nullopt without a limit.
  std::optional<Seconds> remaining() const;

  /// Saves or loads the time used. If a fit rolls back, a running clock is not set back: the time has passed.
  void state(auto& archive);

 private:
  struct Clock {
    double before = 0;   ///< seconds of finished runs
    double running = 0;  ///< seconds of the current run, when the clock was last read
    std::optional<double> began = std::nullopt;
    std::optional<double> ended = std::nullopt;
    bool runs() const { return began && !ended; }
  };
  static std::optional<Seconds> moment(std::optional<double> seconds);

  Clock& of(Timed what);
  Clock const& of(Timed what) const;

  void begin(Timed what, Context& ctx);
  void look(Timed what, Context& ctx);
  void end(Timed what, Context& ctx);
  void stop_when_spent(Context& ctx);

  std::optional<Seconds> limit_ = std::nullopt;
  TimerOptions options_{};
  std::array<Clock, 3> clocks_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/timer.ipp>
#endif
