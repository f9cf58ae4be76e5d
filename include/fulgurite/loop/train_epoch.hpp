#pragma once
// The batches of one epoch of training, and what follows from each.

#include <string>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/actions.hpp>
#include <fulgurite/loop/resumed_epoch.hpp>
#include <fulgurite/loop/train_on.hpp>
#include <fulgurite/loop/transfer.hpp>
#include <fulgurite/loop/warnings.hpp>

namespace fulgurite::loop {

FULGURITE_COLD void warn_of_left_out(Warn warn, long batch, int epoch) {
  warn("fulgurite.data.none", "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
                                  " is none, an empty optional: it is skipped, and so are others that follow");
}
[[noreturn]] FULGURITE_COLD void refuse_empty_epoch(int epoch) {
  throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(epoch) +
                                          ": begin() must start a new pass each time");
}

/// An epoch whose batches are under way, each with its hooks, its step or its place in a window, and the validation
/// that follows. `run` and `pack` are handed on: as members they would be read anew after each call that a compiler
/// cannot look into.
template <class R, class Pack, class Source>
class TrainEpoch : private ResumedEpoch<R, Pack, Source> {
  using Base = ResumedEpoch<R, Pack, Source>;
  using typename Base::Loader;

 public:
  using Base::find_place;
  using Base::go_on;
  using Base::leave;
  TrainEpoch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan) : Base(run, pack, source, plan) {}

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
      if constexpr (may_be_none<decltype(raw)>)
        if (is_none(raw)) return none(run, pack, b, end);
      if constexpr (replays) retreat_.offer(run, pack, b);
      this->begin(run, b, end);
      auto const window = this->window_at(run, b);
      run.facts.accumulating = !window.key.closes;
      auto const use = [&](auto& batch)
                           __attribute__((always_inline)) { return take_batch(run, pack, batch, b, end, window); };
      return with_batch(run, source_, ctx_, present(raw), use, hook::timed<action::batch_to_device<R>>(pack));
    };
    bool const more = [&]() __attribute__((always_inline)) {
      if constexpr (replays) return this->template walk_back_and_forth<One>(run, loader, pass_, take, reads);
      else return pass_->template walk<One>(take, reads);
    }();
    if (more) return true;
    run.facts.in_batch = false;
    if (pass_->is_empty()) refuse_empty_epoch(run.progress.epoch);
    return false;
  }

 private:
  using Base::confirm;
  using Base::count_step;
  using Base::ctx_;
  using Base::finish;
  using Base::flush;
  using Base::pass_;
  using Base::plan_;
  using Base::replays;
  using Base::retreat_;
  using Base::seen;
  using Base::source_;

  /// Whether the epoch goes on after this batch.
  template <class Batch, class End>
  [[gnu::always_inline]] bool take_batch(State<R>& run, Pack& pack, Batch& batch, long b, End& end,
                                         WindowPlace const& window) {
    auto& facts = run.facts;
    auto& progress = run.progress;
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
    warn_of_left_out(Warn::to<&State<R>::warn>(run), b, run.progress.epoch);
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

  /// on_train_batch_start answered skip_epoch: what was accumulated is stepped, epoch schedules move, nothing else of
  /// this batch runs.
  void skip_epoch(State<R>& run, long b) {
    if constexpr (shares<R>) {  // the others end their epoch with the next step, which is this one's, too
      run.shared.skips = true;
      if constexpr (!R::automatic) exchange(run, false);
      else if (flush(run, b)) count_step(run);
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
};

}  // namespace fulgurite::loop
