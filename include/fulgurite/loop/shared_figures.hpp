#pragma once
// Metrics over several ranks: what each has logged becomes what all have logged, at the ends of epochs and evaluations.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::loop {

/// The figures of several cells on their way through one collective.
class FiguresOnTheWay {
 public:
  /// `of_last`: the model is split, and what the last rank has logged is what all have.
  explicit FiguresOnTheWay(bool of_last) : of_last_(of_last) {}

  void add(Figures& figures) {
    all_.push_back(&figures);
    bool const any = figures.count != 0;
    add(figures.sum, Reduce::sum);
    add(figures.weighted, Reduce::sum);
    add(figures.weight, Reduce::sum);
    add(figures.least, of_last_ ? Reduce::sum : Reduce::min);
    add(figures.greatest, of_last_ ? Reduce::sum : Reduce::max);
    add(static_cast<double>(figures.count), Reduce::sum);
    add(any ? figures.last : 0, Reduce::sum);
    add(any ? 1 : 0, Reduce::sum);
    if (of_last_) add(any ? 1 : 0, Reduce::max);
  }
  bool empty() const { return all_.empty(); }
  std::span<double> values() { return values_; }
  std::span<Reduce const> how() const { return how_; }

  /// What came back is what all ranks have logged; the last value is the mean of theirs. An Error on all ranks where
  /// the last one has not logged what another has: the model is split, and it would be lost.
  void arrive() {
    std::size_t const each = of_last_ ? 9 : 8;
    for (std::size_t i = 0; i != all_.size(); ++i) {
      double const* const at = &values_[i * each];
      if (of_last_ && at[7] == 0 && at[8] != 0)
        throw Error("fulgurite.pipeline.metric",
                    "a metric was logged by another rank and not by the last one, whose values are everybody's: log it "
                    "in a step behind through_stages, or in a hook on all ranks");
      *all_[i] = {.last = at[7] == 0 ? 0 : at[6] / at[7],
                  .sum = at[0],
                  .weighted = at[1],
                  .weight = at[2],
                  .least = at[3],
                  .greatest = at[4],
                  .count = static_cast<long>(at[5])};
    }
  }

 private:
  void add(double value, Reduce how) {
    values_.push_back(value);
    how_.push_back(how);
  }

  bool of_last_;
  std::vector<Figures*> all_;
  std::vector<double> values_;
  std::vector<Reduce> how_;
};

template <class R>
void share(State<R>& run, FiguresOnTheWay& figures) {
  if (figures.empty() || run.shared.alone) return;
  run.parts.strategy.reduce_in_place(figures.values(), figures.how());
  figures.arrive();
}

/// The training epoch's figures, of what was logged in steps, or in hooks of the epoch (`origin`), become those of all
/// ranks. Called by every rank, also where it has logged nothing.
template <class R>
void share_epoch(State<R>& run, [[maybe_unused]] Origin origin) {
  if constexpr (shares<R> && State<R>::metrics != 0) {
    auto& board = run.measured.train_board;
    board.collect();
    std::array<Figures, State<R>::metrics> all{};
    FiguresOnTheWay figures(splits_model<R>);
    for (std::size_t i = 0; i != all.size(); ++i) {
      auto const& cell = board[i];
      if (!cell.shared && cell.origin == origin) all[i] = cell.epoch;
      figures.add(all[i]);
    }
    share(run, figures);
    for (std::size_t i = 0; i != all.size(); ++i)
      if (all[i].count != 0) {
        board[i].epoch = all[i];
        board[i].shared = true;
      }
  }
}

/// Sums the figures that a decision needs over all ranks. `news`: this rank has some that it has not shared yet.
/// Whether any rank has.
template <class R>
bool share_found(State<R>& run, Figures& mine, bool news) {
  Figures all = news ? mine : Figures{};
  FiguresOnTheWay figures(splits_model<R>);
  figures.add(all);
  share(run, figures);
  if (all.count != 0) mine = all;
  return all.count != 0;
}

/// The figures of an evaluation, of all its loaders, become those of all ranks. Values that were counted are that
/// already, on each rank.
template <class R>
void share_evaluation(State<R>& run) {
  if constexpr (shares<R> && State<R>::metrics != 0) {
    FiguresOnTheWay figures(splits_model<R>);
    for (auto& board : run.measured.eval_boards) {
      board.collect();
      for (std::size_t i = 0; i != State<R>::metrics; ++i)
        if (!board[i].shared) figures.add(board[i].epoch);
    }
    share(run, figures);
    if constexpr (splits_model<R>)  // where it was not logged, nobody has said so yet
      for (auto& board : run.measured.eval_boards)
        for (std::size_t i = 0; i != State<R>::metrics; ++i)
          if (board[i].epoch.count != 0) board[i].origin = Origin::evaluation;
  }
}

/// What the last rank has logged in this epoch is what everybody has, so that rank 0 can tell of it.
template <class R>
void share_last_rank(State<R>& run) {
  constexpr std::size_t each = 9;
  auto& board = run.measured.train_board;
  std::vector<double> values;
  for (std::size_t i = 0; i != State<R>::metrics; ++i) {
    auto const& cell = board[i];
    auto const& f = cell.epoch;
    values.insert(values.end(), {cell.in_step_row ? 1.0 : 0.0, static_cast<double>(cell.origin), f.last, f.sum,
                                 f.weighted, f.weight, f.least, f.greatest, static_cast<double>(f.count)});
  }
  std::vector<Reduce> const how(values.size(), Reduce::sum);  // where the model is split, of the last rank alone
  run.parts.strategy.reduce_in_place(values, how);
  for (std::size_t i = 0; i != State<R>::metrics; ++i) {
    double const* const at = &values[i * each];
    if (at[8] == 0) continue;
    board[i].in_step_row = at[0] != 0;
    board[i].origin = static_cast<Origin>(static_cast<int>(at[1]));
    board[i].epoch = {.last = at[2],
                      .sum = at[3],
                      .weighted = at[4],
                      .weight = at[5],
                      .least = at[6],
                      .greatest = at[7],
                      .count = static_cast<long>(at[8])};
  }
}

template <class Metrics>
inline constexpr bool any_sync_on_step = [] {
  bool any = false;
  Metrics::each([&](std::size_t, auto const& metric) { any = any || metric.sync_on_step; });
  return any;
}();

/// A step's values of metrics that ask for it become those of all ranks, before their row.
template <class R>
void share_step(State<R>& run) {
  if constexpr (splits_model<R>) {
    if constexpr (State<R>::metrics != 0) share_last_rank(run);
  } else if constexpr (shares<R> && State<R>::metrics != 0 && any_sync_on_step<typename R::Metrics>) {
    auto& board = run.measured.train_board;
    std::vector<double> values;
    std::vector<Reduce> how;
    R::Metrics::each([&](std::size_t i, auto const& metric) {
      if (!metric.sync_on_step) return;
      auto const& cell = board[i];
      bool const mean = metric.reduce == Reduce::mean;
      values.push_back(mean ? cell.epoch.last * cell.weight : cell.epoch.last);
      how.push_back(mean ? Reduce::sum : metric.reduce);
      values.push_back(cell.weight);
      how.push_back(Reduce::sum);
    });
    run.parts.strategy.reduce_in_place(values, how);
    R::Metrics::each([&, at = std::size_t{0}](std::size_t i, auto const& metric) mutable {
      if (!metric.sync_on_step) return;
      bool const mean = metric.reduce == Reduce::mean;
      board[i].epoch.last = mean ? values[at] / values[at + 1] : values[at];
      at += 2;
    });
  }
}

}  // namespace fulgurite::loop
