#pragma once
// Part of a run's state: what was logged, and what it came to.

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/run_key.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::loop {

template <class R>
struct Measured {
  using Board = fulgurite::Board<typename R::Metrics, typename R::Backend>;
  using Results = std::array<Figures, R::Metrics::size>;

  Board train_board{};
  Board cut_short{};  ///< train_board of an epoch that a limit or a stop has cut short, as it was before its end
  std::vector<Board> eval_boards = std::vector<Board>(1);
  /// Beside eval_boards: of metrics whose definition computes several numbers.
  std::vector<std::vector<std::pair<std::string, double>>> several{};
  /// Of the evaluation whose batches are over: metrics that have a definition, over the samples of all loaders.
  Results counted{};
  /// How often each metric was logged in epochs and evaluations that are over: with what the open one has logged, the
  /// age of its value.
  std::array<long, R::Metrics::size> logged{};
  Results results{};                        ///< of the last finished epoch or evaluation, merged over loaders
  std::vector<std::string> loader_names{};  ///< of the evaluation loaders: their own, or their positions
  std::vector<Results> loader_results{};    ///< the same as `results` of each of them

  /// A metric in the running evaluation, over all of its loaders: what `results` will be, and what hooks read until
  /// then.
  Figures over_loaders(std::size_t metric) const {
    if (R::Metrics::counted[metric]) return counted[metric];
    Figures merged;
    for (auto const& board : eval_boards) merged.merge(board[metric].epoch);
    return merged;
  }
};

}  // namespace fulgurite::loop
