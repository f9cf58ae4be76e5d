#pragma once
// The bodies of callback/signals.hpp.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::slurm {

/// True for a number as SLURM writes it.
FULGURITE_BODY bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 20 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

FULGURITE_BODY std::optional<Job> job(FunctionRef<char const*(char const*)> variable) {
  auto const text = [&](char const* name) {
    char const* const value = variable(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  };
  auto const id = text("SLURM_JOB_ID"), called = text("SLURM_JOB_NAME");
  if (!is_number(id) || called == "bash" || called == "interactive") return std::nullopt;
  auto const array = text("SLURM_ARRAY_JOB_ID"), task = text("SLURM_ARRAY_TASK_ID");
  if (is_number(array) && is_number(task))
    return Job{.name = std::string(array).append("_").append(task), .task = std::string(task)};
  return Job{.name = std::string(id)};
}

FULGURITE_BODY std::optional<Job> job() {
  return job([](char const* name) { return std::getenv(name); });
}

FULGURITE_BODY std::string requeue(Job const& of) {
  std::string program = "scontrol", verb = "requeue", name = of.name;
  std::array<char*, 4> const words{program.data(), verb.data(), name.data(), nullptr};
  pid_t child = 0;
  if (int const error = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words.data(), environ))
    return "scontrol cannot be started: " + std::generic_category().message(error);
  int status = 0;
  while (::waitpid(child, &status, 0) == -1)
    if (errno != EINTR) return {};  // the program ignores SIGCHLD, so the system has reaped the child
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return WIFEXITED(status) ? "scontrol requeue " + name + " ended with status " + std::to_string(WEXITSTATUS(status))
                           : "scontrol requeue " + name + " was ended by a signal";
}

}  // namespace fulgurite::slurm

namespace fulgurite::checkpointing {

/// Counts the fits that this process has ended well, by their names. The numbers separate consecutive fits of one model
/// type, in this process and in the next process of the program.
class EndedFits : Pinned {
 public:
  /// The number of fits of that name.
  long number(std::string const& name) {
    std::lock_guard const alone(mutex_);
    return all_[name];
  }
  /// Counts one more fit of that name.
  void add(std::string const& name) {
    std::lock_guard const alone(mutex_);
    ++all_[name];
  }

 private:
  std::mutex mutex_ = {};
  std::map<std::string, long> all_ = {};
};

/// Those of this process.
FULGURITE_BODY EndedFits& ended_fits() {
  static EndedFits fits;
  return fits;
}

/// True in a fit that may leave a file: there is nothing to rescue of a fast_dev_run.
FULGURITE_BULK_BODY bool may_leave_file(Context const& ctx) { return ctx.stage() == Stage::fit && !ctx.dev_run(); }

/// Releases a file that a fit would have resumed from. If `removes`, rank 0 also removes it from the disk, unless
/// another callback holds it, too. It is no error if there is no such file.
FULGURITE_BODY void give_up(Context& ctx, std::filesystem::path const& file, HeldFiles::Holder holder, bool removes) {
  ctx.held_files().give_up(file, holder);
  std::error_code ignored;  // usually there is no such file
  if (removes && ctx.rank() == 0 && !ctx.held_files().by_others(file, holder)) std::filesystem::remove(file, ignored);
}

FULGURITE_BODY HpcFiles::HpcFiles(std::filesystem::path folder, std::string const& task, long fit)
    : folder_(std::move(folder)), prefix_("hpc_ckpt_" + (task.empty() ? "" : "task" + task + "_")) {
  if (fit > 1) prefix_ += "fit" + std::to_string(fit) + "_";
}

FULGURITE_BODY std::vector<std::filesystem::path> HpcFiles::all() const {
  std::vector<std::filesystem::path> files;
  for (auto const& [number, file] : numbered()) files.push_back(file);
  return files;
}

FULGURITE_BODY std::filesystem::path HpcFiles::next() const {
  auto const there = numbered();
  auto const number = there.empty() ? 1 : there.front().first + 1;
  return folder_ / (prefix_ + std::to_string(number) + std::string(suffix));
}

FULGURITE_BODY std::vector<std::pair<long, std::filesystem::path>> HpcFiles::numbered() const {
  std::vector<std::pair<long, std::filesystem::path>> found;
  std::error_code none;  // a missing folder has no files
  for (auto const& entry : std::filesystem::directory_iterator(folder_, none)) {
    auto const name = entry.path().filename().string();
    if (!name.starts_with(prefix_) || !name.ends_with(suffix)) continue;
    auto const* const end = name.data() + name.size() - suffix.size();
    long number = 0;
    auto const [stop, error] = std::from_chars(name.data() + prefix_.size(), end, number);
    if (error == std::errc() && stop == end && number > 0) found.emplace_back(number, entry.path());
  }
  sort_seldom(found, std::greater{});
  return found;
}

}  // namespace fulgurite::checkpointing

