#pragma once
// The end of an epoch of training, in parts: where one fails, a run goes on with the next.

#include <cstdint>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/before_cut.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/data_advice.hpp>
#include <fulgurite/loop/moving_schedules.hpp>
#include <fulgurite/loop/shared_figures.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/training_counts.hpp>
#include <fulgurite/loop/training_rows.hpp>
#include <fulgurite/loop/untold.hpp>

namespace fulgurite::loop {

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
  Context<R, phase::Train> ctx(run);
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
