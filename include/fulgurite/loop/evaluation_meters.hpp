#pragma once
// Metrics that are counted in an evaluation: from updates to values, which go the way of logged ones.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/counted_value.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// An evaluation begins, or is over: nothing is logged or counted, and no memory is kept.
template <class R>
void restart_boards(State<R>& run) {
  for (auto& board : run.measured.eval_boards) board.restart();
  run.measured.counted = {};
  if constexpr (State<R>::Board::Counts::any_several) run.measured.several.assign(run.measured.eval_boards.size(), {});
}

/// The few batches of a sanity check may be too few for a value to be defined, and are no reason to end.
template <class R, class Meter>
auto evaluated_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  try {
    return counted_value(run, meter);
  } catch (Error const& error) {
    if (run.facts.sanity_checking && is_too_few(error)) return std::nullopt;
    throw;
  }
}

/// The batches are over: what was counted becomes a value of each loader's board, and one over the samples of all
/// loaders, which is not the mean of the loaders' values. Every rank comes here.
template <class R>
void settle_meters(State<R>& run) {
  using Counts = typename State<R>::Board::Counts;
  if constexpr (Counts::any) {
    Counts merged;
    for (std::size_t b = 0; b != run.measured.eval_boards.size(); ++b) {
      auto& board = run.measured.eval_boards[b];
      board.fold();
      merged.merge(board.counts);
      board.counts.each([&](auto at, auto& meter) {
        using M = typename Counts::template Declared<at>;
        auto const value = evaluated_value(run, meter);
        if (!value) return;
        if constexpr (metric::counts_several<M>)
          meter.definition().each(*value, [&](std::string_view name, double number) {
            run.measured.several[b].emplace_back((std::string(M::name()) += '.') += name, number);
          });
        else board.settle_count(at, *value, Origin::evaluation);
      });
    }
    merged.each([&](auto at, auto& meter) {
      if constexpr (metric::counts_several<typename Counts::template Declared<at>>) return;
      else if (auto const value = evaluated_value(run, meter)) run.measured.counted[at].add(*value, 1);
    });
  }
}

}  // namespace fulgurite::loop
