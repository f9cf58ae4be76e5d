#pragma once
// The batches of one epoch of training, and what follows from each.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/batch_pass.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/epoch_replays.hpp>
#include <fulgurite/loop/train_on.hpp>
#include <fulgurite/loop/transfer.hpp>
#include <fulgurite/loop/validate_in_fit.hpp>

namespace fulgurite::loop {

/// An epoch whose batches are under way, each with its hooks, its step or its place in a window, and the validation
/// that follows. `run` and `pack` are handed on: as members they would be read anew after each call that a compiler
/// cannot look into.
template <class R, class Pack, class Source>
class TrainEpoch : private EpochReplays<R, Pack> {
  using Base = EpochReplays<R, Pack>;
  using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;

 public:
  using Base::leave;
  TrainEpoch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan)
      : Base(run, pack, plan),
        source_(source),
        validates_(run.facts.has_validation && validates_in(run.asked.options, run.progress.epoch)) {}

  /// Begins a pass over the loader where a run that was left at `point` goes on, unless its epoch has no other batch.
  /// Error where the loader ends before it; one that tells its size is long enough.
  void find_place(State<R>& run, SafePoint const& point) {
    if (!asks_for_batches(run, point)) return;
    long first = run.progress.batch;
    if (point.at == At::batch_end && is_read_ahead(first)) {
      if (point.last) return;
      ++first;
    }
    // The loader draws what it drew when the pass began, and that is no part of the run from here on.
    auto random = R::Backend::rng_state();
    if (run.carried.pass_random) run.carried.pass_random->restore();
    auto& loader = source_.train();
    pass_.emplace(begin_at(run, loader, first), loader, plan_.most(), first);
    random.restore();
  }
  /// What a run that was left at `point` still has to do of its last batch; whether the epoch goes on.
  bool go_on(State<R>& run, Pack& pack, SafePoint const& point) {
    this->observed_ = point.observed;
    if (point.at == At::batch_end) return end_batch(run, pack, point);
    return finish_batch(run, pack, point);
  }
  /// The epoch is over, and its loader was not at its end, where that matters to a run that goes on.
  bool left_early() const { return pass_ && pass_->has_more(); }

