#pragma once
// The bodies of loop/resumption.hpp.

#include <cstdio>
#include <exception>
#include <variant>

#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/resumption.hpp>

namespace fulgurite::loop {

FULGURITE_BODY CheckpointSearch search_of(RunCore const& run) {
  return checkpoint_search(run.callbacks, run.asked.options, run.program->model_name);
}

/// The files that "last" may mean, newest first. Callbacks list them by `last_checkpoints()`.
FULGURITE_BODY std::vector<std::filesystem::path>
last_first(RunCore const& run, RunFiles const& format, CheckpointSearch const& search, bool of_those_that_resume) {
  return newest_first(last_checkpoints(run.callbacks, search, of_those_that_resume),
                      [&](std::filesystem::path const& file) { return steps_in(format, file); });
}

[[noreturn]] FULGURITE_BODY void refuse_weights_alone(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights alone (was it saved with save_weights_only?), so no fit can resume from it: "
                     "load_weights(model, file) begins a new run with its weights");
}

/// For a file that was not written by a trainer.
[[noreturn]] FULGURITE_BODY void refuse_weights_of_others(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights and nothing of a run (what Python's programs keep beside them is not read), so no "
                     "fit can resume from it: load_weights(model, file) before fit begins a new run with its weights, "
                     "and evaluations take it as it is");
}

FULGURITE_BODY std::int64_t steps_in(RunFiles const& format, std::filesystem::path const& path) {
  try {
    auto const file = format.open(path);
    auto const* const progress = format.state(file.get()).find("progress");
    auto const* const steps = progress == nullptr ? nullptr : progress->find("global_step");
    if (steps != nullptr)
      if (auto const* const number = std::get_if<std::int64_t>(&steps->value)) return *number;
  } catch (Error const&) {}
  return -1;
}

FULGURITE_BODY StartingFile::StartingFile(std::optional<CkptPath> from, RunFiles const& format)
    : from_(std::move(from)), format_(&format) {}

FULGURITE_BULK_BODY StartingFile::~StartingFile() = default;

FULGURITE_BODY void StartingFile::look(RunCore& run, bool for_fit) {
  if (file_ || (looked_ && !files_.files.empty())) return;
  looked_ = true;
  if (from_) files_ = candidates(run, *from_);
  else if (for_fit && run.asked.options.fast_dev_run == 0) look_for_rescued(run);
  files_of_first_rank(run);
  open_first_whole(run, for_fit);
  if (file_ && for_fit && !files_.searched) run.made.held_files.begins_with(path_);
}

FULGURITE_BODY bool StartingFile::pass_folders(Callbacks callbacks) const {
  auto const* const states = state().find("callbacks");
  bool any = false;
  if (states == nullptr) return any;
  each_remembering(callbacks, [&](AnyCallback const& callback, std::string const& name) {
    if (callback.table->continue_in == nullptr) return;
    auto const* const kept = states->find(name);
    auto const* const folder = kept == nullptr ? nullptr : kept->find("folder");
    if (folder == nullptr) return;
    if (auto const* const text = std::get_if<std::string>(&folder->value)) {
      callback.table->continue_in(callback.object, *text);
      any = true;
    }
  });
  return any;
}

FULGURITE_BODY std::shared_ptr<void const> StartingFile::take(RunCore& run) {
  if (!file_ && from_ && from_->path() == "hpc")
    throw Error("fulgurite.resume.no_hpc",
                "CkptPath{\"hpc\"}: no callback of this trainer has left a file for a scheduler that starts the run "
                "again: name a file, or leave it out");
  if (!file_ && from_)
    run.warn("fulgurite.resume.no_last",
             "CkptPath{\"last\"}: no callback of this trainer has left a file, so the run starts from the beginning");
  return std::exchange(file_, nullptr);
}

FULGURITE_BODY Candidates StartingFile::candidates(RunCore const& run, CkptPath const& from) const {
  if (from.path() == "best") return {{best_checkpoint(run.callbacks)}};
  bool const hpc = from.path() == "hpc";
  if (from.path() != "last" && !hpc) return {{from.path()}};
  auto const search = search_of(run);
  return {hpc ? hpc_checkpoints(run.callbacks, search, false) : last_first(run, *format_, search, false), true};
}

