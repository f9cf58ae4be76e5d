#pragma once
// Ends a run in good order where the system asks for its end, with a file from which it goes on.

#include <concepts>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite::slurm {

// The SLURM job that a program runs in: which it is, and how it is begun again.

/// A job as scontrol names it: "4711", or "4711_3" of an array.
struct Job {
  std::string name;
  std::string task = {};  ///< of an array; else empty
};

/// A number as SLURM writes it.
bool is_number(std::string_view text);

/// The job that these variables tell of; `variable("SLURM_JOB_ID")` is a text, or nullptr where there is none. None
/// outside of SLURM, in an interactive session (a job named bash or interactive), and where the id is no number.
template <class Environment>
std::optional<Job> job(Environment const& variable) {
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
/// The job of this process.
std::optional<Job> job();

/// `scontrol requeue NAME`, with the scontrol found on PATH and no shell. Empty where it ended well, else why not.
std::string requeue(Job const& of);

}  // namespace fulgurite::slurm

namespace fulgurite::checkpointing {

// How many fits of one name this program has ended well: so those of one model type that follow each other are told
// apart, in this process and in the next one of the program.

/// Counts by name. One object serves the whole process.
class EndedFits {
 public:
  static EndedFits& of_process() {
    static EndedFits all;
    return all;
  }
  long count(std::string const& name);
  void add(std::string const& name);

 private:
  std::mutex mutex_{};
  std::map<std::string, long> by_name_{};
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

/// A run that ends by another exception. A signal that comes on its way ends nothing more, which is said.
template <class Ctx>
struct FailingRun {
  std::shared_ptr<CaughtSignals> caught;
  Ctx ctx;

  FailingRun(std::shared_ptr<CaughtSignals> signals, Ctx const& context) : caught(std::move(signals)), ctx(context) {}
  FailingRun(FailingRun const&) = delete;
  ~FailingRun() {
    int const came = caught ? CaughtSignals::gravest() : 0;
    if (came == 0) return;
    try {
      ctx.warn_each("fulgurite.run.failing",
                    "signal " + std::to_string(came) +
                        " came while the run was ending by an exception: its files are written, and it ends by that "
                        "exception; no job is put back into SLURM's queue, since it would fail again");
    } catch (...) {}  // a warning that cannot be given
  }
};

}  // namespace fulgurite

namespace fulgurite::checkpointing {

// The numbered files from which a job that a cluster has begun again goes on.

/// `hpc_ckpt_1.safetensors`, `hpc_ckpt_2.safetensors`, ... of a folder; the tasks of an array have each their own, as
/// `hpc_ckpt_task7_1.safetensors`, and so have the fits of a program that follow each other, `hpc_ckpt_fit2_1`.
class HpcFiles {
 public:
  HpcFiles() = default;
  HpcFiles(std::filesystem::path folder, std::string const& task, long fit = 1);

  /// Those that are there, the highest number first.
  std::vector<std::filesystem::path> all() const;
  /// The one after the highest.
  std::filesystem::path next() const;

 private:
  static constexpr std::string_view suffix = ".safetensors";

  std::vector<std::pair<long, std::filesystem::path>> numbered() const;

  std::filesystem::path folder_{};
  std::string prefix_{};
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

/// Where Signals leaves its file, and which signals it hears.
struct SignalsOptions {
  /// Of the files; empty: default_root_dir, under a name that tells the program and the model: two programs that run in
  /// one folder do not meet. The second fit of a program under one name, when the first one has ended well, has "-2" in
  /// its name, and so on.
  std::filesystem::path dirpath = {};
  std::vector<int> signals = {SIGINT, SIGTERM};  ///< that end the run
  int requeue_signal = SIGUSR1;                  ///< in a SLURM job: the job is to be begun again; 0: none
};

/// `Signals{}` finishes the batch at hand, in a fit with the step of its window, when SIGINT (Ctrl-C) or SIGTERM has
/// come; writes interrupted.safetensors; lets everybody hear on_exception; and throws Interrupted, whose `exit_code()`
/// a program returns. Another one of these signals ends the program at once. The next fit goes on from the file by
/// itself, unless it is told where to go on from, and removes it when it ends well. It acts in training, validation,
/// test, predict, the sanity check and the pass for statistics; only a fit leaves a file. A signal that comes after the
/// last batch lets the run end well, leaves a file of its end, and throws then. Several processes end a fit together,
/// after the next step, or, where none follows, at its end.
///
/// In a SLURM job, SIGUSR1 (`#SBATCH --signal=USR1@90`) does the same with hpc_ckpt_N.safetensors, N one more than the
/// highest there is, and then asks SLURM to begin the job again: `scontrol requeue`, which is a warning where it fails.
/// A fit that ends well removes these, too, so jobs that run at a time need each a folder of their own; the tasks of an
/// array have names of their own.
///
/// The handlers are the process's: two runs at a time cannot have them both.
class Signals {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::on_train_batch_end, hook::on_validation_batch_end,
                           hook::on_test_batch_end, hook::on_predict_batch_end, hook::on_exception, hook::teardown,
                           hook::end_if_asked>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool resumes_fit = true;
  static constexpr bool catches_signals = true;  ///< which belong to the process: a sweep refuses it

