#pragma once
// Metrics that are counted in training: from what an epoch's batches have counted to its values, which go the way of
// logged ones.

#include <string>
#include <string_view>

#include <fulgurite/loop/counted_value.hpp>

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

}  // namespace fulgurite::loop
