#pragma once
// The batches of one training epoch, and what follows each batch.

#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/safe_points.hpp>

namespace fulgurite::loop {

/// Calls f(position, meter, value over all ranks) for each metric with a definition that has a value in this epoch. A
/// collective. An epoch with too few samples for a value gives a warning and does not end training.
template <bool Several, class R, class F>
void each_counted(State<R>& run, F&& f) {
  using Counts = typename State<R>::Board::Counts;
  auto& board = run.measured.train_board;
  board.fold();
  board.counts.each([&](auto at, auto& meter) {
    using M = typename Counts::template Declared<at>;
    if constexpr (metric::counts_several<M> == Several) {
      try {
        if (auto const value = counted_value(run, meter)) f(at, meter, *value);
      } catch (Error const& error) {
        if (!is_too_few(error)) throw;
        run.warn("fulgurite.metric.undefined", std::string(M::name()) + " has no value in epoch " +
                                                   std::to_string(run.progress.epoch) + ": " + error.what());
      }
    }
  });
}

/// After the batches of an epoch and before its end hooks: values of counted metrics go to the board.
template <class R>
void settle_counts(State<R>& run) {
  if constexpr (State<R>::Board::Counts::any)
    each_counted<false>(run, [&](auto at, auto&, double value) {
      run.measured.train_board.settle_count(at, value, Origin::train_step);
    });
}

// The rows of training: rows of steps every log_every_n_steps, and a row at each epoch's end.

/// Logs the row of a step if one is due. Reads values that are still on the device.
template <class R, class Pack>
void report_step(State<R>& run, Pack const&) {
  int const every = run.asked.options.log_every_n_steps;
  if (every == 0 || ((run.progress.logged_steps + 1) % every != 0 && !run.due.stop.holds)) return;
  if constexpr (State<R>::metrics != 0 || has_logger<Pack>) collect_and_check(run);
  if (!run.searching.rehearsing) share_step(run);  // where a rank skips an epoch, a trial step is reported later
  if constexpr (has_logger<Pack>) log_row(run, step_row(run, std::nullopt), run.progress.logged_steps);
  else if constexpr (shares<R>)
    for (auto& cell : run.program->cells(run, std::nullopt)) cell.in_step_row = false;  // the next values are new ones
}

/// Makes the epoch's values the results, and logs them; x is that of the last step.
template <class R, class Pack>
void report_epoch(State<R>& run, Pack const&) {
  collect_and_check(run);
  publish_epoch(run);
  if constexpr (has_logger<Pack>) {
    auto row = epoch_row(run, std::nullopt);
    using Counts = typename State<R>::Board::Counts;
    if constexpr (Counts::any_several)
      each_counted<true>(run, [&](auto at, auto& meter, auto const& value) {
        std::string const metric(Counts::template Declared<at>::name());
        meter.definition().each(value,
                                [&](std::string_view name, double v) { row.push_back({(metric + '.') += name, v}); });
      });
    log_row(run, row, last_step(run));
  }
}

/// Counts a finished epoch, after all listeners were notified: the next one begins at its first batch.
template <class R>
void count_epoch(State<R>& run) {
  auto& progress = run.progress;
  ++progress.epoch;
  progress.cut_short = run.facts.is_last_batch ? -1 : progress.batch;
  progress.batch = progress.window_start = 0;
  run.facts.accumulating = run.facts.is_last_batch = false;
  run.facts.batch_idx = 0;
  run.measured.train_board.restart();
}

// The work on one batch of training: its step and its end hooks.

/// One step. For a recurrent model, one step for each slice of the batch; the last result stands for the batch.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_batch(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                                   WindowPlace const& window) {
  [[maybe_unused]] auto const watched = pack.template profile<action::run_training_batch>();
  if constexpr (!Recurrent<typename R::Model>) {
    return automatic_step(run, pack, ctx, batch, window.key, window.rescale);
  } else {
    auto slices = time_slices<R>(*run.parts.model, batch, run.optimization.tbptt, ctx);
    using Result = decltype(automatic_step(run, pack, ctx, *std::begin(slices), window.key, 1.0));
    std::optional<Result> result;
    auto& stepped = run.slices;
    if (stepped == 0) run.carried.hidden.reset();
    long at = 0;
    for (auto& slice : slices) {
      if (at++ < stepped) continue;  // a resumed fit has stepped on it before
      result.emplace(automatic_step(run, pack, ctx, slice, {true, true, 1}, 1.0));
      run.measured.train_board.fold();
      if constexpr (is_optional<Result>) {
        if (*result) run.carried.hidden.emplace(R::Backend::detached_state((*result)->hidden));
      } else {
        run.carried.hidden.emplace(R::Backend::detached_state(result->hidden));
      }
      stepped = at;
    }
    stepped = 0;
    run.carried.hidden.reset();
    if (!result)
      throw Error("fulgurite.data.no_slice", "batch " + std::to_string(run.facts.batch_idx) +
                                                 " has no time step, so it has no slice: leave it out");
    return std::move(*result);
  }
}