  explicit Signals(SignalsOptions options = {}) : options_(std::move(options)) {}

  void setup(auto& ctx) {
    find_files(ctx.options().default_root_dir, type_name<std::remove_cvref_t<decltype(ctx.model())>>());
    trains_ = false;
    late_ = 0;
    if (in_fit(ctx)) ctx.held_files().hold(file_, this);
    caught_.reset();  // those of a run that was left without an end
    caught_ = std::make_shared<CaughtSignals>(options_.signals, job_ ? options_.requeue_signal : 0);
  }
  void on_train_start() { trains_ = true; }

  void on_train_batch_end(auto& ctx) {
    int const ends_by = ctx.signal_of_all(CaughtSignals::gravest());
    if (ends_by == 0) [[likely]]
      return;
    // Once, inside a window of several batches; again where captured steps went back to before it was asked for.
    std::pair const here(ctx.current_epoch(), ctx.batch_idx());
    if (asked_at_ && *asked_at_ < here) return;
    asked_at_ = here;
    // Thrown where the next file would be written: between steps.
    // One process ends by what it was asked for last; several by what they have told each other.
    bool const alone = ctx.world() == 1;
    ctx.request_checkpoint(
        {this, [ends_by, alone](CheckpointFiles&) { throw Interrupted(alone ? CaughtSignals::gravest() : ends_by); }});
  }
  void on_validation_batch_end(auto& ctx) {
    // Several processes end a fit together, after the next step.
    if (ctx.world() == 1 || !in_fit(ctx)) end_now();
  }
  void on_test_batch_end(auto&) { end_now(); }
  void on_predict_batch_end(auto&) { end_now(); }
  /// Between batches that no hook tells of, and after a run: one whose end was asked for too late for a place before.
  void end_if_asked();

  void on_exception(std::exception const& error, auto& ctx) {
    if (auto const* const interrupted = dynamic_cast<Interrupted const*>(&error))
      return leave(interrupted->signal(), ctx);
    // The handlers stay until the files of that exception are written: no signal ends the program meanwhile.
    auto const until =
        std::make_shared<FailingRun<std::remove_cvref_t<decltype(ctx)>>>(std::exchange(caught_, nullptr), ctx);
    forget();
    if (ctx.stage() == decltype(ctx.stage())::fit) ctx.request_checkpoint({this, [until](CheckpointFiles&) {}});
  }
  void teardown(auto& ctx) {
    late_ = ctx.signal_here(CaughtSignals::gravest());
    if (late_ == 0) {
      forget();
      late_ = ctx.signal_here(CaughtSignals::gravest());
    }
    if (in_fit(ctx)) give_up(ctx, late_ == 0);
    if (late_ != 0) leave(late_, ctx);
  }

  /// What a fit that is not told otherwise goes on from: in a SLURM job the files that it has left before it was
  /// started again, too. Before setup, as the search says.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {});
  /// The files that a SLURM job goes on from when it has begun again, the last one first.
  std::vector<std::filesystem::path> hpc_checkpoints(CheckpointSearch const& search = {});
  /// Whether SLURM has started this program, perhaps again.
  bool resumes_hpc() const;

 private:
  /// Where the files of a run are.
  void find_files(std::filesystem::path const& root, std::string_view model);
  static bool in_fit(auto& ctx) { return ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run(); }
  static void end_now();

