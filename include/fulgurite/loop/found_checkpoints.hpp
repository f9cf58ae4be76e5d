#pragma once
// Finds the file that the word in a CkptPath means.

#include <cstddef>
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
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
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
bool is_of_trainer(ArchiveNode const& state);
/// True if a fit can resume from the file: it was not saved with save_weights_only.
bool holds_run(ArchiveNode const& state);
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

/// The file from which a call starts: the one that its CkptPath names or means; for a fit without one, the file that a
/// stopped run has left.
class StartingFile {
 public:
  StartingFile(std::optional<CkptPath> from, RunFiles const& format);
  StartingFile(StartingFile const&) = delete;
  ~StartingFile();

  /// Looks for the file. Called before setup, and again after it, since some callbacks know their files only then.
  /// Takes the first usable file. A named file that a fit cannot use is an Error. Among files that were searched for,
  /// damaged ones and those with too little are skipped with a warning while others are left; files of other programs
  /// do not count. Throws if all files are damaged or have only weights.
  void look(RunCore& run, bool for_fit);
  bool is_found() const { return file_ != nullptr; }
  /// The file's path, for messages.
  std::string name() const { return path_.string(); }
  /// Tells loggers which folder the run had: those that have `continue_in(folder)` and save a `folder`. Returns true if
  /// there was one.
  bool tell_of_folders(Callbacks callbacks) const;
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

/// Stands for a starting file in programs that never resume from one.
struct NoFile {
  explicit NoFile(Anew) {}
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
  bool tell_of_folders(Callbacks) const { return false; }
  std::shared_ptr<From const> take(RunCore&) { return std::make_shared<From const>(from_); }

 private:
  From from_;
};

template <class R, class From>
using StartOf = std::conditional_t<is_snapshot<From>, StartingSnapshot<From>, StartingRunFile<R>>;

// The file whose weights an evaluation loads.

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
      else if constexpr (Stateful<typename R::Model, typename R::Backend::RunFile::Saver>)
        run_.warn_each("fulgurite.resume.no_state",
                       "the file holds weights alone: what the model keeps beside them stays as it is");
    } catch (...) {
      before.put_back(model);
      throw;
    }
    run_.progress = progress;
    if constexpr (requires { file.state(); }) warn_of_data(file.state().find("data_module"));
  }

  /// Warns unless the file and this call both have a data module with a state (such as means and categories), or
  /// neither: inputs may be encoded differently than in training, which only the program can know. `kept`: the file's
  /// state of the module.
  template <class Node>
  void warn_of_data(Node const* kept) {
    if (kept == nullptr || kept->holds_nothing()) return keep_own_data_state(run_, source_);
    if constexpr (!loads_data_module<R, Source, typename R::Backend::RunFile::Saver>)
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
struct EvaluatedFile<R, Source, Anew> {
  EvaluatedFile(State<R>&, Source&, Anew) {}
  void find() {}
  void load() {}
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/found_checkpoints.ipp>
#endif