namespace fulgurite {

FULGURITE_BODY void Signals::end_if_asked() {
  if (caught_) end_now();
  else if (int const signal = std::exchange(late_, 0)) throw Interrupted(signal);
}

FULGURITE_BODY std::vector<std::filesystem::path> Signals::last_checkpoints(CheckpointSearch const& search) {
  auto files = hpc_checkpoints(search);
  if (job_.name.empty()) files.clear();
  files.push_back(file_);
  return files;
}

FULGURITE_BODY std::vector<std::filesystem::path> Signals::hpc_checkpoints(CheckpointSearch const& search) {
  if (!search.model.empty()) find_files(search.root, search.model);
  return hpc_files_.all();
}

FULGURITE_BODY bool Signals::resumes_hpc() const { return slurm::job().has_value(); }

FULGURITE_BODY void Signals::find_files(std::filesystem::path const& root, std::string_view model) {
  job_ = slurm::job().value_or(slurm::Job{});
  auto const name =
      options_.dirpath.empty() ? checkpointing::name_of_run("interrupted", model) : std::string("interrupted");
  auto const& folder = options_.dirpath.empty() ? root : options_.dirpath;
  fit_ = HeldFiles::key(folder / name).string();
  auto const before = checkpointing::ended_fits().number(fit_);
  auto const number = before == 0 ? std::string() : "-" + std::to_string(before + 1);
  file_ = folder / (name + number + ".safetensors");
  hpc_files_ = {folder, job_.task, before + 1};
}

FULGURITE_BODY void Signals::end_now() {
  if (int const caught = CaughtSignals::to_act_on()) throw Interrupted(caught);
}

FULGURITE_BODY void Signals::forget() {
  caught_.reset();
  asked_epoch_ = -1;
}

FULGURITE_BODY OnExceptionCheckpoint::OnExceptionCheckpoint(OnExceptionCheckpointOptions const& options)
    : dirpath_(options.dirpath), filename_(options.filename), file_(file_in({}, {})) {
  if (auto const why = checkpointing::why_no_name(filename_.value_or("on_exception"), {}, dirpath_); !why.empty())
    throw Error("fulgurite.callback.on_exception",
                "OnExceptionCheckpoint's filename: " + why + "; leave it out for \"on_exception\"");
}

FULGURITE_BODY std::vector<std::filesystem::path>
OnExceptionCheckpoint::last_checkpoints(CheckpointSearch const& search) const {
  return {search.model.empty() ? file_ : file_in(search.root, search.model)};
}

FULGURITE_BODY std::filesystem::path OnExceptionCheckpoint::file_in(std::filesystem::path const& root,
                                                                    std::string_view model) const {
  auto const usual = dirpath_.empty() ? checkpointing::name_of_run("on_exception", model) : "on_exception";
  return (dirpath_.empty() ? root : dirpath_) / (filename_.value_or(usual) + ".safetensors");
}

/// A run that is ending by another exception. A signal that arrives meanwhile has no further effect; the destructor
/// warns of it.
struct FailingRun : Pinned {
  std::shared_ptr<CaughtSignals> caught;
  Context ctx;

