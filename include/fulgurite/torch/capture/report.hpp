#pragma once
// What a captured strategy tells of its work.

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

}  // namespace fulgurite