/// Checks each kind of replayed step before its results are used. Throws WrongReplay.
template <class R, class Pack, class Ctx>
void confirm_steps(State<R>& run, Pack& pack, [[maybe_unused]] Ctx& ctx) {
  if constexpr (ChecksReplays<typename R::Strategy>) {
    if (run.parts.strategy.unchecked() != 0) {
      auto body = [&] {
        if constexpr (R::automatic) return step_body(run, pack, ctx);
        else return ManualStep<R, Pack>(run, pack);
      }();
      StepSeam<R, decltype(body)> seam(run, {true, true, 1}, body);
      run.parts.strategy.confirm(run.measured.train_board, seam);
      pass_warnings_of_strategy(run);
    }
    deliver_held(run);
  }
}

/// Marks the step as done and the end hooks as due. A file that one of these hooks writes resumes after them.
template <class Pack, class R>
[[gnu::always_inline]] inline void begin_end_hooks(State<R>& run) {
  using End = hook::on_train_batch_end;
  if constexpr (Pack::template names<End> || End::template named<typename R::Model>)
    run.facts.ended = run.progress.total_batches;
}

/// The step of this batch, and its end hooks.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline Flow train_on(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                            WindowPlace const& window) {
  if constexpr (R::automatic) {
    auto result = automatic_batch(run, pack, ctx, batch, window);
    if (run.facts.is_last_batch) tick_schedulers(run, ctx, Interval::epoch);
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    using Outputs = typename OutputsOf<typename R::Backend, decltype(result)>::type;
    if constexpr (Pack::template wants_outputs<hook::on_train_batch_end, typename R::Model, typename R::Strategy,
                                               Outputs, Batch, Ctx>()) {
      auto outputs = outputs_of<typename R::Backend>(result, 1.0 / window.key.divisor);
      return notify<hook::on_train_batch_end>(run, pack, outputs, batch, ctx);
    } else {
      return notify<hook::on_train_batch_end>(run, pack, batch, ctx);
    }
  } else {
    manual_step(run, pack, batch);
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    NoOutput nothing;
    return notify<hook::on_train_batch_end>(run, pack, nothing, batch, ctx);
  }
}

/// True if a callback is called with each batch, and may read there what the step computes.
FULGURITE_OF_ARGUMENTS(looks_at_batches, Pack,
                       ((hook::on_train_batch_start::named<Ts> || hook::on_train_batch_end::named<Ts>) &&
                        !judge::ignores_tensors<Ts>()) ||
                           ...);

