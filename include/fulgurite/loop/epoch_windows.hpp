#pragma once
// The accumulation windows of one epoch: where each begins and closes, and what happens where one ends early.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/validation_timing.hpp>

namespace fulgurite::loop {

/// f(position, meter, value over all ranks) for each metric that was counted in this epoch and has a value. Every rank
/// comes here. An epoch may have too few samples for one, which ends no training.
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

/// The batches of an epoch are over, and nobody has heard of it: what was counted in them becomes values of the board.
template <class R>
void settle_counts(State<R>& run) {
  if constexpr (State<R>::Board::Counts::any)
    each_counted<false>(run, [&](auto at, auto&, double value) {
      run.measured.train_board.settle_count(at, value, Origin::train_step);
    });
}

/// f(name, number) for those of metrics of several numbers, which nobody watches.
template <class R, class F>
void each_of_several(State<R>& run, F&& f) {
  using Counts = typename State<R>::Board::Counts;
  if constexpr (Counts::any_several)
    each_counted<true>(run, [&](auto at, auto& meter, auto const& value) {
      using M = typename Counts::template Declared<at>;
      meter.definition().each(
          value, [&](std::string_view name, double number) { f((std::string(M::name()) += '.') += name, number); });
    });
}

// The rows of training: of its steps at their cadence, of its epochs at their end.

/// The row of a step, at the cadence of the log. Reads what waits on a device.
template <class R, class Pack>
void report_step(State<R>& run, Pack const&) {
  int const every = run.asked.options.log_every_n_steps;
  if (every == 0 || ((run.progress.logged_steps + 1) % every != 0 && !run.due.stop.holds)) return;
  if constexpr (State<R>::metrics != 0 || has_logger<Pack>) collect_and_check(run);
  share_step(run);
  if constexpr (has_logger<Pack>) { log_row(run, step_row(run, std::nullopt), run.progress.logged_steps); }
}

/// The epoch's values become results, then rows; x is the last step's.
template <class R, class Pack>
void report_epoch(State<R>& run, Pack const&) {
  collect_and_check(run);
  publish_epoch(run);
  if constexpr (has_logger<Pack>) {
    auto row = epoch_row(run, std::nullopt);
    each_of_several(run, [&](std::string name, double v) { row.push_back({std::move(name), v}); });
    log_row(run, row, last_step(run));
  }
}

// One sentence for a training loop that waits for its data while processors are idle.

/// Processors that had nothing to do in a pass that kept the loop waiting for a quarter of five seconds or more, on a
/// machine with so many; 0 where there is nothing to say.
int idle_while_waiting(Waited const& waited, unsigned processors);

/// Said once a fit, when an epoch is over.
void advise_on_data(RunCore& run, Waited const& waited);
template <class Loader>
void advise_on_data(RunCore& run, Loader const& loader) {
  if constexpr (TellsWaiting<std::remove_cvref_t<Loader>>) advise_on_data(run, Waited(loader.waited()));
}

/// Tells an event to all. Where it failed half-way in the run that this one goes on from, tells it only to those that
/// had not heard it.
template <class Hook, bool Resumes, class R, class Pack, class Ctx>
Flow tell_or_rest(State<R>& run, Pack& pack, Ctx& ctx) {
  if constexpr (Resumes)
    if (run.due.heard.template failed<Hook>()) return tell_others<Hook>(run, pack, ctx);
  return tell<Hook>(run, pack, ctx);
}

/// An epoch is over, and all have heard of it: the next one begins at its first batch.
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

/// A loader whose samples are shared out otherwise by another number of ranks can go on from a file of now.
template <class R, class Source>
void stand_between_epochs(State<R>& run, Source& source) {
  auto& loader = source.train();
  if constexpr (Jumps<std::remove_reference_t<decltype(loader)>> && requires { loader.set_epoch(long{}); })
    loader.set_epoch(long{run.progress.epoch});
}

/// `from`: how many of its parts are over. Where one fails, a fit that goes on begins with that one.
template <bool Resumes, class R, class Pack, class Source>
void end_epoch(State<R>& run, Pack& pack, Source& source, bool left_early, std::uint8_t from) {
  auto& progress = run.progress;
  run.point = {.at = At::epoch_end, .last = run.facts.is_last_batch, .left_early = left_early, .parts = from};
  // Kept before the hooks at the end of the epoch change the figures; once, though the parts may take several runs.
  if (!run.facts.is_last_batch && from == 0 && !run.before_cut) {
    run.measured.train_board.collect();
    run.measured.cut_short = run.measured.train_board;
    keep_before_cut(run, pack);
  }
  RunContext<R, phase::Train> ctx(run);
  auto part = [&run, n = std::uint8_t{0}](auto&& work) mutable {
    if (n++ < run.point.parts) return;
    work();
    run.point.parts = n;
  };
  if constexpr (shares<R> || State<R>::Board::Counts::any)
    part([&] {
      settle_counts(run);
      if constexpr (shares<R>) share_epoch(run, Origin::train_step);
    });
  part([&] {
    if (tell_or_rest<hook::on_train_epoch_end, Resumes>(run, pack, ctx) == Flow::stop) wish_stop(run);
  });
  if constexpr (shares<R>)
    part([&] {
      share_epoch(run, Origin::train_epoch);
      agree_on_stop(run);
      count_batches_alike(run);
    });
  part([&] { deliver_posted(run, pack, last_step(run)); });
  part([&] {
    if constexpr (R::automatic)
      if (run.facts.is_last_batch) observe_schedulers(run, ctx, Interval::epoch, progress.epoch, progress.epoch + 1);
  });
  part([&] { report_epoch(run, pack); });
  advise_on_data(run, source.train());
  count_epoch(run);
  if constexpr (shares<R>)
    if (progress.cut_short < 0) stand_between_epochs(run, source);
  run.point = {.at = At::after_epoch, .left_early = left_early};
  write_requests(run, pack, source, run.point);
  run.point = {};
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/epoch_windows.ipp>
#endif
