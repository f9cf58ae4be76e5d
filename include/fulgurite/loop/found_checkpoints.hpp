#pragma once
// The files that the word in a CkptPath may mean.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>
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
  bool searched = false;  ///< they were looked for in folders, where files of others may lie, too
};

/// The optimizer steps of the run whose state a file holds; -1 where it holds none, or cannot be read.
template <class R>
std::int64_t steps_in(std::filesystem::path const& path) {
  try {
    typename R::Backend::RunFile const file(path);
    auto const* const progress = file.state().find("progress");
    auto const* const steps = progress == nullptr ? nullptr : progress->find("global_step");
    if (steps != nullptr)
      if (auto const* const number = std::get_if<std::int64_t>(&steps->value)) return *number;
  } catch (Error const&) {}
  return -1;
}

/// By what callbacks search for files of this run.
CheckpointSearch search_of(RunCore const& run);

/// The files that "last" may mean, the newest first. A callback names its own by `last_checkpoints()`.
std::vector<std::filesystem::path> last_checkpoints(RunCore const& run, CheckpointSearch const& search,
                                                    bool of_those_that_resume,
                                                    std::int64_t (*steps_of)(std::filesystem::path const&));

/// The files that a call means by `from`.
template <class R>
Candidates candidates(State<R>& run, CkptPath const& from) {
  if (from.path() == "best") return {{best_checkpoint(run.callbacks)}};
  bool const hpc = from.path() == "hpc";
  if (from.path() != "last" && !hpc) return {{from.path()}};
  auto const search = search_of(run);
  return {hpc ? hpc_checkpoints(run.callbacks, search, false) : last_checkpoints(run, search, false, steps_in<R>),
          true};
}

// Opens the first of several checkpoints that serves its purpose.

/// The file was written by a trainer: it holds weights, and where in a run they were.
template <class File>
bool is_of_trainer(File const& file) {
  return file.state().find("progress") != nullptr;
}
/// A fit can go on from the file: it was not saved with save_weights_only.
template <class File>
bool holds_run(File const& file) {
  return file.state().find("optimizers") != nullptr;
}
/// A snapshot is taken of a whole run.
template <class R>
constexpr bool is_of_trainer(Snapshot<R> const&) {
  return true;
}

[[noreturn]] void refuse_weights_alone(std::string const& file);
/// Of a file that no trainer has written.
[[noreturn]] void refuse_weights_of_others(std::string const& file);

/// f(file, its path) for the first candidate that serves a fit or an evaluation. One that was named and serves no fit
/// is an Error. Of files that were searched for, one that is damaged or holds too little is passed over where another
/// is left, which is said; files of others do not count. Whether there was any. Error where all that there are are
/// damaged or hold weights alone.
template <class R, class F>
bool with_whole_file(State<R>& run, Candidates const& from, bool for_fit, F&& f) {
  using RunFile = typename R::Backend::RunFile;
  auto const& files = from.files;
  std::exception_ptr damaged;
  std::string weights;
  for (std::size_t i = 0; i != files.size(); ++i) {
    auto const name = files[i].string();
    auto const instead = i + 1 == files.size() ? "" : ", so the file before it is taken, " + files[i + 1].string();
    std::optional<RunFile> file;
    try {
      file.emplace(files[i]);
    } catch (Error const& error) {
      if (instead.empty()) throw;
      damaged = std::current_exception();
      run.warn_each("fulgurite.resume.damaged", name + " cannot be read" + instead + ": " + error.what());
      continue;
    }
    if (!from.searched && for_fit && !holds_run(*file)) {
      if (is_of_trainer(*file)) refuse_weights_alone(name);
      refuse_weights_of_others(name);
    }
    if (!from.searched || (for_fit ? holds_run(*file) : is_of_trainer(*file))) {
      f(std::move(*file), files[i]);
      return true;
    }
    if (is_of_trainer(*file)) weights = name;
    run.warn_each("fulgurite.resume.passed_over", name + " holds weights alone" + instead);
  }
  if (damaged) std::rethrow_exception(damaged);
  if (!weights.empty()) refuse_weights_alone(weights);
  return false;
}

/// In the place of a StartingFile where a program never goes on from one.
struct NoFile {
  explicit NoFile(Anew) {}
};

template <class R>
class StartingFile {
  using RunFile = typename R::Backend::RunFile;

 public:
  using File = RunFile;
  template <class From>
  explicit StartingFile(From const& from) : from_(path_of(from)) {}