  /// The file that a signal asks for, where there is a run to go on with; then, where that was asked for, the job is
  /// put back into the queue. Until then SLURM's next signal must not end the program. A file that cannot be written
  /// keeps the job out of the queue: it would begin from an older one, again and again.
  void leave(int signal, auto& ctx) {
    bool const requeues = job_ && signal == options_.requeue_signal;
    if (!requeues) forget();
    auto const begin_again = [this, &ctx](bool first_rank) {
      if (auto const why = first_rank ? slurm::requeue(*job_) : std::string(); !why.empty())
        ctx.warn_each("fulgurite.run.requeue",
                      "the job was not put back into SLURM's queue (" + why + "): call scontrol requeue " + job_->name);
      forget();
    };
    if (!in_fit(ctx) || (requeues && !trains_)) {
      if (requeues) begin_again(ctx.rank() == 0);
      return;
    }
    CheckpointRequest request{this, [this, requeues, begin_again](CheckpointFiles& files) {
                                auto const file = requeues ? hpc_files_.next() : file_;
                                files.write(file);
                                if (files.writes())
                                  tell(stderr, "interrupted: the run is saved to " + file.string() +
                                                   "; the same program resumes from it\n");
                                if (requeues) begin_again(files.writes());
                              }};
    // Contexts of evaluations have no such function.
    if constexpr (requires { ctx.request_checkpoint(request); }) ctx.request_checkpoint(std::move(request));
  }
  /// The files of this run are no longer needed, and removed where it has ended well.
  void give_up(auto& ctx, bool ended_well) {
    for (auto const& file : last_checkpoints()) {
      ctx.held_files().give_up(file, this);
      std::error_code ignored;  // usually there is none
      if (ended_well && ctx.rank() == 0 && !ctx.held_files().by_others(file, this))
        std::filesystem::remove(file, ignored);
    }
    if (ended_well) checkpointing::EndedFits::of_process().add(fit_);
  }
  void forget();

  SignalsOptions options_;
  std::optional<slurm::Job> job_{};
  std::string fit_{};  ///< what the fit at hand is counted under
  std::filesystem::path file_{};
  checkpointing::HpcFiles hpc_files_{};
  std::shared_ptr<CaughtSignals> caught_ = nullptr;
  std::optional<std::pair<int, long>> asked_at_ = std::nullopt;
  bool trains_ = false;
  int late_ = 0;  ///< a signal that came after the last batch of a run that has ended well
};

/// Which file OnExceptionCheckpoint writes: FILENAME.safetensors in a folder.
struct OnExceptionCheckpointOptions {
  std::filesystem::path dirpath = {};  ///< not given: default_root_dir
  /// Not given: "on_exception", and in default_root_dir, which other programs may use,
  /// "on_exception_<program>_<Model>".
  std::optional<std::string> filename = std::nullopt;
};

/// `OnExceptionCheckpoint{{.dirpath = "runs/mlp"}}` writes runs/mlp/on_exception.safetensors on any exception within a
/// fit, and removes it when a fit ends well, so that the file is there exactly when there is something to rescue. The
/// next fit, of this program or of the same one started again, resumes from it by itself, at the batch that failed,
/// unless it is given another file. Error where the filename is empty or leads out of the folder.
class OnExceptionCheckpoint {
 public:
  using Hooks = Implements<hook::setup, hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;  ///< a rehearsal has nothing to rescue
  static constexpr std::string_view reads = "the state of the run";

  explicit OnExceptionCheckpoint(OnExceptionCheckpointOptions const& options = {});

  /// Refused with a sentence: the folder is an option.
  template <std::convertible_to<std::filesystem::path> Folder, bool is_option = false>
  explicit OnExceptionCheckpoint(Folder const&, std::string const& = {}) {
    static_assert(is_option, "[fulgurite.callback.dirpath] OnExceptionCheckpoint's folder is an option: "
                             "OnExceptionCheckpoint{{.dirpath = \"runs\"}}");
  }

  void setup(auto& ctx) {
    file_ = file_in(ctx.options().default_root_dir.path(), type_name<std::remove_cvref_t<decltype(ctx.model())>>());
    if (in_fit(ctx)) ctx.held_files().hold(file_, this);
  }
  void on_exception(auto& ctx) {
    // Outside fit there is nothing to rescue, and no file is written.
    if (in_fit(ctx)) ctx.request_checkpoint({this, [this](CheckpointFiles& files) { files.write(file_); }});
  }
  void teardown(auto& ctx) {
    if (!in_fit(ctx)) return;
    ctx.held_files().give_up(file_, this);
    std::error_code ignored;  // usually there is none
    if (ctx.rank() == 0 && !ctx.held_files().by_others(file_, this)) std::filesystem::remove(file_, ignored);
  }

  std::filesystem::path const& ckpt_path() const { return file_; }
  static constexpr bool resumes_fit = true;  ///< a fit without a `CkptPath` resumes from `last_checkpoints()`
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const;

 private:
  static bool in_fit(auto& ctx) { return ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run(); }
  std::filesystem::path file_in(std::filesystem::path const& root, std::string_view model) const;

  std::filesystem::path dirpath_;
  std::optional<std::string> filename_;
  std::filesystem::path file_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/signals.ipp>
#endif
