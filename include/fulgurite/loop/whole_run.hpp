#pragma once
// Everything that a file or a snapshot holds of a run besides the weights, as functions that save or load its parts.

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite {
namespace loop {

// What a file can hold of the data.

/// True if there is a data module with a state, and it is not the model itself.
template <class R, class Source, class Archive = StateSaver,
          class M = std::remove_cvref_t<decltype(std::declval<Source&>().module())>>
inline constexpr bool loads_data_module = Stateful<M, Archive> && !std::is_same_v<M, typename R::Model>;

/// True if the position of a loader can be restored: it has resume_at, saves its position, or has the same batches in
/// each pass. A view cannot declare anything itself.
template <class L>
inline constexpr bool loader_remembers =
    Jumps<L> || StoredBatches<L> || std::ranges::view<std::remove_const_t<L>> || Remembers<std::remove_const_t<L>>;
/// The same for one of several loaders in a loader, which begins each of them at a batch: a saved position is not
/// enough.
template <class L>
inline constexpr bool part_remembers = loader_remembers<L> && !KeepsPlace<L>;
/// True if all loaders in such a loader remember.
template <class Parts>
inline constexpr bool wrapped_remember = true;
template <class... Ls>
inline constexpr bool wrapped_remember<std::tuple<Ls...>> = (part_remembers<Ls> && ...);
template <WrapsLoaders L>
inline constexpr bool loader_remembers<L> =
    wrapped_remember<typename L::WrappedLoaders> || (!Jumps<L> && Remembers<std::remove_const_t<L>>);

FULGURITE_OF_ARGUMENTS(all_remember, std::tuple, loader_remembers<std::remove_reference_t<Ts>>&&...);
FULGURITE_OF_ARGUMENTS(any_keeps_place, std::tuple, KeepsPlace<std::remove_reference_t<Ts>> || ...);
FULGURITE_OF_ARGUMENTS(any_has_state, std::tuple, Stateful<std::remove_reference_t<Ts>, StateSaver> || ...);

/// True if the position of each loader of a fit can be restored.
template <class Source>
inline constexpr bool all_remember_place = all_remember<TrainingTypes<Source>> && all_remember<ValidationTypes<Source>>;

/// True if the training loader has a state, or a validation loader keeps its place by one.
template <class Source>
inline constexpr bool loaders_have_state =
    any_has_state<TrainingTypes<Source>> || any_keeps_place<ValidationTypes<Source>>;

/// True if the data have a state that a file holds besides the run's own.
template <class R, class Source>
inline constexpr bool data_has_state =
    loads_data_module<R, Source> || any_keeps_place<TrainingTypes<Source>> || any_keeps_place<ValidationTypes<Source>>;

// The data module, and how far the run is in its data. See docs/resume.md, Data.

template <class R, class Source, class Archive>
void fold_data_module(Source& source, Archive& archive) {
  if constexpr (loads_data_module<R, Source, Archive>)
    if (!lacks(archive, "data_module")) archive.child("data_module", source.module());
}

/// For a file that has no state of the data module. Warns if the module has one.
template <class R, class Source>
void keep_own_data_state(State<R>& run, Source& source) {
  if constexpr (loads_data_module<R, Source>) {
    StateMemory memory;
    memory.save([&](auto& archive) { source.module().state(archive); });
    if (memory.holds_nothing()) return;
    run.warn_each("fulgurite.resume.data_state",
                  "the file keeps nothing of a data module, so this one stays as it is: its means, categories or "
                  "classes may be others than those that the model was trained on");
  }
}

/// Stands for the data of a run between fits: the state that they had saved at the end of the last one, if any.
struct LeftData {
  static constexpr bool trains = false;
  template <class Hook>
  static constexpr bool evaluates = false;
  NoModule none{};
  NoModule& module() { return none; }
};
/// True if files have what is kept of the data: between fits, and from a fit's teardown on, which may drop them.
template <class Source>
bool are_left(RunCore const& run) {
  return std::is_same_v<Source, LeftData> || run.loading.torn_down;
}

/// The data module in a file of the run. If the program has no module, the file's entries of one count as unread; a
/// module that has saved nothing is not missed.
template <class R, class Source, class Archive>
void fold_data_module_of_file(State<R>& run, Source& source, Archive& archive) {
  if (add_before_validation(run, "data_module", archive)) return;
  if (are_left<Source>(run) && add_left(run, "data_module", archive)) return;
  fold_data_module<R>(source, archive);
  if constexpr (Archive::loading) {
    if (lacks(archive, "data_module")) keep_own_data_state(run, source);
    else if constexpr (!loads_data_module<R, Source, Archive>) archive.child("data_module", [](auto&) {});
  }
}

/// The validation loaders whose passes depend on their own state, by their positions. Loaders with resume_at start each
/// pass from its beginning: the loops call their set_epoch.
template <class R, class Source, class Archive>
void fold_validation_loaders([[maybe_unused]] State<R>& run, [[maybe_unused]] Source& source,
                             [[maybe_unused]] Archive& archive) {
  if constexpr (any_keeps_place<ValidationTypes<Source>>) {
    if (!run.loading.validation_is_open || lacks(archive, "val_loaders") ||
        add_before_validation(run, "val_loaders", archive))
      return;
    auto loaders = source.template evaluation<hook::val_dataloader>();
    archive.child("val_loaders", [&](auto& inner) {
      auto one = [&, i = 0](auto& loader) mutable {
        auto const name = std::to_string(i++);
        if constexpr (KeepsPlace<std::remove_reference_t<decltype(loader)>>)
          if (!lacks(inner, name)) inner.child(name, loader);
      };
      each_of(loaders, one);
    });
  }
}

/// The training loader, if it has a state and was requested, and the validation loaders. Inside an epoch the file must
/// have the position of a loader that has no other way to restore it.
template <class R, class Source, class Archive>
void fold_loaders(State<R>& run, Source& source, Archive& archive) {
  if (are_left<Source>(run)) {
    for (auto const* const part : {"train_loader", "val_loaders"}) add_left(run, part, archive);
    return;
  }
  if constexpr (Source::trains)
    if constexpr (Stateful<std::remove_reference_t<decltype(source.train())>, Archive>)
      if (run.loading.training_is_open &&
          ((KeepsPlace<std::remove_reference_t<decltype(source.train())>> && run.progress.is_inside_epoch()) ||
           !lacks(archive, "train_loader")))
        archive.child("train_loader", source.train());
  fold_validation_loaders(run, source, archive);
}

/// The position of the run in its data.
template <class R, class Source, class Archive>
void fold_loader(State<R>& run, Source& source, Archive& archive) {
  fold_loaders(run, source, archive);
  if (lacks(archive, "pass_random")) return;
  if constexpr (Archive::loading) run.carried.pass_random.emplace(R::Backend::rng_state());
  if (run.carried.pass_random) archive.child("pass_random", *run.carried.pass_random);
}

// Checkpoints of several ranks: all ranks take part in saving, rank 0 writes, and the file has each rank's own state.

/// State that differs between ranks: random numbers, the figures of the epoch so far, loaders that keep their position,
/// and what the other ranks have not received yet, such as gradients that were made by hand.
template <class R, class Source, class Archive>
void fold_own_part(State<R>& run, Source& source, Archive& archive) {
  auto& shared = run.shared;
  bool requests = run.due.stop.waits && !run.due.stop.by_time && (!run.before_cut || run.due.stop_before_cut.asked);
  archive("wishes_stop", requests)("not_finite", shared.not_finite)("validates", shared.validates);
  if (!lacks(archive, "left_out")) archive("left_out", run.progress.left_out);
  archive.child("epoch_so_far", run.measured.train_board).child("epoch_cut_short", run.measured.cut_short);
  fold_loader(run, source, archive);
  if constexpr (splits_model<R>) fold_switches(run, archive);  // each rank trains stages of its own
  if constexpr (!R::automatic) {
    if constexpr (Archive::loading) shared.own_gradients = 0;
    if (!lacks(archive, "own_gradients")) archive("own_gradients", shared.own_gradients);
    fold_all_gradients(run, shared.own_gradients, archive);
  }
  fold_own_cut(run, archive);
  fold_random(run, archive);
  if constexpr (Archive::loading) run.due.stop.waits = requests;
}

/// The rank whose shared figures count for all: with a split model the last rank, on which steps end; else rank 0.
template <class R>
int owner_of(State<R> const& run) {
  return splits_model<R> ? run.parts.strategy.world() - 1 : 0;
}

/// For its lifetime, a board of an open epoch has the figures and counts of all ranks instead of this rank's: after
/// `figures` were shared and `merge_counts` was called. Every rank must make and destroy it.
template <class R>
class BoardOfAll : Pinned {
  using Board = typename State<R>::Board;

 public:
  BoardOfAll(State<R>& run, Board& board, std::vector<Figures*>& figures) : board_(board) {
    int const owner = owner_of(run);
    for (std::size_t i = 0; i != figures_.size(); ++i) {
      auto& cell = board[i];
      figures_[i] = cell.epoch;
      if (cell.shared && run.parts.strategy.rank() != owner) cell.epoch = {};  // only one rank may add it
      figures.push_back(&cell.epoch);
    }
    counts_ = board.counts;
  }
  ~BoardOfAll() {
    for (std::size_t i = 0; i != figures_.size(); ++i) board_[i].epoch = figures_[i];
    board_.counts = counts_;
  }

  /// Called on the rank that writes. `name`: the board's name in the saved state of each rank.
  void merge_counts([[maybe_unused]] State<R>& run, [[maybe_unused]] std::string_view name) {
    if constexpr (Board::Counts::any) {
      if (!speaks_for_all(run)) return;
      board_.counts.restart();
      auto const& parts = run.shared.parts;
      for (std::size_t rank = splits_model<R> ? parts.size() - 1 : 0; rank != parts.size(); ++rank) {
        StateMemory saved;
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

/// For its lifetime, the file that is being written has the states of all ranks. In place of this rank's figures it has
/// those of all ranks, from which a different number of ranks can resume. Every rank must make and destroy it.
template <class R, class Source>
class PartsOfAll : Pinned {
 public:
  PartsOfAll(State<R>& run, Source& source) : run_(run) {
    if (run.shared.alone) return;
    if constexpr (splits_model<R>) bring_model_together();
    if (run.point.accumulating) exchange_open_window();
    StateMemory mine;
    mine.save([&](auto& archive) { fold_own_part(run, source, archive); });
    run.shared.parts = run.parts.strategy.gather(mine.text());
    std::vector<Figures*> figures;
    so_far_.emplace(run, run.measured.train_board, figures);
    cut_short_.emplace(run, run.measured.cut_short, figures);
    share(run, figures);
    so_far_->merge_counts(run, "epoch_so_far");
    cut_short_->merge_counts(run, "epoch_cut_short");
  }
  ~PartsOfAll() {
    if (!run_.shared.alone) run_.shared.parts.clear();
  }

 private:
  /// Gathers the weights of all stages. The model's other state is that of the last rank, on which steps end.
  void bring_model_together() {
    auto& strategy = run_.parts.strategy;
    strategy.gather(*run_.parts.model, run_.parts.optimizers->optimizers);
    if constexpr (Stateful<typename R::Model, StateSaver>) {
      StateMemory kept;
      auto const fold = [&](auto& archive) { archive.child("model", *run_.parts.model); };
      int const last = strategy.world() - 1;
      if (strategy.rank() == last) kept.save(fold);
      auto const text = strategy.broadcast(strategy.rank() == last ? kept.text() : std::string(), last);
      if (strategy.rank() == last) return;
      kept.read(text);
      kept.load(fold);
    }
  }
  /// Replaces the gradients of an open window by their mean over the ranks that have some; this run and one that
  /// resumes from the file both continue with it. A rank whose loader has left out all batches of the window so far has
  /// old gradients: they are cleared, and the rank continues with the mean of the others as if it had had a batch.
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

/// For the lifetime of the result, rank 0 has the complete state of the optimizers, if each rank keeps a part. Every
/// rank must call this, after PartsOfAll and before anything that one of them can fail at. Throws
/// [fulgurite.distributed.state_in_parts] if the other ranks cannot be reached: a file with one part would be the
/// newest, and no run could resume from it.
template <class R>
auto whole_state(State<R>& run, bool needed) {
  auto& strategy = run.parts.strategy;
  if constexpr (hook::of_strategy::whole_state::named<typename R::Strategy>) {
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

/// The states of all ranks, in a file of several ranks. A program with one process skips them.
template <class R, class Archive>
void fold_parts_of_all([[maybe_unused]] State<R>& run, Archive& archive) {
  if constexpr (shares<R>) {
    if (!lacks(archive, "ranks")) archive("ranks", run.shared.parts);
  } else if constexpr (Archive::loading) {
    std::vector<std::string> others;
    if (archive.has("ranks")) archive("ranks", others);
  }
}

/// After loading: restores this rank's own state by `fold`. Returns false if the file is from a different number of
/// ranks.
template <class R, class Fold>
bool load_own_part(State<R>& run, Fold&& fold) {
  auto const parts = std::exchange(run.shared.parts, {});
  if (parts.size() != static_cast<std::size_t>(run.parts.strategy.world())) return false;
  StateMemory mine;
  mine.read(parts[static_cast<std::size_t>(run.parts.strategy.rank())]);
  mine.load(fold);
  return true;
}
/// After loading: restores all of this rank's own state. If the file is from a different number of ranks, it has none
/// for this rank: then one rank gets the figures and counts of the epoch so far, and all ranks use the random state of
/// rank 0.
template <class R, class Source>
void take_own_part([[maybe_unused]] State<R>& run, [[maybe_unused]] Source& source) {
  if constexpr (shares<R>) {
    if (!load_own_part(run, [&](auto& archive) { fold_own_part(run, source, archive); }) &&
        run.parts.strategy.rank() != owner_of(run)) {
      for (auto* const board : {&run.measured.train_board, &run.measured.cut_short}) {
        for (std::size_t i = 0; i != State<R>::metrics; ++i) (*board)[i].epoch = {};
        if constexpr (State<R>::Board::Counts::any) board->counts.restart();
      }
    }
  }
}

/// Calls `write()` on rank 0 and `visit()` on the other ranks. A failure on rank 0 throws [fulgurite.distributed.file]
/// on all of them, and an existing file throws FileExists on all of them.
template <class R, class Write, class Visit>
void write_together(State<R>& run, std::filesystem::path const& file, Write&& write, Visit&& visit) {
  if (run.shared.alone) {
    if constexpr (splits_model<R>)
      if (run.parts.strategy.world() != 1)
        throw Error("fulgurite.pipeline.file",
                    file.string() + " is not written: this run has failed, and what other processes have trained of "
                                    "the model is out of reach. Resume from the last file");
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

/// State that exists before the optimizers are made: progress, the model's own state, the data module, policies and
/// callbacks.
template <class R, class Source, class Archive>
void fold_model(State<R>& run, Source& source, Archive& archive) {
  fold_weights_state(run, archive);
  fold_data_module_of_file(run, source, archive);
  fold_parts(run, archive);
}

/// The whole state. `source` has the training loader, which gives its position; the current random state is included.
template <class R, class Source, class Archive>
void fold_everything(State<R>& run, Source& source, Archive& archive) {
  fold_model(run, source, archive);
  fold_optimizers(run, archive);
  fold_switches(run, archive);
  fold_loader(run, source, archive);
  fold_kept_cut(run, archive);
  fold_run(run, archive);
  fold_parts_of_all(run, archive);
  fold_random(run, archive);
  if constexpr (Archive::loading) warn_of_options(run, differences(archive));
}

// Copies of a model's weights and buffers, and what is switched off in it, for restoring.

/// R: the key of a run.
template <class R>
class KeptWeights {
  using Backend = typename R::Backend;
  using Values = std::vector<typename Backend::Value>;

 public:
  void keep(typename R::Model& model) {
    weights_ = Backend::clones(Backend::weights(model));
    buffers_ = Backend::clones(Backend::buffers(model));
    if constexpr (has_switches<R>) off_ = Backend::switches(model);
  }
  /// Also keeps the names, so that `difference` recognizes a model with other tensors.
  void keep_named(typename R::Model& model) {
    keep(model);
    names_ = Backend::weight_names(model);
  }
  /// Describes the first difference between the model and the kept one; empty if they fit.
  std::string difference(typename R::Model& model) const {
    auto const names = Backend::weight_names(model);
    for (std::size_t i = 0; i != names.size() && i != names_.size(); ++i)
      if (names[i] != names_[i]) return "it has '" + names[i] + "' where '" + names_[i] + "' was";
    auto const weights = difference("weights", Backend::weights(model), weights_);
    return weights.empty() ? difference("buffers", Backend::buffers(model), buffers_) : weights;
  }
  void restore(typename R::Model& model) const {
    restore_values(model);
    if constexpr (has_switches<R>) Backend::set_switches(model, off_);
  }
  /// Copies the values into the model's current tensors.
  void restore_values(typename R::Model& model) const {
    copy(Backend::weights(model), weights_);
    copy(Backend::buffers(model), buffers_);
  }

 private:
  static std::string difference(std::string const& what, Values const& now, Values const& kept) {
    if (now.size() != kept.size())
      return std::to_string(now.size()) + " " + what + " where there were " + std::to_string(kept.size());
    for (std::size_t i = 0; i != now.size(); ++i) {
      auto const is = Backend::saved(now[i]), was = Backend::saved(kept[i]);
      if (is.dtype() != was.dtype() || is.shape() != was.shape())
        return "number " + std::to_string(i) + " of the " + what + " is " + is.description() + " and was " +
               was.description();
    }
    return {};
  }
  static void copy(Values const& to, Values const& from) {
    auto const both = std::min(to.size(), from.size());
    Backend::copy_into(std::span(to).first(both), std::span(from).first(both));
  }

  Values weights_{}, buffers_{};
  Switches off_{};
  std::vector<std::string> names_{};  ///< names of weights and buffers
};

// The state of a run before a file is loaded into it, to be restored if something in the file does not fit.

/// State that exists after the optimizers are made. An optimizer that declares that it needs no state has none in a
/// file.
template <class R, class Archive>
void fold_training(State<R>& run, Archive& archive) {
  if constexpr (optimizers_resume<R>) fold_optimizers(run, archive);
  fold_kept_cut(run, archive);
  fold_run(run, archive);
}

/// Kept in two parts, in the order in which a file is loaded: the model at the end of setup, the training state once
/// there are optimizers.
template <class R, class Source>
class BeforeResuming : Pinned {
 public:
  BeforeResuming(State<R>& run, Source& source) : run_(run), source_(source) {}

  void keep_model() {
    outcome_ = run_.made.outcome;
    note_switches(run_, true);
    switches_ = run_.switches.history;
    weights_.keep(*run_.parts.model);
    model_.save([&](auto& archive) { fold_model(run_, source_, archive); });
  }
  void keep_training() {
    training_.emplace().save([&](auto& archive) { fold_training(run_, archive); });
  }
  /// Restores as much as was kept.
  void restore() {
    weights_.restore(*run_.parts.model);
    model_.restore([&](auto& archive) { fold_model(run_, source_, archive); });
    if (training_) training_->restore([&](auto& archive) { fold_training(run_, archive); });
    run_.made.outcome = outcome_;
    run_.switches.history = switches_;
    run_.loading.half_loaded = false;
  }

 private:
  State<R>& run_;
  Source& source_;
  KeptWeights<R> weights_{};
  StateMemory model_{};
  std::optional<StateMemory> training_{};
  Outcome outcome_{};
  SwitchHistory switches_{};
};

}  // namespace loop

/// The result of snapshot(trainer): everything that a checkpoint file written at this moment would hold. R: the key of
/// its run. Copies share their content, which never changes. Tensors stay on their devices; those that are adjacent in
/// memory are kept as one.
template <class R>
class Snapshot {
 public:
  using Run = R;

  /// The saved state of the loaders and the data module of a finished fit.
  using Left = std::optional<StateMemory>;

  /// `fold(archive)` saves everything except the weights.
  template <class Fold>
  Snapshot(typename R::Model& model, Fold&& fold, Left left = std::nullopt, SwitchHistory switches = {}) {
    auto kept = std::make_shared<Kept>();
    kept->left = std::move(left);
    kept->switches = std::move(switches);
    kept->weights.keep_named(model);
    kept->state.save(fold);
    kept_ = std::move(kept);
  }

  /// Throws [fulgurite.resume.snapshot] if the model is built differently from the one that was kept.
  void require_like(typename R::Model& model) const {
    if (auto const other = kept_->weights.difference(model); !other.empty())
      throw Error("fulgurite.resume.snapshot", "the snapshot is of a model that was built differently: " + other +
                                                   "; restore it into a model like "
                                                   "the one that it was taken of");
  }
  /// Loads weights and buffers into a model that is built like the one that was kept. Otherwise throws
  /// [fulgurite.resume.snapshot], and the model is unchanged.
  void load_weights(typename R::Model& model) const {
    require_like(model);
    kept_->weights.restore_values(model);
  }
  SwitchHistory const& switches() const { return kept_->switches; }
  /// Loads all of the state that fold(archive) visits, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    kept_->state.load(fold);
  }
  template <class Fold>
  void load_whole(Fold&& fold) const {
    load(fold);
  }
  Left const& left() const { return kept_->left; }

  /// Restores the run from which it was taken. Its parts must be the same as then: nothing is compared, and a failure
  /// is not undone.
  template <class Fold>
  void restore(typename R::Model& model, Fold&& fold) const {
    kept_->weights.restore(model);
    kept_->state.restore(fold);
  }

 private:
  struct Kept {
    loop::KeptWeights<R> weights{};
    StateMemory state{};
    Left left{};
    SwitchHistory switches{};
  };
  std::shared_ptr<Kept const> kept_;
};

namespace loop {

template <class R>
void between_fits(State<R> const& run, std::string const& what) {
  refuse_open(run, what);
  if (!run.parts.fitted || !run.parts.optimizers)
    throw Error("fulgurite.trainer.nothing_to_save", what + ": there is no run yet, so call fit first");
}

/// What a file would hold now, in memory. Weights and callbacks are kept as they are: before_save is not called.
template <class R>
Snapshot<R> take_snapshot(State<R>& run) {
  between_fits(run, "snapshot(trainer)");
  refuse_half_loaded(run, "snapshot(trainer)");
  Instead const fitted(run.parts.model, run.parts.fitted);
  note_switches(run, true);
  LeftData data;
  return Snapshot<R>(
      *run.parts.model, [&](auto& archive) { fold_everything(run, data, archive); }, run.left, run.switches.history);
}

/// Restores everything from a snapshot. If it does not fit, nothing changes.
template <class R>
void restore_snapshot(State<R>& run, Snapshot<R> const& from) {
  between_fits(run, "restore(trainer, snapshot)");
  Instead const fitted(run.parts.model, run.parts.fitted);
  LeftData data;
  from.require_like(*run.parts.model);
  from.load([&](auto& archive) { fold_everything(run, data, archive); });
  from.load_weights(*run.parts.model);
  restore_switches(run, from.switches());
  run.left = from.left();
  run.loading.half_loaded = false;
}

}  // namespace loop

/// Copies in memory what a checkpoint file of a trainer would hold now: weights, buffers, optimizers, schedules,
/// callbacks, counters, random numbers, and what the loaders and the data module of the last fit had saved at its end.
/// Call it between fits; inside a fit use ctx.request_checkpoint. It needs as much memory as the model and its
/// optimizers, on their devices.
///
///     auto const before = snapshot(trainer);
///     trainer.fit(net, other_data);
///     restore(trainer, before);         // the last fit's model and the trainer are as before; data are not
///     trainer.fit(net, data, before);   // resumes as from a file: with raised limits it trains further
///
/// Throws [fulgurite.trainer.nothing_to_save] before the first fit, and [fulgurite.trainer.open_fit] inside a fit.
template <class Trainer>
auto snapshot(Trainer& trainer) {
  return trainer.snapshot();
}

/// Restores a trainer, and the model of its last fit, from a snapshot of a trainer with the same model and policies. If
/// the snapshot does not fit, it throws and nothing changes. Loaders and data modules stay as they are: a trainer
/// borrows them for one call, and they may no longer exist. `fit(net, data, snapshot)` restores those that it is given.
template <class Trainer, class From>
  requires requires(Trainer& trainer, From const& from) { trainer.restore(from); }
void restore(Trainer& trainer, From const& from) {
  trainer.restore(from);
}

}  // namespace fulgurite
