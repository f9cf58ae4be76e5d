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
  Results results{};                        ///< of the last finished epoch or evaluation, merged over loaders
  std::vector<std::string> loader_names{};  ///< of the evaluation loaders: their own, or their positions
  std::vector<Results> loader_results{};    ///< the same as `results` of each of them
};

}  // namespace fulgurite::loop
