#pragma once
// The batches of one epoch of training, and what follows from each.

#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/going_back.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>

namespace fulgurite::loop {

// What is done with one batch of training: its step and its end hooks.

/// One step; of a recurrent model one for each slice of the batch, the last of which stands for it.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline auto automatic_batch(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                                   WindowPlace const& window) {
  if constexpr (!Recurrent<typename R::Model>) {
    return automatic_step(run, pack, ctx, batch, window.key, window.rescale);
  } else {
    auto slices = time_slices<R>(*run.parts.model, batch, run.optimization.tbptt, ctx);
    using Result = decltype(automatic_step(run, pack, ctx, *std::begin(slices), window.key, 1.0));
    std::optional<Result> result;
    auto& stepped = run.carried.slices;
    if (stepped == 0) run.carried.hidden.reset();
    long at = 0;
    for (auto& slice : slices) {
      if (at++ < stepped) continue;  // in the fit that goes on with this batch
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

/// The step is over, and its end hooks are due: a file that one of them writes goes on after it.
template <class Pack, class R>
[[gnu::always_inline]] inline void begin_end_hooks(State<R>& run) {
  using End = hook::on_train_batch_end;
  if constexpr (Pack::template names<End> || End::template named<typename R::Model>)
    run.facts.ended = run.progress.total_batches;
}

/// The step of this batch and the end hooks.
template <class R, class Pack, class Ctx, class Batch>
[[gnu::always_inline]] inline Flow train_on(State<R>& run, Pack& pack, Ctx& ctx, Batch& batch,
                                            WindowPlace const& window) {
  if constexpr (R::automatic) {
    auto result = hook::timed<action::run_training_batch>(pack)(
        [&]() __attribute__((always_inline)) { return automatic_batch(run, pack, ctx, batch, window); });
    if (run.facts.is_last_batch) tick_schedulers(run, ctx, Interval::epoch);
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    using Outputs = typename OutputsOf<typename R::Backend, decltype(result)>::type;
    if constexpr (Pack::template wants_outputs<hook::on_train_batch_end, typename R::Model, typename R::Strategy,
                                               Outputs, Batch, Ctx>()) {
      auto outputs = outputs_of<typename R::Backend>(result, 1.0 / window.key.divisor);
      return tell<hook::on_train_batch_end>(run, pack, outputs, batch, ctx);
    } else {
      return tell<hook::on_train_batch_end>(run, pack, batch, ctx);
    }
  } else {
    hook::timed<action::run_training_batch>(pack)([&] { manual_step(run, pack, batch); });
    run.measured.train_board.fold();
    begin_end_hooks<Pack>(run);
    return tell<hook::on_train_batch_end>(run, pack, batch, ctx);
  }
}

/// The end of a validation in which on_validation_end failed. Its values are there already; those that have not heard
/// of them are told.
template <class R, class Pack>
[[gnu::noinline, gnu::cold]] void end_validation(State<R>& run, Pack& pack) {
  RunContext<R, phase::Validate> ctx(run);
  Flow flow = Flow::proceed;
  in_evaluation_mode<Validation>(run, ctx, [&] {
    RunContext<R, phase::ValidateEnd> after(run);
    flow = tell_others<hook::on_validation_end>(run, pack, after);
  });
  if (flow == Flow::stop) wish_stop(run);
}

/// Keeps what the validation that follows begins with.
template <class R, class Source>
void keep_before_validation(State<R>& run, Source& source) {
  run.before_validation.reset();  // or its parts would be saved in place of those of now
  BeforeValidation<R> before{{run.due.stop, run.loading.validation_since, run.due.rows}};
  if constexpr (requires { typename R::Backend::RunFile::Memory; }) {
    using Saver = typename R::Backend::RunFile::Saver;
    before.parts.save([&](auto& archive) {
      if constexpr (Stateful<typename R::Model, Saver> && !splits_model<R>) archive.child("model", *run.parts.model);
      fold_data_module<R>(source, archive);
      fold_validation_loaders(run, source, archive);
      archive.child("results", [&](auto& inner) { fold_results(run, inner); });
    });
    before.callbacks.save([&](auto& archive) {
      // Not of one that keeps files, whose state tells what is on the disk, nor of one that prepares its state for each
      // file.
      each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
        if (!callback.table->keeps_checkpoints && !callback.table->prepares_saving) archive.child(name, callback);
      });
    });
  }
  run.before_validation = std::move(before);
}

/// Validation inside fit, with what surrounds it. `after`: where a fit goes on from a file that is asked for here.
template <class R, class Pack, class Source>
void validate_in_fit(State<R>& run, Pack& pack, Source& source, SafePoint const& after) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    [[maybe_unused]] auto const watched = pack.template profile<action::run_validation>();
    RunContext<R, phase::ValidateEnd> ctx(run);
    run.due.set_aside();
    if (run.due.heard.template failed<hook::on_validation_end>()) [[unlikely]] {
      end_validation(run, pack);
    } else {
      keep_before_validation(run, source);
      if (!run.facts.accumulating &&
          Listens<hook::on_validation_model_zero_grad, typename R::Model, RunContext<R, phase::ValidateEnd>>)
        Pack::template tell_model<hook::on_validation_model_zero_grad>(*run.parts.model, ctx);
      int const every = run.asked.options.reload_dataloaders_every_n_epochs;
      if (every != 0 && run.progress.epoch - run.loading.validation_since >= every) {
        if constexpr (requires { source.reload_validation(); }) source.reload_validation();
        run.loading.validation_since = run.progress.epoch;
      }
      evaluate<Validation>(run, pack, source, evaluation_loaders<hook::val_dataloader>(run, source),
                           run.asked.options.limit_val_batches, std::nullopt);
    }
    if (run.asked.options.val_check_interval.kind == ValidationInterval::Kind::time)
      run.clock.last_validation = run.asked.options.now();
    deliver_posted(run, pack, run.progress.logged_steps);
    // What validation has scored are the weights of the last step: inside a window, too, they are written as they are
    // now.
    run.point = after;
    run.before_validation.reset();
    if (!run.due.requests.empty()) write_now(run, source);
    run.due.take_back();
    agree_on_stop(run);
  }
}