  FailingRun(std::shared_ptr<CaughtSignals> signals, Context const& context);
  ~FailingRun();
};

FULGURITE_BODY FailingRun::FailingRun(std::shared_ptr<CaughtSignals> signals, Context const& context)
    : caught(std::move(signals)), ctx(context) {}

FULGURITE_BODY FailingRun::~FailingRun() {
  int const came = caught ? CaughtSignals::to_act_on() : 0;
  if (came == 0) return;
  try {
    ctx.warn_each("fulgurite.run.failing",
                  "signal " + std::to_string(came) +
                      " came while the run was ending by an exception: its files are written, and it ends by that "
                      "exception; the job is not requeued in SLURM, since it would fail again");
  } catch (...) {}  // the warning cannot be given
}

FULGURITE_BODY Signals::Signals(SignalsOptions options) : options_(std::move(options)) {}

FULGURITE_MOVES_BODY(Signals);

FULGURITE_BODY void Signals::setup(Context& ctx) {
  find_files(ctx.options().default_root_dir, ctx.model_name());
  trains_ = false;
  late_ = 0;
  if (checkpointing::may_leave_file(ctx)) ctx.held_files().hold(file_, this);
  forget();  // the handlers of a run that was abandoned without an end, and a request whose file was not written
  caught_ = std::make_shared<CaughtSignals>(options_.signals, job_.name.empty() ? 0 : options_.requeue_signal);
}

FULGURITE_BULK_BODY void Signals::on_train_batch_end(Context& ctx) {
  int const ends_by = ctx.signal_of_all(CaughtSignals::to_act_on());
  if (ends_by == 0) [[likely]]
    return;
  // Requests the end once within an accumulation window of several batches; again if captured steps rolled back to a
  // state before the request.
  int const epoch = ctx.current_epoch();
  long const batch = ctx.batch_idx();
  if (asked_epoch_ != -1 && std::pair(asked_epoch_, asked_batch_) < std::pair(epoch, batch)) return;
  asked_epoch_ = epoch;
  asked_batch_ = batch;
  // The exception is thrown at the point where the next file would be written: between steps. A single process ends by
  // the latest signal that it received; several processes end by the signal that they have agreed on.
  bool const alone = ctx.world() == 1;
  ctx.request_checkpoint(
      {this, [ends_by, alone](CheckpointFiles&) { throw Interrupted(alone ? CaughtSignals::to_act_on() : ends_by); }});
}

FULGURITE_BULK_BODY void Signals::on_validation_batch_end(Context& ctx) {
  // Several processes end a fit together, after the next step.
  if (ctx.world() == 1 || !checkpointing::may_leave_file(ctx)) end_now();
}

FULGURITE_BODY void Signals::on_exception(std::exception const& error, Context& ctx) {
  if (auto const* const interrupted = dynamic_cast<Interrupted const*>(&error))
    return leave(interrupted->signal(), ctx);
  // The handlers stay until the files of that exception are written, so that no signal ends the program before that.
  auto const until = std::make_shared<FailingRun>(std::exchange(caught_, nullptr), ctx);
  forget();
  if (ctx.stage() == Stage::fit) ctx.request_checkpoint({this, [until](CheckpointFiles&) {}});
}

FULGURITE_BODY void Signals::teardown(Context& ctx) {
  late_ = ctx.signal_here(CaughtSignals::to_act_on());
  if (late_ == 0) {
    forget();
    late_ = ctx.signal_here(CaughtSignals::to_act_on());
  }
  if (checkpointing::may_leave_file(ctx)) {
    for (auto const& file : last_checkpoints()) checkpointing::give_up(ctx, file, this, late_ == 0);
    if (late_ == 0) checkpointing::ended_fits().add(fit_);
  }
  if (late_ != 0) leave(late_, ctx);
}

FULGURITE_BODY void Signals::leave(int signal, Context& ctx) {
  bool const requeues = !job_.name.empty() && signal == options_.requeue_signal;
  if (!requeues) forget();
  auto const begin_again = [this, ctx](bool first_rank) {
    if (auto const why = first_rank ? slurm::requeue(job_) : std::string(); !why.empty())
      ctx.warn_each("fulgurite.run.requeue",
                    "the job was not requeued in SLURM (" + why + "): call scontrol requeue " + job_.name);
    forget();
  };
  if (!checkpointing::may_leave_file(ctx) || (requeues && !trains_)) {
    if (requeues) begin_again(ctx.rank() == 0);
    return;
  }
  CheckpointRequest request{this, [this, requeues, begin_again](CheckpointFiles& files) {
                              auto const file = requeues ? hpc_files_.next() : file_;
                              files.write(file);
                              if (files.writes())
                                print_lines(stderr, "interrupted: the run is saved to " + file.string() +
                                                        "; the same program resumes from it\n");
                              if (requeues) begin_again(files.writes());
                            }};
  ctx.request_checkpoint(std::move(request));
}

FULGURITE_BODY void OnExceptionCheckpoint::setup(Context& ctx) {
  file_ = file_in(ctx.options().default_root_dir.path(), ctx.model_name());
  if (checkpointing::may_leave_file(ctx)) ctx.held_files().hold(file_, this);
}

FULGURITE_BODY void OnExceptionCheckpoint::on_exception(Context& ctx) {
  // Outside of fit there is nothing to rescue, so no file is written.
  if (checkpointing::may_leave_file(ctx))
    ctx.request_checkpoint({this, [this](CheckpointFiles& files) { files.write(file_); }});
}

FULGURITE_BODY void OnExceptionCheckpoint::teardown(Context& ctx) {
  if (checkpointing::may_leave_file(ctx)) checkpointing::give_up(ctx, file_, this, true);
}

}  // namespace fulgurite
