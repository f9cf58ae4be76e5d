#pragma once
// How a fit resumes from a file or a snapshot: finds the file that the word in a CkptPath means, checks that it fits
// the program, and loads all of it or nothing.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/rehearsal.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/safe_points.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// Files to try, in this order.
struct Candidates {
  std::vector<std::filesystem::path> files = {};
  bool searched = false;  ///< the files were searched for in folders, which may contain files of other programs
};

/// Opens files in the format of the program's tensor library, for code that does not know the format.
struct RunFiles {
  std::shared_ptr<void const> (*open)(std::filesystem::path const&);
  ArchiveNode const& (*state)(void const* file);
};
template <class RunFile>
inline constexpr RunFiles run_files{
    [](std::filesystem::path const& path) -> std::shared_ptr<void const> {
      return std::make_shared<RunFile const>(path);
    },
    [](void const* file) -> ArchiveNode const& { return static_cast<RunFile const*>(file)->state(); }};

/// The optimizer steps of the run whose state a file holds; -1 if it holds none or cannot be read.
std::int64_t steps_in(RunFiles const& format, std::filesystem::path const& path);

/// True if a trainer wrote the file: it holds weights, and the progress of their run.
inline bool is_of_trainer(ArchiveNode const& state) { return state.find("progress") != nullptr; }
/// True if a fit can resume from the file: it was not saved with save_weights_only.
inline bool holds_run(ArchiveNode const& state) { return state.find("optimizers") != nullptr; }
/// False for weights from Python, which have no such state.
template <class File>
bool is_of_trainer(File const& file) {
  return is_of_trainer(file.state());
}
/// A snapshot always holds a whole run.
template <class R>
constexpr bool is_of_trainer(Snapshot<R> const&) {
  return true;
}

/// The file from which a call starts: that of its CkptPath; for a fit without one, what a stopped run has left.
class StartingFile : Pinned {
 public:
  StartingFile(std::optional<CkptPath> from, RunFiles const& format);
  ~StartingFile();

  /// Looks for the file. Called before setup, and again after it, since some callbacks know their files only then.
  /// Takes the first usable file. A named file that a fit cannot use is an Error. Among files that were searched for,
  /// damaged ones and those with too little are skipped with a warning while others are left; files of other programs
  /// do not count. Throws if all files are damaged or have only weights.
  void look(RunCore& run, bool for_fit);
  bool is_found() const { return file_ != nullptr; }
  /// The file's path, for messages.
  std::string name() const { return path_.string(); }
  /// Calls `continue_in(folder)` of loggers that save a `folder`: the run had that one. Returns true if there was one.
  bool pass_folders(Callbacks callbacks) const;
  /// Returns the file; null if there is none, with a warning if one was requested.
  std::shared_ptr<void const> take(RunCore& run);

 private:
  /// The files that the word of the call may mean.
  Candidates candidates(RunCore const& run, CkptPath const& from) const;
  /// For a fit that names no file: if a scheduler restarted the program, it resumes from the file left for that; a fit
  /// after an exception resumes from that exception's file.
  void look_for_rescued(RunCore& run);
  /// Makes every rank read the file that rank 0 has found.
  void files_of_first_rank(RunCore& run);
  void open_first_whole(RunCore& run, bool for_fit);
  ArchiveNode const& state() const;

  std::optional<CkptPath> from_;
  RunFiles const* format_;
  Candidates files_{};
  bool looked_ = false;
  std::shared_ptr<void const> file_ = nullptr;
  std::filesystem::path path_{};
};

/// StartingFile for a known format.
template <class R>
class StartingRunFile : public StartingFile {
 public:
  using File = typename R::Backend::RunFile;
  template <class From>
  explicit StartingRunFile(From const& from) : StartingFile(path_of(from), run_files<File>) {}
  std::shared_ptr<File const> take(RunCore& run) {
    return std::static_pointer_cast<File const>(StartingFile::take(run));
  }
};

/// A snapshot in place of a file. It always exists, and loggers keep their folders.
template <class From>
class StartingSnapshot {
 public:
  using File = From;
  explicit StartingSnapshot(From const& from) : from_(from) {}
  static std::string name() { return "a snapshot"; }