/// The same after the batch at `place`. One that fails leaves that place behind, from which it is done again. Not
/// inlined, since what writes files is no part of the hot loop.
template <class R, class Pack, class Source>
[[gnu::noinline]] void validate_from(State<R>& run, Pack& pack, Source& source, SafePoint const& place) {
  auto after = place;
  after.at = At::after_validation;
  after.validates = false;
  auto const before = std::exchange(run.point, place);
  validate_in_fit(run, pack, source, after);
  run.point = before;
}

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

/// `pass_` is the walk over the training loader, once it has begun.
template <class R, class Pack, class Source>
class ResumedEpoch : public AfterBatch<R, Pack, Source> {
  using Base = AfterBatch<R, Pack, Source>;

 public:
  /// Begins a pass over the loader where a run that was left at `point` goes on, unless its epoch has no other batch.
  /// Error where the loader ends before it; one that tells its size is long enough.
  void find_place(State<R>& run, SafePoint const& point) {
    if (!asks_for_batches(run, point)) return;
    long first = run.progress.batch;
    if (point.at == At::batch_end && is_read_ahead(first)) {
      if (point.last) return;
      ++first;
    }
    // The loader draws the random numbers that it drew when the pass began; those of the run stay as they are.
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

 protected:
  using Loader = std::remove_reference_t<decltype(std::declval<Source&>().train())>;
  using Base::Base;
  using Base::count_step;
  using Base::ctx_;
  using Base::plan_;
  using Base::settle;
  using Base::source_;

  std::optional<BatchPass<Loader>> pass_{};

 private:
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
      return this->finish(run, pack, b, end, point.accumulating, point.counts);
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
      if (point.last || steps_exhausted(run) || stops(run)) return Base::leave(run, pack, point.last, point.counts);
      settle(run, pack, false, point.counts);
    } else if (point.at == At::after_batch) {
      settle(run, pack, point.last, point.counts, point.last || steps_exhausted(run) || stops(run));
    } else {
      write_requests(run, pack, source_, point);
      if (point.counts) count_step(run);
    }
    if (point.last || steps_exhausted(run)) return false;
    return !stops(run) || this->stop_here(run, point.accumulating);
  }
};

void warn_of_left_out(Warn warn, long batch, int epoch);
[[noreturn]] void refuse_empty_epoch(int epoch);

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
      if constexpr (replays) retreat_.offer(run, b);
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

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/train_epoch.ipp>
#endif