FULGURITE_BODY void StartingFile::look_for_rescued(RunCore& run) {
  auto const search = search_of(run);
  files_ = {hpc_checkpoints(run.callbacks, search, true), true};
  if (!files_.files.empty()) {
    run.warn_each("fulgurite.resume.after_requeue",
                  "the scheduler has started this run again; it resumes from " + files_.files.front().string());
    return;
  }
  files_ = {last_first(run, *format_, search, true), true};
  if (!files_.files.empty())
    run.warn_each("fulgurite.resume.after_exception",
                  "the last fit was interrupted or ended by an exception; this one resumes from " +
                      files_.files.front().string());
}

FULGURITE_BODY void StartingFile::files_of_first_rank(RunCore& run) {
  if (!run.program->is_distributed) return;
  std::string names;
  for (auto const& file : files_.files) names.append(file.native()).push_back('\0');
  names = run.of_first_rank(std::move(names));
  files_.files.clear();
  for (std::size_t at = 0; at != names.size(); at = names.find('\0', at) + 1)
    files_.files.emplace_back(names.substr(at, names.find('\0', at) - at));
}

FULGURITE_BODY void StartingFile::open_first_whole(RunCore& run, bool for_fit) {
  auto const& files = files_.files;
  std::exception_ptr damaged;
  std::string weights;
  for (std::size_t i = 0; i != files.size(); ++i) {
    auto const name = files[i].string();
    auto const instead = i + 1 == files.size() ? "" : ", so the file before it is taken, " + files[i + 1].string();
    std::shared_ptr<void const> file;
    try {
      file = format_->open(files[i]);
    } catch (Error const& error) {
      if (instead.empty()) throw;
      damaged = std::current_exception();
      run.warn_each("fulgurite.resume.damaged", name + " cannot be read" + instead + ": " + error.what());
      continue;
    }
    auto const& state = format_->state(file.get());
    if (!files_.searched && for_fit && !holds_run(state)) {
      if (is_of_trainer(state)) refuse_weights_alone(name);
      refuse_weights_of_others(name);
    }
    if (!files_.searched || (for_fit ? holds_run(state) : is_of_trainer(state))) {
      file_ = std::move(file);
      path_ = files[i];
      return;
    }
    if (is_of_trainer(state)) weights = name;
    run.warn_each("fulgurite.resume.passed_over", name + " holds weights alone" + instead);
  }
  if (damaged) std::rethrow_exception(damaged);
  if (!weights.empty()) refuse_weights_alone(weights);
}

FULGURITE_BODY ArchiveNode const& StartingFile::state() const { return format_->state(file_.get()); }

FULGURITE_BULK_BODY void refuse_other_shares(long consumed, long then, long now) {
  throw Error("fulgurite.resume.ranks", "the run stopped after " + std::to_string(consumed) +
                                            " batches of an epoch that " + std::to_string(then) +
                                            (then == 1 ? " process" : " processes") + " shared, and there " +
                                            (now == 1 ? "is " : "are ") + std::to_string(now) +
                                            " now: resume with as many, or from a checkpoint written between epochs");
}

FULGURITE_BODY void print_start(RunCore const& run, std::string const& file) {
  auto const& at = run.progress;
  if (run.asked.options.barebones) return;
  fulgurite::print_lines(stderr, "resumes from " + file + ": epoch " + std::to_string(at.epoch) +
                                     (at.batch == 0 ? "" : ", batch " + std::to_string(at.batch)) + ", step " +
                                     std::to_string(at.global_step) + "\n");
}

FULGURITE_BODY void refuse_more_epochs(RunCore const& run) {
  auto const& most = run.asked.options.max_epochs;
  if (most && *most >= 0 && run.progress.epoch > *most)
    throw Error("fulgurite.resume.max_epochs", "the file is of a run of " + std::to_string(run.progress.epoch) +
                                                   " epochs, and max_epochs = " + std::to_string(*most) +
                                                   ": raise it, or take an earlier file");
}

FULGURITE_BODY Error with_parts(Error const& error, std::string const& parts) {
  auto const said = std::string(error.what()).substr(error.identifier().size() + 3);
  return Error(error.identifier(), parts + ". What does not fit: " + said);
}

FULGURITE_BODY bool warn_if_finished(RunCore& run) {
  auto const& due = run.due;
  bool const stopped = stops(run) && (due.stop_of_file || due.stop.by_time);
  bool const ended = steps_exhausted(run) || epochs_exhausted(run) || stopped;
  if (ended)
    run.warn("fulgurite.resume.finished", "the resumed run had ended by " + end_reason(run) +
                                              ", so nothing more is trained: change max_epochs, max_steps or max_time "
                                              "to continue it");
  return ended;
}

}  // namespace fulgurite::loop
