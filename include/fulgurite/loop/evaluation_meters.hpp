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

/// The batches are over: what was counted becomes a value of each loader's board. Every rank comes here.
template <class R>
void settle_meters(State<R>& run) {
  using Counts = typename State<R>::Board::Counts;
  if constexpr (Counts::any) {
    for (std::size_t b = 0; b != run.measured.eval_boards.size(); ++b) {
      auto& board = run.measured.eval_boards[b];
      board.counts.each([&](auto at, auto& meter) {
        using M = typename Counts::template Declared<at>;
        auto const value = evaluated_value(run, meter);
        if (!value) return;
        if constexpr (metric::counts_several<M>)
          meter.definition().each(*value, [&](std::string_view name, double number) {
            run.measured.several[b].emplace_back((std::string(M::name()) += '.') += name, number);
          });
        else board.log_number(at, *value, 1, Origin::evaluation);
      });
      board.fold();
    }
  }
}

/// What watching such a metric means with several loaders: its value over the samples of all of them, which is not the
/// mean of the loaders' values.
template <class R>
void publish_meters(State<R>& run) {
  using Counts = typename State<R>::Board::Counts;
  if constexpr (Counts::any) {
    if (run.measured.eval_boards.size() < 2) return;
    Counts merged;
    for (auto& board : run.measured.eval_boards) merged.merge(board.counts);
    merged.each([&](auto at, auto& meter) {
      if constexpr (metric::counts_several<typename Counts::template Declared<at>>) return;
      else if (auto const value = evaluated_value(run, meter)) {
        run.measured.results[at] = {};
        run.measured.results[at].add(*value, 1);
      }
    });
  }
}

}  // namespace fulgurite::loop
