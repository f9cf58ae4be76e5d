#pragma once
// One epoch of training: batches, windows, schedules, validation in between, and what must happen when it is left early.

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/evaluate.hpp>
#include <fulgurite/loop/manual.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// Where a batch lies in its accumulation window.
struct Window {
  StepKey key;
  double rescale;  ///< of the gradients, where the window turned out shorter than its divisor (unsized loaders)
};

/// Windows restart each epoch; the last one may be shorter, and is the mean of the batches it has (D1). `seen` batches of it came
/// before; they are fewer than its places where a loader left some out. `end`: the batch after it, if the loader goes on so far.
inline Window window_of(long b, long start, long seen, long end, std::optional<long> batches, bool last) {
  long const divisor = (batches ? std::min(end, *batches) : end) - start;
  bool const closes = b + 1 == end || last;
  double const rescale = closes && seen + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(seen + 1) : 1.0;
  return {{seen == 0, closes, static_cast<int>(divisor)}, rescale};
}

/// The rows of a training step go to the loggers at their cadence; reading a device happens here and nowhere else.
template <class R, class Pack>
void report_step(State<R>& run, Pack& pack) {
  int const every = run.options.log_every_n_steps;
  if (every == 0 || ((run.progress.logged_steps + 1) % every != 0 && !run.stop_requested)) return;
  run.train_board.collect();
  if constexpr (has_logger<Pack>) {
    std::vector<MetricValue> row;
    each_step_value<typename R::Metrics>(run.train_board, [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, pack, row, run.progress.logged_steps);
  }
}

/// Requests of a window that is not over stay aside while a validation makes its own; they are there again afterwards, whatever happens.
class Waiting {
 public:
  explicit Waiting(std::vector<CheckpointRequest>& requests) : requests_(requests), waiting_(std::exchange(requests, {})) {}
  ~Waiting() { requests_.insert(requests_.begin(), waiting_.begin(), waiting_.end()); }
  Waiting(Waiting const&) = delete;
  Waiting& operator=(Waiting const&) = delete;

 private:
  std::vector<CheckpointRequest>& requests_;
  std::vector<CheckpointRequest> waiting_;
};

/// Validation inside fit, with what surrounds it.
template <class R, class Pack, class Source>
void validate_in_fit(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    Context<R, phase::ValidateEnd> ctx(run);
    if (!run.facts.accumulating && Listens<hook::on_validation_model_zero_grad, typename R::Model, Context<R, phase::ValidateEnd>>)
      Pack::template tell_model<hook::on_validation_model_zero_grad>(*run.model, ctx);
    int const every = run.options.reload_dataloaders_every_n_epochs;
    if (every != 0 && run.progress.epoch - run.val_loaded_in >= every) {
      if constexpr (requires { source.reload_validation(); }) source.reload_validation();
      run.val_loaded_in = run.progress.epoch;
    }
    Waiting const others(run.requests);
    evaluate<Validation>(run, pack, source, source.template evaluation<hook::val_dataloader>(), run.options.limit_val_batches, std::nullopt);
    if (run.options.val_check_interval.kind == ValidationInterval::Kind::time) run.last_validation = run.options.now();
    run.progress.at = At::after_validation;
    deliver_posted(run, pack, run.progress.logged_steps);
    // What validation has scored are the weights of the last step: inside a window, too, they are written as they are now.
    if (!run.requests.empty()) write_now(run, pack);
  }
}

/// The batches of one epoch, each with its hooks, its step or its place in a window, and the validation that follows. `run` is handed
/// on: as a member it would be read anew after each call that a compiler cannot look into.
template <class R, class Pack, class Source>
class TrainEpoch {
  using Backend = typename R::Backend;
  using Ctx = Context<R, phase::Train>;