  void look(RunCore&, bool) {}
  bool is_found() const { return true; }
  bool pass_folders(Callbacks) const { return false; }
  std::shared_ptr<From const> take(RunCore&) { return std::make_shared<From const>(from_); }

 private:
  From from_;
};

template <class R, class From>
using StartOf = std::conditional_t<is_snapshot<From>, StartingSnapshot<From>, StartingRunFile<R>>;

/// Loads the weights of a file for an evaluation, with the state of the model and the data module. If a part does not
/// fit, the weights are restored. Counters and callbacks stay as they are.
template <class R, class Source, class From>
class EvaluatedFile {
 public:
  EvaluatedFile(State<R>& run, Source& source, From const& from) : run_(run), source_(source), start_(from) {}

  void find() { start_.look(run_, false); }
  void load() {
    find();
    if (auto const file = start_.take(run_)) load(*file);
  }

 private:
  template <class File>
  void load(File const& file) {
    auto& model = *run_.parts.model;
    auto const progress = run_.progress;
    KeptWeights<R> before;
    before.keep(model);
    file.load_weights(model);
    try {
      if (is_of_trainer(file))
        file.load([&](auto& archive) {
          fold_weights_state(run_, archive);
          fold_data_module<R>(source_, archive);
        });
      else if constexpr (Stateful<typename R::Model, StateSaver>)
        run_.warn_each("fulgurite.resume.no_state",
                       "the file holds weights alone: what the model keeps beside them stays as it is");
    } catch (...) {
      before.restore(model);
      throw;
    }
    run_.progress = progress;
    if constexpr (requires { file.state(); }) warn_of_data(file.state().find("data_module"));
  }

  /// Warns unless the file (its `kept`) and this call both have a data module with a state, such as means, or neither:
  /// inputs may be encoded differently than in training, which only the program can know.
  template <class Node>
  void warn_of_data(Node const* kept) {
    if (kept == nullptr || kept->holds_nothing()) return keep_own_data_state(run_, source_);
    if constexpr (!loads_data_module<R, Source>)
      run_.warn_each("fulgurite.resume.data_state",
                     "the file keeps what the data module of its run has learned, and this call has no data module "
                     "that loads it: pass the module, unless these inputs are already encoded as in training");
  }

  State<R>& run_;
  Source& source_;
  StartOf<R, From> start_;
};
/// For a call that names no file.
template <class R, class Source>
struct EvaluatedFile<R, Source, FromScratch> {
  EvaluatedFile(State<R>&, Source&, FromScratch) {}
  void find() {}
  void load() {}
};

// Checks before training that the program's loaders can continue where those of the file were.

/// Throws [fulgurite.resume.ranks]. Inside an epoch each rank has trained on its part of the batches so far; with other
/// parts of the rest, some samples would be used twice and others never.
[[noreturn]] void refuse_other_shares(long consumed, long then, long now);

/// Prints the line that says where training continues.
void print_start(RunCore const& run, std::string const& file);
/// Throws [fulgurite.resume.max_epochs] if the loaded run has more epochs than this one may have.
void refuse_more_epochs(RunCore const& run);
/// The error with a list of the parts that differ between program and file.
Error with_parts(Error const& error, std::string const& parts);
/// Warns if nothing more is trained, because of a limit or of a stop request in the file; returns true if so.
bool warn_if_finished(RunCore& run);

/// Throws if the file's epoch was distributed over a different number of ranks, or if the batch at which it resumes is
/// not one of the `batches` of training, if that number is known. `holds`: a stop of the file's run would end this one,
/// too, and its epoch stays as it is.
template <class R, class RunFile>
void refuse_unfit_data(State<R>& run, RunFile const& file, std::optional<long> batches, bool holds) {
  Progress progress;
  SafePoint point;
  bool stop = false;
  long const here_shared = shares_of_data(run);
  long shared = here_shared;
  file.load([&](auto& archive) {
    if (!lacks(archive, "progress")) archive.child("progress", progress);
    if (!lacks(archive, "point")) archive("point", point)("stop", stop);
    if (!lacks(archive, "shares_of_epoch")) archive("shares_of_epoch", shared);
  });
  auto const here = std::exchange(run.progress, progress);
  bool const stops_here = std::exchange(run.due.stop.holds, (stop && holds) || run.due.stop.holds);
  reopen_epoch(run, point);
  bool const asks = asks_for_batches(run, point);
  progress = std::exchange(run.progress, here);
  run.due.stop.holds = stops_here;
  if (!asks || progress.batch == 0) return;
  if (shared != here_shared) refuse_other_shares(progress.batch, shared, here_shared);
  if (batches && progress.batch >= *batches) refuse_short(progress.batch, *batches);
}