/// An epoch while its batches run: for each batch its hooks, its step or its part of a window, and the validation that
/// follows. `run` and `pack` are arguments: the compiler would reload members after each call that it cannot inline.
template <class R, class Pack, class Source>
class TrainEpoch {
 public:
  TrainEpoch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan)
      : pack_(pack),
        source_(source),
        plan_(plan),
        ctx_(run),
        validates_(run.facts.has_validation && validates_in(run.asked.options, run.progress.epoch)) {
    run.observed = run.progress.global_step;
  }

  /// Begins a pass over the loader at the position of a run that was left at `point`, unless the epoch has no more
  /// batches. Throws [fulgurite.resume.short_loader] if a loader without a size ends before that position.
  void find_place(State<R>& run, SafePoint const& point) {
    if (!asks_for_batches(run, point)) return;
    long first = run.progress.batch;
    if (point.at == At::batch_end && is_read_ahead(first)) {
      if (point.last) return;
      ++first;
    }
    // The loader draws the same random numbers as when the pass began; the random state of the run is kept.
    auto random = R::Backend::rng_state();
    if (run.carried.pass_random) run.carried.pass_random->restore();
    auto& loader = source_.train();
    pass_.emplace(begin_at(run, loader, first), loader, plan_.most(), first);
    random.restore();
  }
  /// Finishes the last batch of a run that was left at `point`. Returns true if the epoch continues.
  bool go_on(State<R>& run, Pack& pack, SafePoint const& point) {
    run.observed = point.observed;
    if (point.at == At::batch_end) return end_batch(run, pack, point);
    return finish_batch(run, pack, point);
  }
  /// Leaves the epoch unfinished. Replays are checked; a wrong one is an Error, since the fit cannot roll back now.
  void leave(State<R>& run) {
    stop_here(run, run.facts.accumulating);
    if constexpr (replays) {
      try {
        confirm(run);
      } catch (WrongReplay const& found) {
        throw WrongReplay(found.reason, found.same_model, "the fit was closed inside of an epoch");
      }
    }
  }

  /// True if a pass over the loader has begun.
  bool has_pass() const { return static_cast<bool>(pass_); }
  /// True if the epoch ended before its loader did, if that matters to a run that resumes.
  bool left_early() const { return pass_ && pass_->has_more(); }

  /// Runs the next batch (or without `One`, all remaining ones). Returns true if more follow. Not inlined, so that the
  /// hot loop has a symbol whose assembly is checked. Functions that it calls for each batch are force-inlined: a call
  /// would save and restore six registers.
  template <bool One>
  [[gnu::noinline]] bool walk(State<R>& run, Pack& pack) {
    auto& loader = source_.train();
    auto const reads = hook::timed<action::train_next>(pack);
    if (!pass_) {
      [[maybe_unused]] auto const watched = reads.more();
      begin_pass(run, loader);
    }
    auto const take = [&](auto&& raw, long b, auto&& end) __attribute__((always_inline)) {
      if constexpr (replays)
        if (!retreat_.reached(b)) return !end.after_step();
      if constexpr (may_be_none<decltype(raw)>)
        if (is_none(raw)) return none(run, pack, b, end);
      if constexpr (replays) retreat_.offer(run, b);
      begin(run, b, end);
      auto const window = window_of(b, run.progress.window_start, seen(run, b), run.progress.window_end, plan_.batches,
                                    run.facts.is_last_batch);
      run.facts.accumulating = !window.key.closes;
      auto const use = [&](auto& batch)
                           __attribute__((always_inline)) { return take_batch(run, pack, batch, b, end, window); };
      return with_batch(run, source_, ctx_, present(raw), use, hook::timed<action::batch_to_device<R>>(pack));
    };
    bool const more = [&]() __attribute__((always_inline)) {
      if constexpr (replays) return walk_back_and_forth<One>(run, loader, take, reads);
      else return pass_->template walk<One>(take, reads);
    }();
    if (more) return true;
    run.facts.in_batch = false;
    if (pass_->is_empty()) refuse_empty_epoch(run.progress.epoch);
    return false;
  }

 private:
  using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
  /// The strategy replays steps: replays are checked, and the fit can roll back.
  static constexpr bool replays = ChecksReplays<typename R::Strategy>;

  /// Returns true if the epoch continues after this batch.
  template <class Batch, class End>
  [[gnu::always_inline]] bool take_batch(State<R>& run, Pack& pack, Batch& batch, long b, End& end,
                                         WindowPlace const& window) {
    auto& facts = run.facts;
    auto& progress = run.progress;
    measure(run, batch);
    facts.in_batch = true;

    auto const started = notify<hook::on_train_batch_start>(run, pack, batch, ctx_);
    deliver_posted(run, pack, progress.logged_steps);
    if (started == Flow::skip_epoch) {
      skip_epoch(run, b);
      return false;
    }
    if (started == Flow::stop) request_stop(run);
    // Values that hooks have logged do not belong to the step: they are neither recorded with it nor discarded.
    run.measured.train_board.fold();

    auto const ended = train_on(run, pack, ctx_, batch, window);
    if (ended == Flow::stop) request_stop(run);
    return finish(run, pack, b, end, !window.key.closes);
  }

  /// For a batch that its loader left out: there is no step, and only end hooks that take no batch are called.
  template <class End>
  bool none(State<R>& run, Pack& pack, long b, End& end) {
    auto& facts = run.facts;
    bool const last = end.before_step();
    warn_of_left_out(run, b);
    begin(run, b, end);
    facts.batch_size = 0;
    facts.in_batch = facts.left_out = true;
    bool const stepped = leave_out(run, b, last);
    if ((last || epoch_ends(run)) && R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
    run.point.counts = stepped;
    facts.in_batch = true;  // flush has set it to false
    begin_end_hooks<Pack>(run);
    if (notify<hook::on_train_batch_end>(run, pack, ctx_) == Flow::stop) request_stop(run);
    run.point.counts = false;
    facts.left_out = false;
    return finish(run, pack, b, end, facts.accumulating, stepped);
  }

  /// on_train_batch_start returned skip_epoch: steps an open window and moves the schedules of epochs, no more.
  void skip_epoch(State<R>& run, long b) {
    if constexpr (shares<R>) {  // the other ranks end their epoch with the next step, which this rank takes part in
      run.shared.skips = true;
      if constexpr (!R::automatic) exchange(run, false);
      else if (flush(run, b)) count_step(run);
    } else if (seen(run, b) != 0) {
      flush(run, b);
      count_step(run);
    }
    ++run.progress.total_batches;  // the batch was taken from the loader
    run.facts.accumulating = false;
    confirm(run);
    run.facts.is_last_batch = true;
    if constexpr (R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
  }

  [[gnu::noinline]] void begin_pass(State<R>& run, Loader& loader) {
    run.carried.pass_random.emplace(R::Backend::rng_state());
    run.point.began = true;
    pass_.emplace(std::begin(loader), loader, plan_.most(), 0);
  }

  // The accumulation window of a batch.

  /// Sets the facts of batch b.
  template <class End>
  [[gnu::always_inline]] void begin(State<R>& run, long b, End const& end) {
    auto& progress = run.progress;
    if (b == progress.window_start) [[likely]] {  // ctx.accumulate affects the next window
      progress.window_end = b + (R::automatic ? run.asked.window_length : 1);
      progress.left_out = 0;
      if constexpr (has_logger<Pack>) run.due.begin_window(progress.total_batches);
    }
    forget_alarm(run);
    run.facts.batch_idx = b;
    run.facts.is_last_batch = end.before_step();
    if constexpr (End::late) run.facts.end_unknown = !end.before_step();
  }

  /// The batches of the current window, before this one, that made gradients.
  static long seen(State<R> const& run, long b) { return b - run.progress.window_start - run.progress.left_out; }

  /// The loader left out batch b. The batch keeps its place in the window, so that the number of windows depends only
  /// on that of batches. If the window closes with it, its gradients are stepped. Returns true if there was a step.
  bool leave_out(State<R>& run, long b, bool last) {
    bool const closes = b + 1 == run.progress.window_end || last;
    // Other ranks may have batches of this window, so the window is open for all ranks.
    bool const is_open = (shares<R> && !splits_model<R>) || seen(run, b) != 0;
    run.facts.accumulating = R::automatic && is_open;
    ++run.progress.left_out;
    bool stepped = (run.facts.accumulating || (shares<R> && R::automatic)) && closes;  // other ranks may have batches
    if (stepped) stepped = flush(run, b + 1, false);
    if (closes && !run.facts.accumulating) run.progress.window_start = b + 1;
    // In manual optimization other ranks learn of the end with another step. After the last batch they would wait.
    if constexpr (shares<R> && !R::automatic)
      if (last) exchange(run, false);
    return stepped;
  }

  /// Called when a batch is found to be the epoch's last after its end hooks: now does what its step would have done if
  /// that had been known. Returns true if there was a step.
  bool end_found(State<R>& run, long b) {
    run.facts.is_last_batch = true;
    bool const open = run.facts.accumulating;
    if (open) flush(run, b + 1, false);
    run.facts.end_unknown = false;  // until here the batch is not finished: see redo_window
    if constexpr (R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
    return open;
  }

  /// Ends the current window before batch `after`: steps with the mean of the batches that it has. Returns true if
  /// there was a step; with several ranks it may come from the other ranks' batches.
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

  /// Counts a step after its validation.
  [[gnu::always_inline]] void count_step(State<R>& run) {
    if constexpr (R::automatic && observes_any<R>) {
      long const steps = run.progress.global_step;
      observe_schedulers(run, ctx_, Interval::step, std::exchange(run.observed, steps), steps);
    }
    ++run.progress.logged_steps;
  }

  // What follows a batch.

  /// Called after the end hooks of a batch. `stepped`: they followed a step, unless the window is open. Returns true if
  /// the epoch continues.
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
        if (end_found(run, b)) stepped = true;
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
    if (last || steps_exhausted(run) || stops(run)) return end_here(run, pack, last, counts);
    settle(run, pack, last, counts);
    if constexpr (!Source::template evaluates<hook::val_dataloader>) return true;
    return !stops(run) || stop_here(run, accumulating);
  }

  /// Validation has requested a stop: steps an open window, so that its gradients are not lost.
  bool stop_here(State<R>& run, bool accumulating) {
    if (accumulating) {
      flush(run, run.progress.batch);
      count_step(run);
    }
    return false;
  }

  /// Ends the epoch with this batch: an open window is stepped. Apart, so that other batches do not check this twice.
  bool end_here(State<R>& run, Pack& pack, bool last, bool counts) {
    if (run.facts.accumulating) {
      flush(run, run.progress.batch);
      counts = true;
    }
    settle(run, pack, last, counts, true);
    return false;
  }

  /// After a batch: writes requested checkpoints, then validates. `counts`: the batch ended with a step. Whether
  /// validation is due is decided once, so that a file that is written before it contains the decision.
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
      if (validates) validate_in_fit(run, pack, source_, here(run, last, counts, true));
    if (counts) count_step(run);
  }

  /// Returns true if validation is due: a request may have requested a stop, which validates.
  [[gnu::noinline, gnu::cold]] bool write_files(State<R>& run, Pack& pack, bool last, bool counts, bool validates) {
    write_requests(run, pack, source_, here(run, last, counts, validates));
    return validates || (validates_ && stops(run));
  }

  SafePoint here(State<R> const& run, bool last, bool counts, bool validates) const {
    return {.at = At::after_batch,
            .last = last,
            .counts = counts,
            .accumulating = run.facts.accumulating,
            .observed = run.observed,
            .validates = validates};
  }

  // What a run that resumes inside the epoch has left to do of its last batch.

  /// For a batch whose step was made when one of its end hooks failed: loads the batch again for the listeners that
  /// were not notified. The random state is kept. Returns true if the epoch continues.
  [[gnu::noinline, gnu::cold]] bool end_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    auto random = R::Backend::rng_state();
    auto const others = [&](auto&... args) {
      random.restore();
      if (notify_remaining<hook::on_train_batch_end>(run, pack, args...) == Flow::stop) request_stop(run);
    };
    auto const end_with = [&](long b, auto& end, bool left_out, auto&& report) {
      auto& facts = run.facts;
      facts.batch_idx = b;
      facts.is_last_batch = end.before_step();
      if constexpr (std::remove_cvref_t<decltype(end)>::late) facts.end_unknown = !end.before_step();
      facts.accumulating = point.accumulating;
      facts.in_batch = true;
      facts.left_out = left_out;
      run.point.counts = left_out && point.counts;
      report();
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
      KnownEnd end{point.last};  // the batch cannot be loaded again
      return end_with(run.progress.batch, end, false, [&] { others(ctx_); });
    }();
    run.facts.in_batch = false;
    return more;
  }

  /// True if the loader saves its position, and was already past batch b while b was trained on.
  bool is_read_ahead(long b) const {
    return KeepsPlace<Loader> && BatchesStayValid<Loader> && !SizedLoader<Loader> && b + 1 != plan_.most();
  }

  bool finish_batch(State<R>& run, Pack& pack, SafePoint const& point) {
    if (point.at == At::before_batch) return true;
    if (point.at == At::after_step) {
      if (point.counts) report_step(run, pack);
      if (point.last || steps_exhausted(run) || stops(run)) return end_here(run, pack, point.last, point.counts);
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

  // Steps that a strategy replays.

  /// Checks all replays so far, because what follows depends on them. The fit can no longer roll back to before them.
  void confirm([[maybe_unused]] State<R>& run) {
    if constexpr (replays) {
      confirm_steps(run, pack_, ctx_);
      retreat_.drop();
    }
  }

  /// At a window's end: checks the replays since the last check, so that a rollback point can be taken. Done if there
  /// is no such point, if the replays of one kind of step were checked anyway, or if 1000 rows wait for a check.
  void catch_up(State<R>& run) {
    if (run.parts.strategy.unchecked() == 0) return;
    bool const moves = retreat_.is_wanted(run) && (run.parts.strategy.half_checked() || !retreat_.is_taken());
    if (moves || run.due.held_rows.size() >= 1000) confirm_steps(run, pack_, ctx_);
  }

  template <class T>
  static constexpr bool transfers = hook::on_before_batch_transfer::named<T> ||
                                    hook::transfer_batch_to_device::named<T> || hook::on_after_batch_transfer::named<T>;
  /// Why the strategy may not let several steps become one replay; nullptr if it may. Then the batches are known ahead,
  /// and nothing reads what a step computes before `finish_replays`.
  static constexpr char const* single = [] {
    using M = typename R::Model;
    using Module = std::remove_cvref_t<decltype(std::declval<Source&>().module())>;
    if (!Repeats<Loader> || !BatchesStayValid<Loader>)
      return "the loader may use the weights, has a `begin()` that is not const, or does not say `batches_stay_valid`";
    if (Recurrent<M>) return "the state of the model goes from step to step";
    if (State<R>::Board::Counts::any) return "declared metrics are counted in each step";
    if (hook::on_train_batch_start::named<M> || hook::on_train_batch_end::named<M> ||
        hook::lr_scheduler_step::named<M> || transfers<M> || transfers<Module>)
      return "the model or the data module has a hook that is called with each batch";
    if (looks_at_batches<Pack>) return "a callback listens to each batch and does not say `ignores_tensors`";
    return static_cast<char const*>(nullptr);
  }();

  /// Runs the batches, and lets the strategy make several steps in one replay where it may.
  template <bool One, class Take, class Reads>
  bool walk_pass(State<R>& run, Take const& take, Reads const& reads) {
    if constexpr (JoinsSteps<typename R::Strategy> && !One) {
      int const steps = run.parts.strategy.steps_a_replay();
      if constexpr (single == nullptr) {
        if (steps != 1) return walk_joined(run.parts.strategy, take, reads);
      } else if (steps != 1 && !run.searching.rehearsing) {  // a trial run has a callback of its own
        run.parts.strategy.stay_single(single);
        run.warn("fulgurite.capture.single_steps",
                 "steps_a_replay = " + std::to_string(steps) + " has no effect: " + single);
      }
    }
    return pass_->template walk<One>(take, reads);
  }
  template <class Take, class Reads>
  bool walk_joined(typename R::Strategy& strategy, Take const& take, Reads const& reads) {
    strategy.join_steps(true);
    try {
      pass_->template walk<false>(take, reads);
    } catch (...) {  // whoever is notified sees the steps that are counted
      try {
        strategy.join_steps(false);
      } catch (std::exception const&) {  // the first error is thrown
      }
      throw;
    }
    strategy.join_steps(false);
    return false;
  }

  /// Runs the epoch's batches. If a check finds wrong replays, rolls back and runs from there again.
  template <bool One, class Take, class Reads>
  bool walk_back_and_forth(State<R>& run, Loader& loader, Take const& take, Reads const& reads) {
    std::optional<WrongReplay> wrong;
    try {
      return walk_pass<One>(run, take, reads);
    } catch (WrongReplay const& found) {
      if (!Repeats<Loader> || !retreat_.is_taken() || !found.same_model)
        throw WrongReplay(found.reason, found.same_model, retreat_.why_not(run, found.same_model));
      wrong.emplace(found);
    }
    pass_.reset();
    go_back(run, loader, wrong->reason);
    pass_.emplace(std::begin(loader), loader, plan_.most(), 0);
    return pass_->template walk<One>(take, reads);
  }
  /// Rolls back to the state before wrong replays. From there all steps run as they are written.
  void go_back(State<R>& run, Loader& loader, std::string const& reason) {
    run.parts.strategy.give_up(reason);
    long const batch = retreat_.restore(run);
    run.warn_each("fulgurite.capture.gone_back",
                  "steps were replayed wrongly: " + reason + ". The fit went back to batch " + std::to_string(batch) +
                      " of epoch " + std::to_string(run.progress.epoch) +
                      " and runs on from there as it is written; hooks of the batches since then are called again, and "
                      "globals and members outside of state(archive) stay as they are now");
    pass_warnings_of_strategy(run);
    notify_epoch(loader, run.progress.epoch);
    run.observed = run.progress.global_step;
  }

  Pack& pack_;
  Source& source_;
  EpochPlan plan_;
  RunContext<R, phase::Train> ctx_;
  bool validates_;                       ///< this epoch has a validation
  MadeLater<BatchPass<Loader>> pass_{};  ///< the pass over the training loader, once it has begun
  [[no_unique_address]] std::conditional_t<replays, Retreat<R, Repeats<Loader>>, Nothing> retreat_{};
};

}  // namespace fulgurite::loop
