#pragma once
// The places between two pieces of a run's work at which a checkpoint is written, and from which a fit can go on.

#include <cstdint>
#include <optional>

namespace fulgurite::loop {

/// What the run was about to do.
enum class At : std::uint8_t {
  before_batch,      ///< the batch `progress.batch` of the epoch
  batch_end,         ///< the end of that batch, whose step was made: on_train_batch_end for the others
  after_step,        ///< what follows the end hooks of a batch, which are being told: its row, and what follows that
  after_batch,       ///< what follows a batch: the checkpoints it asked for, its validation
  after_validation,  ///< what follows that validation
  epoch_end,         ///< the end of an epoch, from its part `parts` on
  after_epoch,       ///< the next epoch, or the end of training
  ended              ///< nothing: training has ended
};

/// A place, and what is known there of the batch before it.
struct SafePoint {
  At at = At::before_batch;
  bool last = false;          ///< it was the epoch's last one
  bool counts = false;        ///< it ended with a step, whose counting comes after its validation
  bool accumulating = false;  ///< its window is open: the gradients belong to the state
  bool left_early = false;    ///< the epoch ended before its loader did
  bool began = false;         ///< a pass over the data, of before_batch's epoch or for statistics, had begun
  std::uint8_t parts = 0;     ///< at an epoch's end: so many of its parts were over
  long observed = 0;          ///< the step that schedules which follow a metric were last told of
  /// After a batch: whether its validation comes next. nullopt: not decided yet. A resumed run decides again.
  std::optional<bool> validates = std::nullopt;

  void state(auto& archive) {
    archive("at", at)("last", last)("counts", counts)("accumulating", accumulating)("left_early", left_early);
    archive("began", began)("parts", parts)("observed", observed);
  }
};

}  // namespace fulgurite::loop