  /// The next batch, or without `One` all that are left; whether more follow. Not inlined, so that the hot loop has a
  /// symbol, whose assembly is checked; what a batch calls is inlined by force, since a call would save and restore six
  /// registers for each.
  template <bool One>
  [[gnu::noinline]] bool walk(State<R>& run, Pack& pack) {
    auto& loader = source_.train();
    auto const reads = hook::timed<action::train_next>(pack);
    if (!pass_) reads.more([&]() __attribute__((always_inline)) { begin_pass(run, loader); });
    auto const take = [&](auto&& raw, long b, auto&& end) __attribute__((always_inline)) {
      if constexpr (replays)
        if (!retreat_.reached(b)) return !end.after_step();
      if (is_none(raw)) return none(run, pack, b, end);
      auto const use = [&](auto& batch) __attribute__((always_inline)) { return take_batch(run, pack, batch, b, end); };
      return with_batch(run, source_, ctx_, present(raw), use, hook::timed<action::batch_to_device<R>>(pack));
    };
    bool const more = [&]() __attribute__((always_inline)) {
      if constexpr (replays) return this->template walk_back_and_forth<One>(run, loader, pass_, take, reads);
      else return pass_->template walk<One>(take, reads);
    }();
    if (more) return true;
    run.facts.in_batch = false;
    if (pass_->is_empty())
      throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " +
                                              std::to_string(run.progress.epoch) +
                                              ": begin() must start a new pass each time");
    return false;
  }

 private:
  using Base::catch_up;
  using Base::confirm;
  using Base::count_step;
  using Base::ctx_;
  using Base::flush;
  using Base::plan_;
  using Base::replays;
  using Base::retreat_;
  using Base::seen;

  /// Whether the epoch goes on after this batch.
  template <class Batch, class End>
  [[gnu::always_inline]] bool take_batch(State<R>& run, Pack& pack, Batch& batch, long b, End& end) {
    auto& facts = run.facts;
    auto& progress = run.progress;
    if constexpr (replays) retreat_.offer(run, pack, b);
    this->begin(run, b, end);
    auto const window = this->window_at(run, b);
    facts.accumulating = !window.key.closes;
    measure(run, batch);
    facts.in_batch = true;

    auto const started = tell<hook::on_train_batch_start>(run, pack, batch, ctx_);
    deliver_posted(run, pack, progress.logged_steps);
    if (started == Flow::skip_epoch) {
      skip_epoch(run, b);
      return false;
    }
    if (started == Flow::stop) wish_stop(run);
    // What hooks have logged is no part of the step: neither recorded with it nor discarded.
    run.measured.train_board.fold();

    auto const ended = train_on(run, pack, ctx_, batch, window);
    if (ended == Flow::stop) wish_stop(run);
    return finish(run, pack, b, end, !window.key.closes);
  }

  /// The loader left this batch out: no step; end hooks that take no batch are told.
  template <class End>
  bool none(State<R>& run, Pack& pack, long b, End& end) {
    auto& facts = run.facts;
    bool const last = end.before_step();
    run.warn("fulgurite.data.none", "batch " + std::to_string(b) + " of epoch " + std::to_string(run.progress.epoch) +
                                        " is none, an empty optional: it is skipped, and so are others that follow");
    this->begin(run, b, end);
    facts.batch_size = 0;
    facts.in_batch = facts.left_out = true;
    bool const stepped = this->leave_out(run, b, last);
    if ((last || epoch_ends(run)) && R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
    run.point.counts = stepped;
    facts.in_batch = true;  // a flush has ended it
    begin_end_hooks<Pack>(run);
    if (tell<hook::on_train_batch_end>(run, pack, ctx_) == Flow::stop) wish_stop(run);
    run.point.counts = false;
    facts.left_out = false;
    return finish(run, pack, b, end, facts.accumulating, stepped);
  }

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

  /// After a batch: what callbacks have asked for, then validation; `counts`: the batch ended with a step.
  [[gnu::always_inline]] void settle(State<R>& run, Pack& pack, bool last, bool counts,
                                     [[maybe_unused]] bool leaves = false) {
    deliver_posted(run, pack, run.progress.logged_steps);
    run.facts.in_batch = false;
    if constexpr (replays) {
      if (leaves || (!run.due.requests.empty() && !run.facts.accumulating) ||
          (validates_ && validation_due(run, plan_, last)))
        confirm(run);
      else if (counts) catch_up(run);
    }
    if ((!run.due.requests.empty() && !run.facts.accumulating) || answer_waits<Pack>(run)) [[unlikely]]
      write_requests(run, pack, source_, here(run, At::after_batch, last, counts));
    if constexpr (Source::template evaluates<hook::val_dataloader>)
      if (validates_ && validation_due(run, plan_, last))
        validate_from(run, pack, source_, here(run, At::after_batch, last, counts));
    if (counts) count_step(run);
  }

  SafePoint here(State<R> const& run, At at, bool last, bool counts) const {
    return {
        .at = at, .last = last, .counts = counts, .accumulating = run.facts.accumulating, .observed = this->observed_};
  }

  /// on_train_batch_start answered skip_epoch: what was accumulated is stepped, epoch schedules move, nothing else of
  /// this batch runs.
  void skip_epoch(State<R>& run, long b) {
    if constexpr (shares<R>) {  // the others end their epoch with the next step, which is this one's, too
      run.shared.skips = true;
      if (flush(run, b)) count_step(run);
    } else if (seen(run, b) != 0) {
      flush(run, b);
      count_step(run);
    }
    ++run.progress.total_batches;  // it was taken from the loader
    run.facts.accumulating = false;
    confirm(run);
    run.facts.is_last_batch = true;
    if constexpr (R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
  }

  [[gnu::noinline]] void begin_pass(State<R>& run, Loader& loader) {
    run.carried.pass_random.emplace(R::Backend::rng_state());
    run.point.began = true;
    pass_.emplace(loader, plan_.most());
  }

  /// A batch whose step was made when its end failed. It is made once more for those that have not heard of its end,
  /// and random numbers are as they were. Whether the epoch goes on.
  [[gnu::noinline, gnu::cold]] bool end_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    auto random = R::Backend::rng_state();
    auto const others = [&](auto&... args) {
      random.restore();
      if (tell_others<hook::on_train_batch_end>(run, pack, args...) == Flow::stop) wish_stop(run);
    };
    auto const end_with = [&](long b, auto& end, bool left_out, auto&& tell_of_it) {
      auto& facts = run.facts;
      facts.batch_idx = b;
      facts.is_last_batch = end.before_step();
      if constexpr (std::remove_cvref_t<decltype(end)>::late) facts.end_unknown = !end.before_step();
      facts.accumulating = point.accumulating;
      facts.in_batch = true;
      facts.left_out = left_out;
      run.point.counts = left_out && point.counts;
      tell_of_it();
      facts.left_out = run.point.counts = false;
      return finish(run, pack, b, end, point.accumulating, point.counts);
    };
    auto const take = [&](auto&& raw, long b, auto&& end) {
      return end_with(b, end, is_none(raw), [&] {
        if (is_none(raw)) return others(ctx_);
        with_batch(run, source_, ctx_, present(raw), [&](auto& batch) {
          measure(run, batch);
          others(batch, ctx_);
        });
      });
    };
    bool const more = [&] {
      if (!is_read_ahead(run.progress.batch)) return pass_->template walk<true>(take);
      KnownEnd end{point.last};  // and that batch cannot be had again
      return end_with(run.progress.batch, end, false, [&] { others(ctx_); });
    }();
    run.facts.in_batch = false;
    return more;
  }

  /// The loader saves its place, and that was after batch b while b was trained on.
  bool is_read_ahead(long b) const {
    return KeepsPlace<Loader> && BatchesStayValid<Loader> && !SizedLoader<Loader> && b + 1 != plan_.most();
  }

  bool finish_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    if (point.at == At::before_batch) return true;
    if (point.at == At::after_step) {
      if (point.counts) report_step(run, pack);
      if (point.last || steps_exhausted(run) || stops(run)) return leave(run, pack, point.last, point.counts);
      settle(run, pack, false, point.counts);
    } else if (point.at == At::after_batch) {
      settle(run, pack, point.last, point.counts, point.last || steps_exhausted(run) || stops(run));
    } else {
      write_requests(run, pack, source_, point);
      if (point.counts) count_step(run);
    }
    if (point.last || steps_exhausted(run)) return false;
    return !stops(run) || stop_here(run, point.accumulating);
  }

  Source& source_;
  bool validates_;  ///< in this epoch
  std::optional<BatchPass<Loader>> pass_{};
};

}  // namespace fulgurite::loop
