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

/// Windows restart each epoch; the last one may be shorter, and is the mean of the batches it has (D1).
inline Window window_of(long b, long start, int length, std::optional<long> batches, bool last) {
  long const position = b - start;
  long const divisor = batches ? std::min<long>(length, *batches - start) : length;
  bool const closes = position + 1 == length || last;
  double const rescale = closes && position + 1 != divisor ? static_cast<double>(divisor) / static_cast<double>(position + 1) : 1.0;
  return {{position == 0, closes, static_cast<int>(divisor)}, rescale};
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

/// Validation inside fit, with what surrounds it.
template <class R, class Pack, class Source>
void validate_in_fit(State<R>& run, Pack& pack, Source& source) {
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    Context<R, phase::Validate> ctx(run);
    if (!run.facts.accumulating && Listens<hook::on_validation_model_zero_grad, typename R::Model, Context<R, phase::Validate>>)
      Pack::template tell_model<hook::on_validation_model_zero_grad>(*run.model, ctx);
    auto waiting = std::exchange(run.requests, {});
    evaluate<Validation>(run, pack, source, source.template evaluation<hook::val_dataloader>(), run.options.limit_val_batches, std::nullopt);
    if (run.options.val_check_interval.kind == ValidationInterval::Kind::time) run.last_validation = run.options.now();
    run.progress.at = At::after_validation;
    deliver_posted(run, pack, run.progress.logged_steps);
    // What validation has scored are the weights of the last step: inside a window, too, they are written as they are now.
    if (!run.requests.empty()) write_now(run, pack);
    run.requests = std::move(waiting);
  }
}

template <class R, class Pack, class Source>
class TrainEpoch {
  using Backend = typename R::Backend;
  using Ctx = Context<R, phase::Train>;

 public:
  TrainEpoch(State<R>& run, Pack& pack, Source& source, EpochPlan const& plan)
      : run_(run), pack_(pack), source_(source), plan_(plan), ctx_(run) {}

  /// Runs the epoch's batches.
  template <class Loader>
  void batches(Loader& loader) {
    run_.progress.batch = 0;
    run_.progress.window_start = 0;
    bool any = false;
    each_batch(loader, plan_.most(), [&](auto&& raw, long b, bool last) {
      any = true;
      return with_batch(run_, source_, ctx_, raw, [&](auto& batch) { return one(batch, b, last); });
    });
    run_.facts.in_batch = false;
    if (!any)
      throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(run_.progress.epoch) +
                                              ": begin() must start a new pass each time");
  }

 private:
  /// Whether the epoch goes on after this batch.
  template <class Batch>
  [[gnu::always_inline]] bool one(Batch& batch, long b, bool last) {
    auto& facts = run_.facts;
    auto& progress = run_.progress;
    if (b == progress.window_start) length_ = R::automatic ? run_.window : 1;
    auto const window = window_of(b, progress.window_start, length_, plan_.batches, last);
    facts.batch_idx = b;
    facts.is_last_batch = last;
    facts.accumulating = !window.key.closes;
    facts.batch_size = Backend::batch_size(batch);
    facts.in_batch = true;

    auto const started = pack_.template fire<hook::on_train_batch_start>(*run_.model, batch, ctx_);
    deliver_posted(run_, pack_, progress.logged_steps);
    if (started == Flow::skip_epoch) {
      skip_epoch(b);
      return false;
    }
    if (started == Flow::stop) run_.stop_requested = true;
    run_.train_board.fold();  // what hooks have logged is no part of the step: neither recorded with it nor discarded

    auto const ended = step(batch, window);
    if (ended == Flow::stop) run_.stop_requested = true;
    progress.batch = b + 1;
    ++progress.total_batches;
    progress.at = At::after_batch;
    run_.train_board.fold();
    check_time(run_);
    if (!facts.accumulating) {
      progress.window_start = b + 1;
      report_step(run_, pack_);
    }

    bool const leaving = last || steps_exhausted(run_) || stops(run_);
    if (leaving && facts.accumulating) flush(b + 1);
    facts.in_batch = false;
    deliver_posted(run_, pack_, progress.logged_steps);
    write_requests(run_, pack_);
    if (validation_due(run_, plan_, b, last)) validate_in_fit(run_, pack_, source_);
    if (!facts.accumulating) ++progress.logged_steps;
    // Validation may have asked for a stop; its window must not be lost either.
    bool const stops_now = stops(run_);
    if (stops_now && facts.accumulating) {
      flush(b + 1);
      ++progress.logged_steps;
    }
    return !(leaving || stops_now);
  }

  /// The step of this batch and the end hooks.
  template <class Batch>
  [[gnu::always_inline]] Flow step(Batch& batch, Window const& window) {
    auto& model = *run_.model;
    if constexpr (R::automatic) {
      auto result = automatic_step(run_, pack_, ctx_, batch, window.key, window.rescale);
      if (run_.facts.is_last_batch) tick_schedulers(run_, ctx_, Interval::epoch);
      run_.train_board.fold();
      using Outputs = typename OutputsOf<Backend, decltype(result)>::type;
      if constexpr (Pack::template wants_outputs<hook::on_train_batch_end, typename R::Model, Outputs, Batch, Ctx>()) {
        auto outputs = outputs_of<Backend>(result, 1.0 / window.key.divisor);
        return pack_.template fire<hook::on_train_batch_end>(model, outputs, batch, ctx_);
      } else {
        return pack_.template fire<hook::on_train_batch_end>(model, batch, ctx_);
      }
    } else {
      manual_step(run_, pack_, batch);
      run_.train_board.fold();
      return pack_.template fire<hook::on_train_batch_end>(model, batch, ctx_);
    }
  }

  /// The window at hand ends after `seen` batches of the epoch: stepped as the mean of what it has.
  void flush(long seen) {
    if constexpr (R::automatic) {
      auto& progress = run_.progress;
      long const position = seen - progress.window_start;
      long const divisor = plan_.batches ? std::min<long>(length_, *plan_.batches - progress.window_start) : length_;
      run_.facts.accumulating = false;
      run_.facts.in_batch = true;
      flush_window(run_, pack_, ctx_, static_cast<double>(divisor) / static_cast<double>(position));
      run_.train_board.fold();
      progress.window_start = seen;
      report_step(run_, pack_);
      run_.facts.in_batch = false;
    }
  }

  /// on_train_batch_start answered skip_epoch: what was accumulated is stepped, epoch schedules move, nothing else of this batch runs.
  void skip_epoch(long b) {
    if (b > run_.progress.window_start) {
      flush(b);
      ++run_.progress.logged_steps;
    }
    run_.facts.accumulating = false;
    run_.facts.is_last_batch = true;
    if constexpr (R::automatic) tick_schedulers(run_, ctx_, Interval::epoch);
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  EpochPlan const& plan_;
  Ctx ctx_;
  int length_ = 1;  ///< of the window at hand; ctx.accumulate speaks of the next
};

}  // namespace fulgurite::loop
