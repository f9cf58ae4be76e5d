#pragma once
// Checkpoints of several ranks: all of them take part in the fold, rank 0 writes, and what each rank alone keeps is in
// the file for each.

#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/file_exists.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/before_cut.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/shared_figures.hpp>

namespace fulgurite::loop {

/// What differs from rank to rank: random numbers, the figures of the epoch so far, loaders that keep their place, what
/// the others are yet to hear.
template <class R, class Source, class Archive>
void fold_own_part(State<R>& run, Source& source, Archive& archive) {
  auto& shared = run.shared;
  bool wishes = run.due.stop.waits && !run.due.stop.by_time && (!run.before_cut || run.due.stop_before_cut.asked);
  archive("wishes_stop", wishes)("not_finite", shared.not_finite)("validates", shared.validates);
  if (!lacks(archive, "left_out")) archive("left_out", run.progress.left_out);
  archive.child("epoch_so_far", run.measured.train_board).child("epoch_cut_short", run.measured.cut_short);
  fold_loader(run, source, archive);
  fold_cut_random(run, archive);
  fold_random(run, archive);
  if constexpr (Archive::loading) run.due.stop.waits = wishes;
}

/// The rank whose figures are those of all, once all have them: where the model is split, the one that steps end on.
template <class R>
int teller_of(State<R> const& run) {
  return splits_model<R> ? run.parts.strategy.world() - 1 : 0;
}

/// While one lives, a board of an open epoch has in place of this rank's figures and counts those of all: once
/// `figures` have been shared, and `merge_counts` is called. Made and ended by every rank.
template <class R>
class BoardOfAll {
  using Board = typename State<R>::Board;

 public:
  BoardOfAll(State<R>& run, Board& board, FiguresOnTheWay& figures) : board_(board) {
    int const teller = teller_of(run);
    for (std::size_t i = 0; i != figures_.size(); ++i) {
      auto& cell = board[i];
      figures_[i] = cell.epoch;
      if (cell.shared && run.parts.strategy.rank() != teller) cell.epoch = {};  // one of them tells
      figures.add(cell.epoch);
    }
    counts_ = board.counts;
  }
  ~BoardOfAll() {
    for (std::size_t i = 0; i != figures_.size(); ++i) board_[i].epoch = figures_[i];
    board_.counts = counts_;
  }
  BoardOfAll(BoardOfAll const&) = delete;
  BoardOfAll& operator=(BoardOfAll const&) = delete;

  /// On the rank that writes. `name`: that of the board in what each rank has saved of itself.
  void merge_counts([[maybe_unused]] State<R>& run, [[maybe_unused]] std::string_view name) {
    if constexpr (Board::Counts::any) {
      if (!speaks_for_all(run)) return;
      board_.counts.restart();
      auto const& parts = run.shared.parts;
      for (std::size_t rank = splits_model<R> ? parts.size() - 1 : 0; rank != parts.size(); ++rank) {
        typename R::Backend::RunFile::Memory saved;
        saved.read(parts[rank]);
        Board theirs;
        saved.load([&](auto& archive) { archive.child(name, theirs); });
        board_.counts.merge(theirs.counts);
      }
    }
  }

 private:
  Board& board_;
  std::array<Figures, State<R>::metrics> figures_{};
  [[no_unique_address]] typename Board::Counts counts_{};
};

/// While one lives, the file that is being written has the parts of all ranks, and in place of this rank's figures
/// those of all, which is what another number of ranks goes on with. Made and ended by every rank.
template <class R, class Source>
class PartsOfAll {
 public:
  PartsOfAll(State<R>& run, Source& source) : run_(run) {
    if (run.shared.alone) return;
    if constexpr (splits_model<R>) bring_model_together();
    if (run.point.accumulating) exchange_open_window();
    typename R::Backend::RunFile::Memory mine;
    mine.save([&](auto& archive) { fold_own_part(run, source, archive); });
    run.shared.parts = run.parts.strategy.gather(mine.text());
    FiguresOnTheWay figures(splits_model<R>);
    so_far_.emplace(run, run.measured.train_board, figures);
    cut_short_.emplace(run, run.measured.cut_short, figures);
    share(run, figures);
    so_far_->merge_counts(run, "epoch_so_far");
    cut_short_->merge_counts(run, "epoch_cut_short");
  }
  ~PartsOfAll() {
    if (!run_.shared.alone) run_.shared.parts.clear();
  }
  PartsOfAll(PartsOfAll const&) = delete;
  PartsOfAll& operator=(PartsOfAll const&) = delete;

