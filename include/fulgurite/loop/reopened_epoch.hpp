#pragma once
// An epoch that a limit or a stop has ended before its data, in a run that goes on with other limits.

#include <algorithm>
#include <utility>

#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// Sets a run that was left at `point`, at such an epoch's end or after it, back inside the epoch, behind its last
/// batch, where training may go on: as if nothing had ended it. An epoch that was ended before its first batch begins
/// once more. Whether it was set back.
template <class R>
bool reopen_epoch(State<R>& run, SafePoint& point) {
  auto& progress = run.progress;
  bool const ends = point.at == At::epoch_end && !point.last;
  bool const ended = point.at > At::epoch_end && progress.cut_short >= 0;
  if ((!ends && !ended) || steps_exhausted(run) || stops(run)) return false;
  if (ended) {
    --progress.epoch;
    progress.batch = progress.window_start = std::exchange(progress.cut_short, -1);
  }
  if (progress.batch == 0) point = {.at = At::after_epoch};
  else point = {.at = At::before_batch, .began = true, .observed = progress.global_step};
  return true;
}

/// The same of all that was loaded, with the figures of the epoch.
template <class R>
bool reopen_epoch(State<R>& run) {
  if (!reopen_epoch(run, run.point)) return false;
  run.measured.train_board = std::exchange(run.measured.cut_short, {});
  run.due.heard = {};
  run.facts.batch_idx = std::max(0L, run.progress.batch - 1);
  return true;
}

}  // namespace fulgurite::loop
