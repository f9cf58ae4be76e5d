#pragma once
// What follows each batch of training: rows, what callbacks have asked for, validation, the end of its window or epoch.

#include <type_traits>

#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/epoch_replays.hpp>
#include <fulgurite/loop/train_on.hpp>
#include <fulgurite/loop/validate_in_fit.hpp>

namespace fulgurite::loop {

/// `run` and `pack` are handed on: as members they would be read anew after each call that a compiler cannot look into.
template <class R, class Pack, class Source>
class AfterBatch : public EpochReplays<R, Pack> {
  using Base = EpochReplays<R, Pack>;

 public:
  using Base::leave;

 protected:
  using Base::catch_up;
  using Base::confirm;
  using Base::count_step;
  using Base::flush;
  using Base::plan_;
  using Base::replays;

  AfterBatch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan)
      : Base(run, pack, plan),
        source_(source),
        validates_(run.facts.has_validation && validates_in(run.asked.options, run.progress.epoch)) {}

  /// What follows the end hooks of a batch; `stepped`: they followed a step, unless it accumulates. Whether the epoch
  /// goes on.
  template <class End>
  [[gnu::always_inline]] bool finish(State<R>& run, Pack& pack, long b, End& end, bool accumulating,
                                     bool stepped = true) {
    bool const known = end.before_step();
    bool last = end.after_step();
    if constexpr (shares<R>) {
      last = last || epoch_ends(run);
      if (run.shared.skipped) validates_ = false;
    }
    if constexpr (End::late)
      if (last && !known) {
        if (this->end_found(run, b)) stepped = true;
        accumulating = run.facts.accumulating;
      }
    auto& progress = run.progress;
    progress.batch = b + 1;
    ++progress.total_batches;
    run.measured.train_board.fold();
    check_time(run);
    bool const counts = stepped && !accumulating;
    if (counts) {
      progress.window_start = b + 1;
      report_step(run, pack);
    }
    if (last || steps_exhausted(run) || stops(run)) return leave(run, pack, last, counts);
    settle(run, pack, last, counts);
    if constexpr (!Source::template evaluates<hook::val_dataloader>) return true;
    return !stops(run) || stop_here(run, accumulating);
  }

  /// Validation has asked for a stop; its window must not be lost either.
  bool stop_here(State<R>& run, bool accumulating) {
    if (accumulating) {
      flush(run, run.progress.batch);
      count_step(run);
    }
    return false;
  }

  /// The epoch ends with this batch: a window that is not over is stepped with what it has. Apart, so that no other
  /// batch asks for it twice.
  bool leave(State<R>& run, Pack& pack, bool last, bool counts) {
    if (run.facts.accumulating) {
      flush(run, run.progress.batch);
      counts = true;
    }
    settle(run, pack, last, counts, true);
    return false;
  }

  /// After a batch: what callbacks have asked for, then validation; `counts`: the batch ended with a step. Whether
  /// validation is due is decided once, so that a file which is written before it knows.
  [[gnu::always_inline]] void settle(State<R>& run, Pack& pack, bool last, bool counts,
                                     [[maybe_unused]] bool leaves = false) {
    deliver_posted(run, pack, run.progress.logged_steps);
    run.facts.in_batch = false;
    constexpr bool evaluates = Source::template evaluates<hook::val_dataloader>;
    bool validates = evaluates && validates_ && validation_due(run, plan_, last);
    if constexpr (replays) {
      if (leaves || validates || (!run.due.requests.empty() && !run.facts.accumulating)) confirm(run);
      else if (counts) catch_up(run);
    }
    if ((!run.due.requests.empty() && !run.facts.accumulating) || answer_waits<Pack>(run)) [[unlikely]]
      validates = write_files(run, pack, last, counts, validates);
    if constexpr (evaluates)
      if (validates) validate_from(run, pack, source_, here(run, last, counts, true));
    if (counts) count_step(run);
  }

  /// Returns whether validation is due: a request may have asked for a stop, which validates.
  [[gnu::noinline, gnu::cold]] bool write_files(State<R>& run, Pack& pack, bool last, bool counts, bool validates) {
    write_requests(run, pack, source_, here(run, last, counts, validates));
    return validates || (validates_ && stops(run));
  }

  SafePoint here(State<R> const& run, bool last, bool counts, bool validates) const {
    return {.at = At::after_batch,
            .last = last,
            .counts = counts,
            .accumulating = run.facts.accumulating,
            .observed = this->observed_,
            .validates = validates};
  }

  Source& source_;
  bool validates_;  ///< in this epoch
};

}  // namespace fulgurite::loop
