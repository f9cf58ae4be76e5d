#pragma once
// The accumulation windows of one epoch: where each begins and closes, and what happens where one ends early.

#include <algorithm>
#include <optional>
#include <utility>

#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/training_rows.hpp>
#include <fulgurite/loop/validation_timing.hpp>
#include <fulgurite/loop/window_place.hpp>

namespace fulgurite::loop {

/// `run` is handed on: as a member it would be read anew after each call that a compiler cannot look into.
template <class R, class Pack>
class EpochWindows {
 protected:
  using Ctx = Context<R, phase::Train>;

  EpochWindows(State<R>& run, Pack& pack, EpochPlan const& plan)
      : pack_(pack), plan_(plan), ctx_(run), observed_(run.progress.global_step) {}

  /// Batch b is at hand.
  template <class End>
  [[gnu::always_inline]] void begin(State<R>& run, long b, End const& end) {
    auto& progress = run.progress;
    if (b == progress.window_start) [[likely]] {  // ctx.accumulate speaks of the next window
      progress.window_end = b + (R::automatic ? run.asked.window_length : 1);
      progress.left_out = 0;
      if constexpr (has_logger<Pack>) run.due.begin_window(progress.total_batches);
    }
    forget_alarm(run);
    run.facts.batch_idx = b;
    run.facts.is_last_batch = end.before_step();
    if constexpr (End::late) run.facts.end_unknown = !end.before_step();
  }

  /// Batches of the window at hand, before this one, that made gradients.
  static long seen(State<R> const& run, long b) { return b - run.progress.window_start - run.progress.left_out; }

  [[gnu::always_inline]] WindowPlace window_at(State<R> const& run, long b) const {
    return window_of(b, run.progress.window_start, seen(run, b), run.progress.window_end, plan_.batches,
                     run.facts.is_last_batch);
  }

  /// The loader left batch b out. The batch keeps its place in its window, so that the number of windows follows from
  /// the number of batches. Where the window closes with it, what the window has is stepped: returns whether it was.
  bool leave_out(State<R>& run, long b, bool last) {
    bool const closes = b + 1 == run.progress.window_end || last;
    // The others may have batches of this window, which therefore is open for all of them.
    bool const is_open = (shares<R> && !splits_model<R>) || seen(run, b) != 0;
    run.facts.accumulating = R::automatic && is_open;
    ++run.progress.left_out;
    bool stepped = (run.facts.accumulating || (shares<R> && R::automatic)) && closes;  // the others may have batches
    if (stepped) stepped = flush(run, b + 1, false);
    if (closes && !run.facts.accumulating) run.progress.window_start = b + 1;
    // By hand the others may step once more, and find out then; after the last batch they would wait for this rank.
    if constexpr (shares<R> && !R::automatic)
      if (last) exchange(run, false);
    return stepped;
  }

  /// A batch turns out to have been the epoch's last after its end hooks: what its step would have done, had that been
  /// known, is done now. Whether it made a step.
  bool end_found(State<R>& run, long b) {
    run.facts.is_last_batch = true;
    bool const open = run.facts.accumulating;
    if (open) flush(run, b + 1, false);
    run.facts.end_unknown = false;  // until then the batch's work is not over: see redo_window
    if constexpr (R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
    return open;
  }

  /// The window at hand ends before batch `after`: stepped as the mean of what it has. Whether there was a step: under
  /// several ranks perhaps by what others have.
  bool flush(State<R>& run, long after, bool report = true) {
    bool stepped = false;
    if constexpr (R::automatic) {
      auto& progress = run.progress;
      long const divisor =
          (plan_.batches ? std::min(progress.window_end, *plan_.batches) : progress.window_end) - progress.window_start;
      run.facts.accumulating = false;
      run.facts.in_batch = true;
      long const batches = seen(run, after);
      stepped = flush_window(run, pack_, ctx_,
                             batches == 0 ? 0.0 : static_cast<double>(divisor) / static_cast<double>(batches));
      run.measured.train_board.fold();
      progress.window_start = after;
      if (report && stepped) report_step(run, pack_);
      run.facts.in_batch = false;
    }
    return stepped;
  }

  /// A step and its validation are over.
  [[gnu::always_inline]] void count_step(State<R>& run) {
    if constexpr (R::automatic && observes_any<R>) {
      long const steps = run.progress.global_step;
      observe_schedulers(run, ctx_, Interval::step, std::exchange(observed_, steps), steps);
    }
    ++run.progress.logged_steps;
  }

  Pack& pack_;
  EpochPlan plan_;
  Ctx ctx_;
  long observed_;  ///< the step that schedules which follow a metric were last told of
};

}  // namespace fulgurite::loop
