#pragma once
// What a captured strategy tells about its work.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite {

namespace libtorch::capture {

/// A number that several threads may count: copies of a strategy, as the members of a sweep have them, share one
/// report.
class Count {
 public:
  Count(long number = 0) : number_(number) {}
  Count(Count const& other) : number_(long{other}) {}
  Count& operator=(Count const& other) {
    number_.store(other, std::memory_order_relaxed);
    return *this;
  }
  operator long() const { return number_.load(std::memory_order_relaxed); }
  Count& operator+=(long more) {
    number_.fetch_add(more, std::memory_order_relaxed);
    return *this;
  }
  Count& operator++() { return *this += 1; }

 private:
  std::atomic<long> number_;
};

}  // namespace libtorch::capture

/// Counts of what a captured strategy has done so far. Ask `captured.report()` for it before the strategy is given to a
/// trainer.
struct CaptureReport {
  using Count = libtorch::capture::Count;
  Count eager;      ///< steps that ran as they are written, and were not recorded
  Count recorded;   ///< tapes: steps that ran as they are written, and were written down; graphs: those recorded
  Count checked;    ///< steps that ran as they are written, and were compared with a replay, bit for bit
  Count confirmed;  ///< steps that ran once more as they are written, for a check alone, and of which nothing was kept
  Count replayed;   ///< steps of which no code of the model ran
  std::vector<std::string> reasons = {};                 ///< why steps stay eager
  std::vector<libtorch::capture::TapeFacts> tapes = {};  ///< one for each kind and shape of step
  Count dropped;   ///< how often recordings were dropped, or made anew, since the model had changed
  Count unproven;  ///< replays that a change of the model followed which no check can look behind
  Count told_unproven;
  Count noted;  ///< how many reasons there are
  Count told;   ///< of the reasons, those that were told as warnings
};

namespace libtorch::capture {

/// Against threads that write to the lists of a report, which is seldom.
inline std::mutex& lists_of_reports() {
  static std::mutex mutex;
  return mutex;
}

/// Notes a reason, once. `tell` hands it on.
inline void stays_as_written(CaptureReport& report, std::string const& reason) {
  std::lock_guard const lock(lists_of_reports());
  if (std::find(report.reasons.begin(), report.reasons.end(), reason) != report.reasons.end()) return;
  report.reasons.push_back(reason);
  ++report.noted;
}
inline void add_tape(CaptureReport& report, TapeFacts const& facts) {
  std::lock_guard const lock(lists_of_reports());
  report.tapes.push_back(facts);
}

/// say(identifier, sentence) for each reason that was not told yet.
template <class Say>
void tell(CaptureReport& report, Say&& say) {
  if (long const all = report.unproven, n = all - report.told_unproven; n != 0) {
    report.told_unproven = all;
    say("fulgurite.capture.unchecked",
        std::to_string(n) + " replayed steps can no longer be checked, since the model was changed after them in a way "
                            "that cannot be undone for a check: they may be wrong if something else changed, too");
  }
  while (report.told < report.noted) {
    std::string reason;
    {
      std::lock_guard const lock(lists_of_reports());
      if (report.told >= report.noted) return;  // another thread has told it
      reason = report.reasons[static_cast<std::size_t>(long{report.told})];
      ++report.told;
    }
    say("fulgurite.capture.eager", "steps of a captured fit run as they are written, because of this: " + reason);
  }
}

FULGURITE_COLD std::vector<std::string> account(CaptureReport const& report) {
  std::lock_guard const lock(lists_of_reports());
  auto const text = [](auto n) { return std::to_string(n); };
  std::vector<std::string> lines{"steps replayed: " + text(report.replayed) + ", recorded: " + text(report.recorded) +
                                 ", checked against a replay: " + text(report.checked) +
                                 ", run once more for a check: " + text(report.confirmed) +
                                 ", as written: " + text(report.eager)};
  for (auto const& tape : report.tapes)
    lines.push_back("tape of " + text(tape.recorded) + " operators: " + text(tape.replayed) + " replayed (" +
                    text(tape.out_forms) + " write into memory they are given, " + text(tape.products) +
                    " are products by kernels of ours, " + text(tape.small) +
                    " functions on few numbers), dropped: " + text(tape.views) + " views, " + text(tape.constants) +
                    " constants, " + text(tape.dead) + " without effect, " + text(tape.direct) +
                    " clearings and additions of gradients; keeps " + text(tape.bytes) + " bytes");
  for (auto const& reason : report.reasons) lines.push_back("stays as written: " + reason);
  return lines;
}

}  // namespace libtorch::capture

}  // namespace fulgurite