 public:
  TrainEpoch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan)
      : pack_(pack), source_(source), plan_(plan), ctx_(run),
        validates_(run.facts.has_validation && validates_in(run.options, run.progress.epoch)) {}

  /// Runs the epoch's batches. Not inlined, so that the hot loop has a symbol, whose assembly is checked; what a batch calls is inlined by
  /// force, since a call would save and restore six registers for each.
  template <class Loader>
  [[gnu::noinline]] void batches(State<R>& run, Loader& loader) {
    run.progress.batch = 0;
    run.progress.window_start = 0;
    bool const any = each_batch(loader, plan_.most(), [&](auto&& raw, long b, bool last) __attribute__((always_inline)) {
      if (is_none(raw)) return none(run, b, last);
      return with_batch(run, source_, ctx_, present(raw), [&](auto& batch) __attribute__((always_inline)) { return one(run, batch, b, last); });
    });
    run.facts.in_batch = false;
    if (!any)
      throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(run.progress.epoch) +
                                              ": begin() must start a new pass each time");
  }

 private:
  /// Whether the epoch goes on after this batch.
  template <class Batch>
  [[gnu::always_inline]] bool one(State<R>& run, Batch& batch, long b, bool last) {
    auto& facts = run.facts;
    auto& progress = run.progress;
    begin(run, b, last);
    auto const window = window_of(b, progress.window_start, seen(run, b), end_, plan_.batches, last);
    facts.accumulating = !window.key.closes;
    facts.batch_size = Backend::batch_size(batch);
    facts.in_batch = true;

    auto const started = tell<hook::on_train_batch_start>(run, pack_, batch, ctx_);
    deliver_posted(run, pack_, progress.logged_steps);
    if (started == Flow::skip_epoch) {
      skip_epoch(run, b);
      return false;
    }
    if (started == Flow::stop) run.stop_requested = true;
    run.train_board.fold();  // what hooks have logged is no part of the step: neither recorded with it nor discarded

    auto const ended = step(run, batch, window);
    if (ended == Flow::stop) run.stop_requested = true;
    return finish(run, b, last);
  }

  void begin(State<R>& run, long b, bool last) {
    if (b == run.progress.window_start) {
      end_ = b + (R::automatic ? run.window : 1);
      left_out_ = 0;
    }
    run.facts.batch_idx = b;
    run.facts.is_last_batch = last;
  }

  /// Batches of the window at hand, before this one, that made gradients.
  long seen(State<R> const& run, long b) const { return b - run.progress.window_start - left_out_; }

  /// The loader left this batch out: no step; end hooks that take no batch are told. What its window has is stepped where it closes.
  bool none(State<R>& run, long b, bool last) {
    auto& facts = run.facts;
    run.warn("fulgurite.data.none", "batch " + std::to_string(b) + " of epoch " + std::to_string(run.progress.epoch) +
                                        " is none, an empty optional: it is skipped, and so are others that follow");
    begin(run, b, last);
    bool const closes = b + 1 == end_ || last;
    facts.batch_size = 0;
    facts.in_batch = facts.left_out = true;
    facts.accumulating = R::automatic && seen(run, b) != 0;
    ++left_out_;
    bool const stepped = facts.accumulating && closes;
    if (stepped) flush(run, b + 1, false);
    if (!facts.accumulating) run.progress.window_start = b + 1;
    if (last && R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
    if (tell<hook::on_train_batch_end>(run, pack_, ctx_) == Flow::stop) run.stop_requested = true;
    facts.left_out = false;
    return finish(run, b, last, stepped);
  }

  /// What follows the end hooks of a batch; `stepped`: they followed a step, unless it accumulates. Whether the epoch goes on.
  [[gnu::always_inline]] bool finish(State<R>& run, long b, bool last, bool stepped = true) {
    bool const accumulating = run.facts.accumulating;
    auto& progress = run.progress;
    progress.batch = b + 1;
    ++progress.total_batches;
    progress.at = At::after_batch;
    run.train_board.fold();
    check_time(run);
    bool const counts = stepped && !accumulating;
    if (counts) {
      progress.window_start = b + 1;
      report_step(run, pack_);
    }
    if (last || steps_exhausted(run) || stops(run)) return leave(run, last, counts);
    settle(run, last, counts);
    // Validation may have asked for a stop; its window must not be lost either.
    if (!stops(run)) return true;
    if (accumulating) {
      flush(run, b + 1);
      count_step(run);
    }
    return false;
  }

  /// The epoch ends with this batch: a window that is not over is stepped with what it has. Apart, so that no other batch asks for it twice.
  bool leave(State<R>& run, bool last, bool counts) {
    if (run.facts.accumulating) {
      flush(run, run.progress.batch);
      counts = true;
    }
    settle(run, last, counts);
    return false;
  }

  /// After a batch: what callbacks have asked for, then validation; `counts`: the batch ended with a step.
  [[gnu::always_inline]] void settle(State<R>& run, bool last, bool counts) {
    run.facts.in_batch = false;
    deliver_posted(run, pack_, run.progress.logged_steps);
    write_requests(run, pack_);
    if constexpr (Source::template evaluates<hook::val_dataloader>)
      if (validates_ && validation_due(run, plan_, last)) validate_in_fit(run, pack_, source_);
    if (counts) count_step(run);
  }

  /// A step and its validation are over.
  [[gnu::always_inline]] void count_step(State<R>& run) {
    if constexpr (R::automatic) observe_schedulers(run, ctx_, Interval::step);
    ++run.progress.logged_steps;
  }

  /// The step of this batch and the end hooks.
  template <class Batch>
  [[gnu::always_inline]] Flow step(State<R>& run, Batch& batch, Window const& window) {
    if constexpr (R::automatic) {
      auto result = automatic(run, batch, window);
      if (run.facts.is_last_batch) tick_schedulers(run, ctx_, Interval::epoch);
      run.train_board.fold();
      using Outputs = typename OutputsOf<Backend, decltype(result)>::type;
      if constexpr (Pack::template wants_outputs<hook::on_train_batch_end, typename R::Model, typename R::Strategy, Outputs, Batch, Ctx>()) {
        auto outputs = outputs_of<Backend>(result, 1.0 / window.key.divisor);
        return tell<hook::on_train_batch_end>(run, pack_, outputs, batch, ctx_);
      } else {
        return tell<hook::on_train_batch_end>(run, pack_, batch, ctx_);
      }
    } else {
      manual_step(run, pack_, batch);
      run.train_board.fold();
      return tell<hook::on_train_batch_end>(run, pack_, batch, ctx_);
    }
  }

  /// One step; of a recurrent model one for each slice of the batch, the last of which stands for it.
  template <class Batch>
  [[gnu::always_inline]] auto automatic(State<R>& run, Batch& batch, Window const& window) {
    if constexpr (!Recurrent<typename R::Model>) {
      return automatic_step(run, pack_, ctx_, batch, window.key, window.rescale);
    } else {
      auto slices = time_slices<R>(*run.model, batch, run.optimization.tbptt, ctx_);
      using Result = decltype(automatic_step(run, pack_, ctx_, *std::begin(slices), window.key, 1.0));
      std::optional<Result> result;
      run.hidden.reset();
      for (auto& slice : slices) {
        result.emplace(automatic_step(run, pack_, ctx_, slice, {true, true, 1}, 1.0));
        run.train_board.fold();
        if constexpr (is_optional<Result>) {
          if (*result) run.hidden.emplace(Backend::detached_state((*result)->hidden));
        } else {
          run.hidden.emplace(Backend::detached_state(result->hidden));
        }
        if (steps_exhausted(run)) break;
      }
      if (!result)
        throw Error("fulgurite.data.no_slice", "batch " + std::to_string(run.facts.batch_idx) + " has no time step, so it has no slice: leave it out");
      return std::move(*result);
    }
  }

  /// The window at hand ends before batch `after`: stepped as the mean of what it has.
  void flush(State<R>& run, long after, bool report = true) {
    if constexpr (R::automatic) {
      auto& progress = run.progress;
      long const divisor = (plan_.batches ? std::min(end_, *plan_.batches) : end_) - progress.window_start;
      run.facts.accumulating = false;
      run.facts.in_batch = true;
      flush_window(run, pack_, ctx_, static_cast<double>(divisor) / static_cast<double>(seen(run, after)));
      run.train_board.fold();
      progress.window_start = after;
      if (report) report_step(run, pack_);
      run.facts.in_batch = false;
    }
  }

  /// on_train_batch_start answered skip_epoch: what was accumulated is stepped, epoch schedules move, nothing else of this batch runs.
  void skip_epoch(State<R>& run, long b) {
    if (seen(run, b) != 0) {
      flush(run, b);
      count_step(run);
    }
    run.facts.accumulating = false;
    run.facts.is_last_batch = true;
    if constexpr (R::automatic) tick_schedulers(run, ctx_, Interval::epoch);
  }

  Pack& pack_;
  Source& source_;
  EpochPlan const& plan_;
  Ctx ctx_;
  bool validates_;     ///< in this epoch
  long end_ = 0;       ///< of the window at hand: the batch after it; ctx.accumulate speaks of the next window
  long left_out_ = 0;  ///< batches of it that were none
};

}  // namespace fulgurite::loop
