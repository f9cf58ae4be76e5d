#pragma once
// The bodies of loop/resumption.hpp.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <system_error>
#include <tuple>
#include <variant>

#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/resumption.hpp>

namespace fulgurite::loop {

/// Where to search for files. The loggers list the folders of their runs by `earlier_runs(options)`.
FULGURITE_BODY CheckpointSearch search_of(RunCore const& run) {
  auto const& options = run.asked.options;
  CheckpointSearch search{options.default_root_dir.path(), std::string(run.program->model_name)};
  for (auto const& [callback, table, given] : run.callbacks) {
    if (table->knows_runs && !search.runs) search.runs.emplace();
    if (table->earlier_runs != nullptr)
      for (auto& folder : table->earlier_runs(callback, options)) search.runs->push_back(std::move(folder));
  }
  return search;
}

/// The best file of the first callback that has one. Throws [fulgurite.resume.no_best] if there is none.
FULGURITE_BODY std::filesystem::path best_checkpoint(Callbacks callbacks) {
  std::filesystem::path best;
  bool asked = false;
  for (auto const& [callback, table, given] : callbacks) {
    if (table->best_model_path == nullptr) continue;
    asked = true;
    if (best.empty()) best = table->best_model_path(callback);
  }
  if (best.empty())
    throw Error("fulgurite.resume.no_best",
                asked
                    ? "CkptPath{\"best\"}: no best file was written yet; name a file, or call fit first"
                    : "CkptPath{\"best\"} asks a ModelCheckpoint, and this trainer has none: name a file, or add one");
  return best;
}

/// The files, newest first, each file once even if it has several names. If the file system's clock gives two files the
/// same time, the file of more steps counts as newer. Names do not decide, since "epoch=9" would come after "epoch=10".
FULGURITE_BODY std::vector<std::filesystem::path> newest_first(std::vector<std::filesystem::path> const& files,
                                                               RunFiles const& format) {
  namespace fs = std::filesystem;
  struct Found {
    fs::file_time_type written;
    fs::path file;
    std::int64_t steps = -1;
  };
  std::vector<Found> found;
  for (auto const& file : files) {
    std::error_code missing;
    auto const written = fs::last_write_time(file, missing);
    if (!missing) found.push_back({written, file});
  }
  sort_seldom(found,
              [](Found const& a, Found const& b) { return std::tie(a.written, a.file) > std::tie(b.written, b.file); });
  auto const same = [](Found const& a, Found const& b) {
    std::error_code unknown;
    return a.file == b.file || (a.written == b.written && fs::equivalent(a.file, b.file, unknown));
  };
  std::vector<fs::path> ordered;
  for (auto from = found.begin(); from != found.end();) {
    auto const to = std::find_if(from, found.end(), [&](Found const& one) { return one.written != from->written; });
    std::vector<Found> equal;
    for (; from != to; ++from)
      if (std::ranges::none_of(equal, [&](Found const& one) { return same(one, *from); })) equal.push_back(*from);
    if (equal.size() > 1)
      for (auto& one : equal) one.steps = steps_in(format, one.file);
    sort_seldom(equal,
                [](Found const& a, Found const& b) { return std::tie(a.steps, a.file) > std::tie(b.steps, b.file); });
    for (auto& one : equal) ordered.push_back(std::move(one.file));
  }
  return ordered;
}

/// The files that "last" may mean, newest first. Callbacks list them by `last_checkpoints()`. `of_those_that_resume`:
/// only of callbacks from whose files a fit resumes by default.
FULGURITE_BODY std::vector<std::filesystem::path>
last_first(RunCore const& run, RunFiles const& format, CheckpointSearch const& search, bool of_those_that_resume) {
  std::vector<std::filesystem::path> files;
  for (auto const& [callback, table, given] : run.callbacks)
    if (table->last_checkpoints != nullptr && (!of_those_that_resume || table->resumes_fit))
      for (auto& file : table->last_checkpoints(callback, search)) files.push_back(std::move(file));
  return newest_first(files, format);
}

/// The number in the name of a file that was written on a scheduler's signal: 12 in hpc_ckpt_12.safetensors; else -1.
FULGURITE_BODY long number_of(std::filesystem::path const& file) {
  auto const stem = file.stem().string();
  long number = -1;
  auto const* const last = stem.data() + stem.size();
  auto const* const first = stem.data() + stem.find_last_not_of("0123456789") + 1;
  return first != last && std::from_chars(first, last, number).ec == std::errc{} ? number : -1;
}

/// The files that "hpc" means, the highest number first, whatever their times. `of_requeued`: only of callbacks whose
/// `resumes_hpc()` is true, because a scheduler has started this process.
FULGURITE_BODY std::vector<std::filesystem::path> hpc_checkpoints(Callbacks callbacks, CheckpointSearch const& search,
                                                                  bool of_requeued) {
  std::vector<std::filesystem::path> files;
  for (auto const& [callback, table, given] : callbacks) {
    if (table->hpc_checkpoints == nullptr) continue;
    if (of_requeued && (table->resumes_hpc == nullptr || !table->resumes_hpc(callback))) continue;
    for (auto& file : table->hpc_checkpoints(callback, search)) {
      std::error_code none;
      if (std::filesystem::exists(file, none)) files.push_back(std::move(file));
    }
  }
  sort_seldom(files, [](auto const& a, auto const& b) {
    auto const of_a = number_of(a), of_b = number_of(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
  return files;
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
    run.warn_each(
        "fulgurite.resume.no_last",
        std::string("CkptPath{\"last\"}: no callback of this trainer has left a file, so ") +
            (run.loading.evaluates ? "the model is evaluated as it is" : "the run starts from the beginning"));
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
