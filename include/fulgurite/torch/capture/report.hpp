#pragma once
// What a captured strategy tells of its work.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fulgurite/torch/capture/tape.hpp>

namespace fulgurite {

/// What a captured strategy has done so far; ask `captured.report()` before the strategy is given to a trainer.
struct CaptureReport {
  long eager = 0;     ///< steps that ran as they are written, for good
  long recorded = 0;  ///< steps that ran as they are written, and were written down
  long checked = 0;   ///< of these, those that were compared with a replay, bit for bit
  long replayed = 0;  ///< steps of which no code of the model ran
  std::vector<std::string> reasons = {};                       ///< why steps stay eager
  std::vector<libtorch::capture::TapeFacts> tapes = {};        ///< one for each kind and shape of step
};

namespace libtorch::capture {

inline void warn(std::string const& identifier, std::string const& sentence) {
  std::fprintf(stderr, "warning: [%s] %s\n", identifier.c_str(), sentence.c_str());
}

/// Each reason once.
inline void stays_as_written(CaptureReport& report, std::string const& reason) {
  if (std::find(report.reasons.begin(), report.reasons.end(), reason) != report.reasons.end()) return;
  report.reasons.push_back(reason);
  warn("fulgurite.capture.eager", "steps of a captured fit run as they are written, because of this: " + reason);
}

inline std::vector<std::string> account(CaptureReport const& report) {
  auto const text = [](auto n) { return std::to_string(n); };
  std::vector<std::string> lines{"steps replayed: " + text(report.replayed) + ", recorded: " + text(report.recorded) + ", of these checked against a replay: " +
                                 text(report.checked) + ", as written for good: " + text(report.eager)};
  for (auto const& tape : report.tapes)
    lines.push_back("tape of " + text(tape.recorded) + " operators: " + text(tape.replayed) + " replayed (" + text(tape.out_forms) +
                    " write into memory they are given), dropped: " + text(tape.views) + " views, " + text(tape.constants) + " constants, " +
                    text(tape.dead) + " without effect, " + text(tape.direct) + " clearings and additions of gradients; keeps " + text(tape.bytes) + " bytes");
  for (auto const& reason : report.reasons) lines.push_back("stays as written: " + reason);
  return lines;
}

}  // namespace libtorch::capture

}  // namespace fulgurite
