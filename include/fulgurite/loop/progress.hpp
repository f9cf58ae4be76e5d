#pragma once
// Every position of a run in one place.

namespace fulgurite {

/// Counters of a run. `epoch` completed epochs, `batch` batches consumed in the current one, `global_step` optimizer
/// steps.
struct Progress {
  int epoch = 0;
  long batch = 0;
  long global_step = 0;
  long skipped_steps = 0;  ///< of these, steps not taken because a loss or a gradient was not finite
  long logged_steps = 0;   ///< batches that ended with a step and its validation: the loggers' x axis
  long total_batches = 0;  ///< taken from the loader over all epochs, those that were skipped included
  long window_start = 0;   ///< batch at which the current accumulation window began
  long window_end = 0;     ///< the batch after that window, as long as the loader goes on so far
  long left_out = 0;       ///< batches of it that were none, of a loader that leaves some out
  long cut_short = -1;     ///< batches of the epoch before, where a limit or a stop ended it before its data, else -1

  /// A fit that resumes here needs a place in the training data, unless limits that stay end it before.
  bool is_inside_epoch() const { return batch != 0 || cut_short > 0; }

  void state(auto& archive) {
    archive("epoch", epoch)("batch", batch)("global_step", global_step)("skipped_steps", skipped_steps)(
        "logged_steps", logged_steps)("total_batches", total_batches)("window_start", window_start)(
        "window_end", window_end)("left_out", left_out)("cut_short", cut_short);
  }
};

}  // namespace fulgurite
