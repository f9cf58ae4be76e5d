#pragma once
// What the trial of a batch size shows: rows of its first batch, whether a pass has another one, steps and their time.

#include <algorithm>
#include <chrono>
#include <optional>

#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/tuner/found_batch_size.hpp>

namespace fulgurite::tune {

/// Told of each step of a trial, when it begins and when it is made. A step that is made again is told of again.
struct SeenTrial {
  using Clock = TrainerOptions::Clock;

  std::optional<long> batches{};  ///< of a pass, where the loader says it
  long rows = 0;                  ///< of the first batch
  long number = -1;               ///< of the step at hand
  long steps = 0;                 ///< that were made
  bool several = false;           ///< a pass was seen to have more than one batch

  void opens(RehearsedStep const& step) {
    several = several || (number >= 0 && step.number() > number && step.batch_idx() > opened_);
    number = step.number();
    opened_ = step.batch_idx();
    if (number == 0) rows = step.batch_size();
  }
  /// `samples`: of all of its batches.
  void closes(RehearsedStep const& step, long samples, Clock::time_point now) {
    several = several || step.batch_idx() > opened_;
    last_ = now;
    if (steps++ == 0) {
      first_ = now;
      first_samples_ = samples;
    } else {
      samples_ += samples;
    }
  }

  /// Seconds of a step and samples a second, without the first step, which has all preparations in it; with them, from
  /// `begin` on, where it is the only one. Nothing where no clock ran.
  void rate(BatchSizeTrial& trial, Clock::time_point begin) const {
    bool const alone = steps == 1;
    double const seconds = std::chrono::duration<double>(last_ - (alone ? begin : first_)).count();
    if (seconds <= 0) return;
    trial.seconds_per_step = seconds / static_cast<double>(std::max(1L, steps - 1));
    trial.samples_per_second = static_cast<double>(alone ? first_samples_ : samples_) / seconds;
  }

 private:
  long opened_ = 0;  ///< the batch that the step at hand began with
  Clock::time_point first_{}, last_{};
  long samples_ = 0, first_samples_ = 0;
};

}  // namespace fulgurite::tune
