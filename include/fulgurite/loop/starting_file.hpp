#pragma once
// The file that a call begins with: looked for before setup, so that loggers know whose run goes on.

#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/found_checkpoints.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/whole_file.hpp>

namespace fulgurite::loop {

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
  template <bool ForFit, class Pack>
  void look(State<R>& run, Pack& pack) {
    if (file_ || (looked_ && !files_.files.empty())) return;
    looked_ = true;
    if (from_) {
      files_ = candidates(run, pack, *from_);
    } else if (ForFit && run.asked.options.fast_dev_run == 0) {
      look_for_rescued(run, pack);
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
  template <class Pack>
  bool tell_of_folders(Pack& pack) const {
    bool any = false;
    auto const* const callbacks = file_->state().find("callbacks");
    if (callbacks == nullptr) return any;
    each_remembering<typename RunFile::Saver>(pack, [&](auto& callback, std::string const& name) {
      using C = std::remove_reference_t<decltype(callback)>;
      if constexpr (hook::continue_in::accepts<C, std::filesystem::path const>) {
        auto const* const state = callbacks->find(name);
        auto const* const folder = state == nullptr ? nullptr : state->find("folder");
        if (folder == nullptr) return;
        if (auto const* const text = std::get_if<std::string>(&folder->value)) {
          callback.continue_in(*text);
          any = true;
        }
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
  template <class Pack>
  void look_for_rescued(State<R>& run, Pack& pack) {
    auto const search = checkpoint_search<typename R::Model>(pack, run.asked.options);
    files_ = {hpc_checkpoints<true>(pack, search), true};
    if (!files_.files.empty()) {
      run.warn_each("fulgurite.resume.after_requeue",
                    "the scheduler has started this run again; it goes on from " + files_.files.front().string());
      return;
    }
    files_ = {last_checkpoints<R, true>(pack, search), true};
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

  template <bool ForFit, class Run, class Pack>
  void look(Run&, Pack&) {}
  bool is_found() const { return true; }
  template <class Pack>
  bool tell_of_folders(Pack&) const {
    return false;
  }
  template <class Run>
  std::optional<From> take(Run&) {
    return from_;
  }

 private:
  From from_;
};

template <class R, class From>
using StartOf = std::conditional_t<is_snapshot<From>, StartingSnapshot<From>, StartingFile<R>>;

}  // namespace fulgurite::loop
