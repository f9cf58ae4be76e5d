#pragma once
// Opens the first of several checkpoints that serves its purpose.

#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/found_checkpoints.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

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

[[noreturn]] inline void refuse_weights_alone(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights alone (was it saved with save_weights_only?), so no fit can go on from it: "
                     "load_weights(model, file) begins a new run with its weights");
}
/// Of a file that no trainer has written.
[[noreturn]] inline void refuse_weights_of_others(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights and nothing of a run (what Python's programs keep beside them is not read), so no "
                     "fit can go on from it: load_weights(model, file) before fit begins a new run with its weights, "
                     "and evaluations take it as it is");
}

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

}  // namespace fulgurite::loop
