#pragma once
// What a captured strategy reports about its work.

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/capture/recorder.hpp>

namespace fulgurite {
namespace libtorch::capture {

/// A counter that several threads may increment: copies of a strategy, such as those of a sweep's members, share one
/// report.
class Count {
 public:
  Count(long number = 0) : number_(number) {}
  Count(Count const& other) : number_(long{other}) {}
  Count& operator=(Count const& other);
  operator long() const { return number_.load(std::memory_order_relaxed); }
  Count& operator+=(long more);
  Count& operator++() { return *this += 1; }

 private:
  std::atomic<long> number_;
};

}  // namespace libtorch::capture

/// Counts what a captured strategy has done. Get it before the strategy is given to a trainer:
///
///     Captured strategy{SingleDevice{cpu}};
///     auto report = strategy.report();
///     auto trainer = make_trainer<Net>(options, strategy);
///     trainer.fit(model, batches);  // then read report->replayed
struct CaptureReport {
  using Count = libtorch::capture::Count;
  Count eager;                    ///< steps that ran as they are written, and were not recorded
  Count recorded;                 ///< steps that were recorded (those of tapes also ran as they are written)
  Count checked;                  ///< steps that ran as they are written, and were compared with a replay, bit for bit
  Count confirmed;                ///< extra runs of a step as it is written, for a check; their results were discarded
  Count replayed;                 ///< steps in which no code of the model ran
  Count updated;                  ///< those of them whose graph makes the update, if numbers are finite
  std::string update_apart = {};  ///< why the update of some step is not part of its graph
  Count joined;                   ///< those that ran in a graph of several steps
  std::string single = {};        ///< why steps are not joined
  std::vector<std::string> reasons = {};                 ///< why steps run eagerly
  std::vector<libtorch::capture::TapeFacts> tapes = {};  ///< one for each kind and shape of step
  Count dropped;   ///< how often recordings were dropped or made again because the model had changed
  Count unproven;  ///< replays that can no longer be checked, because the model was changed after them
  Count warned_unproven;
  Count noted;   ///< size of `reasons`
  Count warned;  ///< number of reasons that were given as warnings
};

namespace libtorch::capture {

/// Guards the lists of all reports, which are seldom written.
inline std::mutex& lists_of_reports() {
  static std::mutex mutex;
  return mutex;
}

/// Adds a reason to the report, unless it is there already. `pass_on_reasons` gives it as a warning.
void stays_as_written(CaptureReport& report, std::string const& reason);
void add_tape(CaptureReport& report, TapeFacts const& facts);
void update_stays_apart(CaptureReport& report, std::string const& reason);
void steps_stay_single(CaptureReport& report, std::string const& reason);

/// Calls `say(identifier, sentence)` for each reason that was not given as a warning yet.
template <class Say>
void pass_on_reasons(CaptureReport& report, Say&& say) {
  if (long const all = report.unproven, n = all - report.warned_unproven; n != 0) {
    report.warned_unproven = all;
    say("fulgurite.capture.unchecked",
        std::to_string(n) + " replayed steps can no longer be checked, since the model was changed after them in a way "
                            "that cannot be undone for a check: they may be wrong if something else changed, too");
  }
  while (report.warned < report.noted) {
    std::string reason;
    {
      std::lock_guard const lock(lists_of_reports());
      if (report.warned >= report.noted) return;  // another thread has given it
      reason = report.reasons[static_cast<std::size_t>(long{report.warned})];
      ++report.warned;
    }
    say("fulgurite.capture.eager", "steps of a captured fit run as they are written, because of this: " + reason);
  }
}

std::vector<std::string> account(CaptureReport const& report);

}  // namespace libtorch::capture
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/report.ipp>
#endif
