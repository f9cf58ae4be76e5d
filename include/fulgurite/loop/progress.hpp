#pragma once
// Every position of a run in one place: resuming and searching need nothing else.

#include <cstdint>

namespace fulgurite {

/// Where inside an epoch a position lies.
enum class At : std::uint8_t { before_batch, after_batch, after_validation, after_epoch };

/// Counters of a run. `epoch` completed epochs, `batch` batches consumed in the current one, `global_step` optimizer steps.
struct Progress {
  int epoch = 0;
  long batch = 0;
  long global_step = 0;
  long skipped_steps = 0;   ///< of these, steps not taken because a scaled gradient was not finite
  long logged_steps = 0;    ///< batches that ended with a step and its validation: the loggers' x axis
  long total_batches = 0;   ///< over all epochs
  long window_start = 0;    ///< batch at which the current accumulation window began
  At at = At::before_batch;

  void state(auto& archive) {
    int where = static_cast<int>(at);
    archive("epoch", epoch)("batch", batch)("global_step", global_step)("skipped_steps", skipped_steps)(
        "logged_steps", logged_steps)("total_batches", total_batches)("window_start", window_start)("at", where);
    at = static_cast<At>(where);
  }
};

}  // namespace fulgurite
