#pragma once
// What a captured strategy tells about its work.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite {

/// Counts of what a captured strategy has done so far. Ask `captured.report()` for it before the strategy is given to a
/// trainer.
struct CaptureReport {
  long eager = 0;     ///< steps that ran as they are written, and were not recorded
  long recorded = 0;  ///< tapes: steps that ran as they are written, and were written down; graphs: those recorded
  long checked = 0;   ///< steps that ran as they are written, and were compared with a replay, bit for bit
  long confirmed =
      0;  ///< steps that ran once more as they are written, for a check alone, and of which nothing was kept
  long replayed = 0;                                     ///< steps of which no code of the model ran
  std::vector<std::string> reasons = {};                 ///< why steps stay eager
  std::vector<libtorch::capture::TapeFacts> tapes = {};  ///< one for each kind and shape of step
  long dropped = 0;   ///< how often recordings were dropped, or made anew, since the model had changed
  long unproven = 0;  ///< replays that a change of the model followed which no check can look behind
  long told_unproven = 0;
  std::size_t told = 0;  ///< of the reasons, those that were told as warnings
};

namespace libtorch::capture {

/// Notes a reason, once. `tell` hands it on.
inline void stays_as_written(CaptureReport& report, std::string const& reason) {
  if (std::find(report.reasons.begin(), report.reasons.end(), reason) == report.reasons.end())
    report.reasons.push_back(reason);
}

/// say(identifier, sentence) for each reason that was not told yet.
template <class Say>
void tell(CaptureReport& report, Say&& say) {
  if (long const n = report.unproven - std::exchange(report.told_unproven, report.unproven); n != 0)
    say("fulgurite.capture.unchecked",
        std::to_string(n) + " replayed steps can no longer be checked, since the model was changed after them in a way "
                            "that cannot be undone for a check: they may be wrong if something else changed, too");
  while (report.told != report.reasons.size())
    say("fulgurite.capture.eager",
        "steps of a captured fit run as they are written, because of this: " + report.reasons[report.told++]);
}

FULGURITE_COLD std::vector<std::string> account(CaptureReport const& report) {
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
