#pragma once
// When a ModelCheckpoint is due: after so many steps, epochs or seconds.

#include <optional>
#include <utility>

#include <fulgurite/callback/watch.hpp>

namespace fulgurite::checkpointing {

/// How often files are due: after so many steps or epochs, where 0 means never, or after so many seconds.
struct Rhythm {
  long steps = 0;
  long epochs = 0;
  std::optional<double> seconds = std::nullopt;
};

/// Keeps count of what has passed since files were last due.
class Timing {
 public:
  explicit Timing(Rhythm rhythm) : rhythm_(rhythm) {}

  /// Training begins: steps and time count from here. A run that goes on has waited for its next file before.
  void begin(auto& ctx, bool goes_on) {
    if (!goes_on) waited_ = 0;
    time_checked_ = ctx.seconds_now() - waited_;
    looked_ = ctx.global_step();
    if (rhythm_.seconds) static_cast<void>(ctx.has_come(time_checked_ + *rhythm_.seconds));  // waited for from here on
  }

  /// How long the next file has been waited for by now.
  void look(auto& ctx) {
    if (rhythm_.seconds) waited_ = ctx.seconds_now() - time_checked_;
  }

  /// Whether that epoch, counted from 0, ends with a file.
  bool by_epoch(int epoch) const { return rhythm_.epochs >= 1 && (epoch + 1) % rhythm_.epochs == 0; }

  /// Whether an n-th step was taken since this was last asked. A batch may hold several steps.
  bool by_steps(auto& ctx) {
    look(ctx);
    long const before = std::exchange(looked_, ctx.global_step());
    return rhythm_.steps >= 1 && before / rhythm_.steps != looked_ / rhythm_.steps;
  }

  /// Whether so much time has passed since this last was the case.
  bool by_time(auto& ctx) {
    if (!rhythm_.seconds) return false;
    if (!ctx.has_come(time_checked_ + *rhythm_.seconds)) return false;
    time_checked_ = ctx.seconds_now();
    waited_ = 0;
    return true;
  }

  /// Whether a step that was taken after the end of its batch makes a file due: a stop, or skip_epoch, makes the step
  /// of an open window then, so that the end of a batch is not the only place to look.
  bool by_flushed_step(auto& ctx) {
    if (!watch::in_fit(ctx) || ctx.accumulating() || looked_ == ctx.global_step()) return false;
    return by_steps(ctx) || by_time(ctx);
  }

  /// Of the last file by time not the moment is saved, but how long ago it was at the last batch: a run that is stopped
  /// again and again before its file is due would else never leave one. Where a fit goes back, no time is put back.
  void state(auto& archive) {
    archive("step_looked_at", looked_);
    if (rhythm_.seconds) archive("waited", waited_);
  }

 private:
  Rhythm rhythm_;
  double time_checked_ = 0;
  double waited_ = 0;  ///< seconds from then to the last batch
  long looked_ = 0;    ///< the step at which it was last asked whether an n-th was taken
};

}  // namespace fulgurite::checkpointing