 private:
  /// Weights of all stages; beside them the model keeps what it has on the last rank, where steps go on to their end.
  void bring_model_together() {
    auto& strategy = run_.parts.strategy;
    strategy.gather(*run_.parts.model, run_.parts.optimizers->optimizers);
    using RunFile = typename R::Backend::RunFile;
    if constexpr (Stateful<typename R::Model, typename RunFile::Saver>) {
      typename RunFile::Memory kept;
      auto const fold = [&](auto& archive) { archive.child("model", *run_.parts.model); };
      int const last = strategy.world() - 1;
      if (strategy.rank() == last) kept.save(fold);
      auto const text = strategy.broadcast(strategy.rank() == last ? kept.text() : std::string(), last);
      if (strategy.rank() == last) return;
      kept.read(text);
      kept.load(fold);
    }
  }
  /// The gradients of a window that is open become their mean over the ranks that have some, with which this run and
  /// one that goes on from the file both go on. A rank whose loader has left out all batches of it so far has those of
  /// the last step: they are cleared, and it goes on with the mean of the others as if it had had one.
  void exchange_open_window() {
    auto& strategy = run_.parts.strategy;
    auto& optimizers = run_.parts.optimizers->optimizers;
    if constexpr (splits_model<R>) {
      strategy.reduce_gradients(std::span<double>(), optimizers);
    } else {
      auto& progress = run_.progress;
      bool const has_some = progress.batch - progress.window_start != progress.left_out;
      if (!has_some) std::get<0>(optimizers).zero_grad();
      double with = has_some ? 1 : 0;
      strategy.reduce_gradients(std::span<double>(&with, 1), optimizers);
      double const world = strategy.world();
      if (with == 0) return;
      if (with != world) R::Backend::scale_gradients(std::get<0>(optimizers).parameters(), world / with);
      if (!has_some) --progress.left_out;
    }
  }

  State<R>& run_;
  std::optional<BoardOfAll<R>> so_far_{}, cut_short_{};
};

/// While the returned object lives, rank 0 has all that the optimizers keep, where each rank keeps a part of it. Made
/// by every rank, after PartsOfAll and before anything that one of them can fail at. An Error where the others can no
/// longer be asked: a file of one part would be the newest, and nobody could go on from it.
template <class R>
auto whole_state(State<R>& run, bool needed) {
  auto& strategy = run.parts.strategy;
  if constexpr (requires { strategy.whole_state(run.parts.optimizers->optimizers); }) {
    using Whole = decltype(strategy.whole_state(run.parts.optimizers->optimizers));
    std::optional<Whole> whole;
    if (needed && run.shared.alone && speaks_for_all(run) && strategy.world() != 1)
      throw Error("fulgurite.distributed.state_in_parts",
                  "the run has failed, and each rank keeps a part of the optimizers' state, so no file of it is "
                  "written: the files before it stay");
    if (needed && !run.shared.alone) whole.emplace(strategy.whole_state(run.parts.optimizers->optimizers));
    return whole;
  } else {
    return 0;
  }
}

/// The parts of all ranks, in a file of several; a program of one process passes over them.
template <class R, class Archive>
void fold_parts_of_all([[maybe_unused]] State<R>& run, Archive& archive) {
  if constexpr (shares<R>) {
    if (!lacks(archive, "ranks")) archive("ranks", run.shared.parts);
  } else if constexpr (Archive::loading) {
    std::vector<std::string> others;
    if (archive.has("ranks")) archive("ranks", others);
  }
}

/// Loaded, this rank goes on with its own part. In a file of another number of ranks there is none for it: one rank
/// has the figures and counts of the epoch so far, and random numbers are those of rank 0 for all.
template <class R, class Source>
void take_own_part([[maybe_unused]] State<R>& run, [[maybe_unused]] Source& source) {
  if constexpr (shares<R>) {
    auto const parts = std::exchange(run.shared.parts, {});
    auto const rank = static_cast<std::size_t>(run.parts.strategy.rank());
    if (parts.size() == static_cast<std::size_t>(run.parts.strategy.world())) {
      typename R::Backend::RunFile::Memory mine;
      mine.read(parts[rank]);
      mine.load([&](auto& archive) { fold_own_part(run, source, archive); });
    } else if (static_cast<int>(rank) != teller_of(run)) {
      for (auto* const board : {&run.measured.train_board, &run.measured.cut_short}) {
        for (std::size_t i = 0; i != State<R>::metrics; ++i) (*board)[i].epoch = {};
        if constexpr (State<R>::Board::Counts::any) board->counts.restart();
      }
    }
  }
}

/// `write()` on rank 0, `visit()` on the others; what fails on rank 0 is an Error on all of them, and where it finds
/// that the file exists, all of them find it.
template <class R, class Write, class Visit>
void write_together(State<R>& run, std::filesystem::path const& file, Write&& write, Visit&& visit) {
  if (run.shared.alone) {
    if constexpr (splits_model<R>)
      throw Error("fulgurite.pipeline.file",
                  file.string() + " is not written: this run has failed, and what other processes have trained of the "
                                  "model is out of reach. Go on from the last file");
    return speaks_for_all(run) ? write() : void();
  }
  constexpr char exists = 'e', fails = 'f';
  std::string failure;
  try {
    if (speaks_for_all(run)) write();
    else visit();
  } catch (RankEnded const&) { throw; } catch (FileExists const&) {
    if (!speaks_for_all(run)) throw;
    failure = exists;
  } catch (std::exception const& error) {
    if (!speaks_for_all(run)) throw;
    failure = fails + std::string(error.what());
  }
  failure = of_first_rank(run, std::move(failure));
  if (failure.empty()) return;
  if (failure.front() == exists) throw FileExists(file);
  run.shared.together = true;
  throw Error("fulgurite.distributed.file", "rank 0 could not write " + file.string() + ": " + failure.substr(1));
}

}  // namespace fulgurite::loop