/// Checks that the saved state of the loaders can be loaded, then restores them, since hooks must run before that.
template <class R, class Source, class RunFile>
void try_loaders(State<R>& run, Source& source, RunFile const& file) {
  StateMemory before;
  auto const fold = [&](auto& archive) { fold_loaders(run, source, archive); };
  before.save(fold);
  file.load(fold);
  before.restore(fold);
}

/// Loads one file in three parts. Weights and the state of model, data module and callbacks are loaded before the
/// optimizers are made, and the optimizers' state before training starts. What hooks change in between is undone when
/// the first batch begins, and the random state continues as saved. A file that does not fit leaves everything
/// unchanged. `RunFile`: the source, which may be a snapshot in memory.
template <class R, class Pack, class Source, class RunFile>
class Resumption {
  /// True if loaders may change: a data module makes them after hooks have run, or a search sets another batch size.
  static constexpr bool loaders_change = any_searches<Pack> || requires(Source& source) { source.reload_training(); };

 public:
  Resumption(State<R>& run, Pack& pack, Source& source, std::shared_ptr<RunFile const> file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)), before_(run, source) {}

  /// Called after setup and configure_model. The model's parameters are overwritten in place.
  void load_model() {
    if constexpr (is_snapshot<RunFile> && data_has_state<R, Source>)
      if (!file_->left())
        throw Error(
            "fulgurite.resume.snapshot",
            "this fit has a loader or a data module that keeps its place by a state, and the snapshot was taken "
            "when no fit had ended with such: resume from a file, or take the snapshot after the fit");
    before_.keep_model();
    note([&] {  // what was trained when the optimizers of the file's run were made
      Switched made_with;
      load_own([&](auto& archive) { fold_switched("switches_when_made", made_with, archive); });
      resume_switches(run_, made_with);
    });
    note([&] { file_->load_weights(*run_.parts.model); });
    note([&] {
      file_->load([&](auto& archive) { fold_model(run_, source_, archive); });
      refuse_more_epochs(run_);
    });
    if (!problems_.empty()) before_.restore();
  }

  /// Called when the optimizers exist. Throws everything that does not fit in one Error. Loaders that were given to fit
  /// are also checked: `open()` prepares them, `count()` returns the number of training batches, if known.
  template <class OpenLoaders, class Count>
  void refuse_unfit([[maybe_unused]] OpenLoaders&& open, [[maybe_unused]] Count&& count) {
    before_.keep_training();
    if constexpr (!loaders_change)
      if (!run_.asked.options.limit_train_batches.none()) note([&] { refuse_unfit_data(run_, *file_, count(), true); });
    if constexpr (loaders_have_state<Source> && !loaders_change)
      note([&] {
        open();
        try_loaders(run_, source_, *file_);
      });
    if (problems_.empty()) return;
    note([&] { file_->load([&](auto& archive) { fold_training(run_, archive); }); });
    before_.restore();
    auto const all = all_of(problems_);
    report_difference(all);
    throw all;
  }

  /// Called after on_fit_start, when the optimizers exist. Also tries to load the random state, so that nearly all of
  /// the file is known to fit before training starts.
  void load_training() {
    // An optimizer that saves nothing would start from zero, and make other steps than the stopped run.
    if constexpr (!optimizers_resume<R>)
      throw Error("fulgurite.resume.optimizer",
                  "an optimizer has no state(archive), so the run cannot be resumed: give it one that saves its "
                  "moments");
    or_restore([&] {
      file_->load([&](auto& archive) {
        fold_model(run_, source_, archive);
        fold_training(run_, archive);
        auto random = R::Backend::rng_state();
        archive.child("random", random);
      });
    });
  }

  /// Called before on_train_start, when the loaders are final: checks that the file's state fits them and that they are
  /// long enough. `batches`: of training, if known; with several ranks it may be less than a loader has.
  void refuse_unfit_loaders(std::optional<long> batches) {
    or_restore([&] {
      refuse_unfit_data(run_, *file_, batches, false);  // load_training has found out which stop lasts
      if constexpr (loaders_have_state<Source> && loaders_change) try_loaders(run_, source_, *file_);
    });
  }

  /// Called after on_train_start, when the loaders exist: loads everything as it was saved. Then calls `find_place()`,
  /// which throws for a loader that is too short. If something fails, loaders and random state are unchanged.
  template <class FindPlace>
  void load_all(FindPlace&& find_place) {
    or_restore_place([&] {
      file_->load_weights(*run_.parts.model);
      file_->load_whole([&](auto& archive) {
        fold_assembly(run_, archive);
        fold_everything(run_, source_, archive);
      });
      if constexpr (!is_snapshot<RunFile>) take_own_part(run_, source_);  // each rank has its own snapshot
      reopened_ = reopen_epoch(run_);
      find_place();
    });
  }

  /// Called after load_all, when the training weights are in place: if the run resumes inside an epoch that had been
  /// cut short, undoes what hooks did at its end.
  void go_back_if_reopened() {
    if (reopened_) or_restore([&] { go_back_before_cut(run_, pack_); });
  }

  /// For a run that has nothing left to train: what hooks have frozen, or switched to eval mode.
  void load_switches() {
    or_restore([&] { load_own([&](auto& archive) { fold_switches(run_, archive); }); });
  }
  /// For such a run: its place in its data, of loaders only if they were requested; its random state; and what each
  /// rank has for itself. A file of it continues where this one does.
  void load_place() {
    or_restore_place([&] {
      file_->load([&](auto& archive) {
        fold_loader(run_, source_, archive);
        fold_parts_of_all(run_, archive);
        fold_random(run_, archive);
      });
      if constexpr (!is_snapshot<RunFile>) take_own_part(run_, source_);
    });
  }

 private:
  /// Loads what each rank of a split model has for itself, from rank 0's state for another number of ranks.
  template <class Fold>
  void load_own(Fold&& fold) {
    if constexpr (splits_model<R>) {
      file_->load([&](auto& archive) { fold_parts_of_all(run_, archive); });
      if (load_own_part(run_, fold)) return;
    }
    file_->load(fold);
  }

  /// Collects errors of parts that do not fit, to throw them together. Any other exception ends the fit at once.
  template <class Load>
  void note(Load&& load) {
    try {
      load();
    } catch (Error const& error) { problems_.push_back(error); } catch (...) {
      before_.restore();
      throw;
    }
  }
  template <class Load>
  void or_restore(Load&& load) {
    try {
      load();
    } catch (Error const& error) {
      before_.restore();
      report_difference(error);
      throw;
    } catch (...) {
      before_.restore();
      throw;
    }
  }

  /// Calls load(). If it fails, the run is as before, with its loaders and the random state.
  template <class Load>
  void or_restore_place(Load&& load) {
    auto const fold = [this](auto& archive) { fold_loader(run_, source_, archive); };
    auto random = R::Backend::rng_state();
    StateMemory loader;
    loader.save(fold);
    or_restore([&] {
      try {
        load();
      } catch (...) {
        loader.restore(fold);
        random.restore();
        throw;
      }
    });
  }

  /// Throws the error again with a list of the parts that differ between program and file; does nothing if none differ.
  void report_difference(Error const& error) {
    auto const fold = [&](auto& archive) { fold_assembly(run_, archive); };
    if constexpr (requires { file_->difference(*run_.parts.model, fold); }) {
      if (error.identifier().starts_with("fulgurite.resume.")) return;  // it is about limits or data, not parts
      auto const parts = file_->difference(*run_.parts.model, fold);
      if (parts.empty()) return;
      throw with_parts(error, parts);
    }
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  std::shared_ptr<RunFile const> file_;
  BeforeResuming<R, Source> before_;
  std::vector<Error> problems_{};
  bool reopened_ = false;
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/resumption.ipp>
#endif