  /// Before setup; again after it, where callbacks know of files only then.
  template <bool ForFit>
  void look(State<R>& run) {
    if (file_ || (looked_ && !files_.files.empty())) return;
    looked_ = true;
    if (from_) {
      files_ = candidates(run, *from_);
    } else if (ForFit && run.asked.options.fast_dev_run == 0) {
      look_for_rescued(run);
    }
    files_of_first_rank(run);
    with_whole_file(run, files_, ForFit, [&](RunFile file, std::filesystem::path const& path) {
      file_.emplace(std::move(file));
      path_ = path;
      if constexpr (ForFit)
        if (!files_.searched) run.made.held_files.begins_with(path);
    });
  }
  bool is_found() const { return file_.has_value(); }
  /// Where the file is, for messages.
  std::string name() const { return path_.string(); }

  /// Tells loggers which folder the run had: those that have `continue_in(folder)` and save a `folder`. Whether there
  /// was any.
  bool tell_of_folders(Callbacks callbacks) const {
    auto const* const states = file_->state().find("callbacks");
    bool any = false;
    if (states == nullptr) return any;
    each_remembering(callbacks, [&](AnyCallback const& callback, std::string const& name) {
      if (callback.table->continue_in == nullptr) return;
      auto const* const state = states->find(name);
      auto const* const folder = state == nullptr ? nullptr : state->find("folder");
      if (folder == nullptr) return;
      if (auto const* const text = std::get_if<std::string>(&folder->value)) {
        callback.table->continue_in(callback.object, *text);
        any = true;
      }
    });
    return any;
  }

  /// Nothing where there is none to begin with, which is said where one was asked for.
  std::optional<RunFile> take(State<R>& run) {
    if (!file_ && from_ && from_->path() == "hpc")
      throw Error("fulgurite.resume.no_hpc",
                  "CkptPath{\"hpc\"}: no callback of this trainer has left a file for a scheduler that starts the run "
                  "again: name a file, or leave it out");
    if (!file_ && from_)
      run.warn("fulgurite.resume.no_last",
               "CkptPath{\"last\"}: no callback of this trainer has left a file, so the run begins anew");
    return std::exchange(file_, std::nullopt);
  }

 private:
  /// Every rank reads the file that rank 0 has found.
  void files_of_first_rank([[maybe_unused]] State<R>& run) {
    if constexpr (shares<R>) {
      std::string names;
      for (auto const& file : files_.files) names.append(file.native()).push_back('\0');
      names = of_first_rank(run, std::move(names));
      files_.files.clear();
      for (std::size_t at = 0; at != names.size(); at = names.find('\0', at) + 1)
        files_.files.emplace_back(names.substr(at, names.find('\0', at) - at));
    }
  }

  /// For a call that names no file: a program that a scheduler has started again goes on from its file, and so does a
  /// fit that ended by an exception.
  void look_for_rescued(State<R>& run) {
    auto const search = search_of(run);
    files_ = {hpc_checkpoints(run.callbacks, search, true), true};
    if (!files_.files.empty()) {
      run.warn_each("fulgurite.resume.after_requeue",
                    "the scheduler has started this run again; it goes on from " + files_.files.front().string());
      return;
    }
    files_ = {last_checkpoints(run, search, true, steps_in<R>), true};
    if (!files_.files.empty())
      run.warn_each("fulgurite.resume.after_exception",
                    "the last fit ended by an exception; this one goes on from " + files_.files.front().string());
  }

  std::optional<CkptPath> from_;
  Candidates files_{};
  bool looked_ = false;
  std::optional<RunFile> file_{};
  std::filesystem::path path_{};
};

/// A snapshot in the place of a file: it is there, and loggers stay in the folder that they have.
template <class From>
class StartingSnapshot {
 public:
  using File = From;
  explicit StartingSnapshot(From const& from) : from_(from) {}
  static std::string name() { return "a snapshot"; }

  template <bool ForFit, class Run>
  void look(Run&) {}
  bool is_found() const { return true; }
  bool tell_of_folders(Callbacks) const { return false; }
  template <class Run>
  std::optional<From> take(Run&) {
    return from_;
  }

 private:
  From from_;
};

template <class R, class From>
using StartOf = std::conditional_t<is_snapshot<From>, StartingSnapshot<From>, StartingFile<R>>;

// The file whose weights an evaluation takes.

/// The weights of a file for an evaluation, and what the model and the data module keep beside them. Where one does not
/// fit, the others are put back. Counters and callbacks stay as they are.
template <class R, class Source, class From>
class EvaluatedFile {
 public:
  EvaluatedFile(State<R>& run, Source& source, From const& from) : run_(run), source_(source), start_(from) {}

  void find() { start_.template look<false>(run_); }
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

  /// Where the file and this call do not both have a data module that keeps something, such as means and categories,
  /// rows may be encoded otherwise than in training. Only the program knows; `kept` is the file's.
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
/// Of a call that names no file.
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
