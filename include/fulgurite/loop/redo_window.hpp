#pragma once
// Where a fit goes on that was left inside of a batch, or of a window.

#include <type_traits>

#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Tells loggers how many of their last rows will come again when a fit goes on from the file that is written next.
template <class Pack>
void expect_rows(Pack& pack, long rows) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.expect_again(rows); }) callback.expect_again(rows);
  });
}

/// Where a fit goes on that fails, or is written, inside a batch. After its step, while end hooks are told, it goes on
/// after them, where the loader says whether the batch was the last and does not keep its place by itself. Else a batch
/// is done again with all of its window: what it has added to the gradients cannot be told from what the batches before
/// it did. A loader that keeps its place cannot go back; the window begins at the next batch then.
template <class R, class Pack, class Source>
void redo_window(State<R>& run, Pack& pack, Source& source) {
  auto& progress = run.progress;
  if (run.point.at != At::before_batch) return;
  bool const stepped = !run.facts.left_out || run.point.counts;
  if (run.due.heard.template failed<hook::on_train_batch_end>()) {  // its step is made
    run.point = {.at = At::batch_end,
                 .last = run.facts.is_last_batch,
                 .counts = stepped,
                 .accumulating = run.facts.accumulating,
                 .began = true,
                 .observed = progress.global_step - (stepped && !run.facts.accumulating)};
    return;
  }
  bool told = run.facts.in_batch && run.facts.ended == progress.total_batches && !run.facts.end_unknown;
  if constexpr (Source::trains) told = told && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  if (told) {
    progress.batch = run.facts.batch_idx + 1;
    ++progress.total_batches;
    run.measured.train_board.fold();
    if (stepped && !run.facts.accumulating) progress.window_start = progress.batch;
  }
  // Where a window is over before its length, the step of what it holds follows the batch.
  bool flushing = !told && R::automatic && !run.facts.accumulating && progress.window_start != progress.batch;
  if constexpr (Source::trains) flushing = flushing && !KeepsPlace<std::remove_reference_t<decltype(source.train())>>;
  // The batch was over, and something after it has failed.
  if (run.facts.in_batch && progress.batch == run.facts.batch_idx + 1 && !flushing) {
    bool const counts = told ? stepped && !run.facts.accumulating : progress.window_start == progress.batch;
    run.point = {.at = told ? At::after_step : At::after_batch,
                 .last = run.facts.is_last_batch,
                 .counts = counts,
                 .accumulating = run.facts.accumulating,
                 .observed = progress.global_step - counts};
    return;
  }
  if constexpr (Source::trains)
    if constexpr (KeepsPlace<std::remove_reference_t<decltype(source.train())>>) {
      using Loader = std::remove_reference_t<decltype(source.train())>;
      if constexpr (BatchesStayValid<Loader> && !SizedLoader<Loader>) run.carried.slices = 0;  // it is past the batch
      progress.window_start = progress.batch;
      run.point.began |= run.facts.in_batch && progress.batch == 0;
      return;
    }
  progress.total_batches -= progress.batch - progress.window_start;
  progress.batch = progress.window_start;
  run.point.began |= run.facts.in_batch && progress.batch == 0;
  expect_rows(pack, run.due.rows_of_window(progress.total_batches));
}

}  // namespace fulgurite::loop
