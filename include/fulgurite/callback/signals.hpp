#pragma once
// Ends a run cleanly when the system asks it to end, and leaves a checkpoint file from which the next fit resumes.

#include <concepts>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>

namespace fulgurite::slurm {

// The SLURM job that a program runs in: its name, and how to requeue it.

/// A job as scontrol names it: "4711", or "4711_3" of an array.
struct Job {
  std::string name;
  std::string task = {};  ///< the index within a job array; empty if the job is not part of one
};

/// The job that these environment variables describe; `variable("SLURM_JOB_ID")` returns its value, or nullptr if it is
/// not set. Returns nullopt outside of SLURM, in an interactive session (a job named bash or interactive), and if the
/// id is not a number.
std::optional<Job> job(FunctionRef<char const*(char const*)> variable);
/// The job of this process.
std::optional<Job> job();

/// Runs `scontrol requeue NAME`, with the scontrol found on PATH and without a shell. Returns an empty string on
/// success, otherwise the reason of the failure.
std::string requeue(Job const& of);

}  // namespace fulgurite::slurm

namespace fulgurite::checkpointing {

// The numbered files from which a requeued job resumes.

/// The files `hpc_ckpt_1.safetensors`, `hpc_ckpt_2.safetensors`, ... in a folder. Each task of a job array has its own,
/// such as `hpc_ckpt_task7_1.safetensors`, and so has each later fit of a program, such as `hpc_ckpt_fit2_1`.
class HpcFiles {
 public:
  HpcFiles() = default;
  HpcFiles(std::filesystem::path folder, std::string const& task, long fit = 1);

  /// The files that exist, highest number first.
  std::vector<std::filesystem::path> all() const;
  /// The file whose number follows the highest existing one.
  std::filesystem::path next() const;

 private:
  static constexpr std::string_view suffix = ".safetensors";

  std::vector<std::pair<long, std::filesystem::path>> numbered() const;

  std::filesystem::path folder_{};
  std::string prefix_{};
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

/// Options of Signals: where it writes its file, and which signals it handles.
struct SignalsOptions {
  /// The folder of the files. Empty: default_root_dir, with a file name that contains the program and the model, so
  /// that two programs in one folder do not use the same file. If the first fit of a program under one name ended well,
  /// the name of the second one has the suffix "-2", and so on.
  std::filesystem::path dirpath = {};
  std::vector<int> signals = {SIGINT, SIGTERM};  ///< the signals that end the run
  int requeue_signal = SIGUSR1;  ///< in a SLURM job: the signal after which the job is requeued; 0: none
};

/// Ends a run cleanly on SIGINT (Ctrl-C) or SIGTERM, with a file from which the next fit resumes.
///
///     int main() try {
///       auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 90}, Signals{});
///       trainer.fit(model, loader);
///     } catch (Interrupted const& end) { return end.exit_code(); }
///
/// On a signal the run finishes the current batch, in a fit also the step of its accumulation window. It then writes
/// interrupted.safetensors, dispatches on_exception, and throws Interrupted, whose `exit_code()` a program should
/// return. A second signal ends the program at once. The next fit resumes from the file automatically, unless it is
/// given another file, and removes it when the fit ends well. Signals works in training, validation, test, predict, the
/// sanity check and the pass for statistics; only a fit leaves a file. If the signal comes after the last batch, the
/// run ends normally, leaves a file of its end, and then throws. Several processes end a fit together: after the next
/// step, or at the end of the fit if no step follows.
///
/// In a SLURM job, SIGUSR1 (`#SBATCH --signal=USR1@90`) does the same, but writes hpc_ckpt_N.safetensors, with N one
/// more than the highest existing number, and then requeues the job by `scontrol requeue`; a failure of that is a
/// warning. A fit that ends well also removes these files, so jobs that run at the same time need a folder each; the
/// tasks of a job array have file names of their own.
///
/// Signal handlers belong to the process: a signal ends all runs that use Signals at that time.
class Signals {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::on_train_batch_end, hook::on_validation_batch_end,
                           hook::on_test_batch_end, hook::on_predict_batch_end, hook::on_exception, hook::teardown,
                           hook::end_if_asked>;
  using Stateless = ByChoice;
  static constexpr bool ignores_tensors = true;
  static constexpr Order order = Order::checkpoint;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool resumes_fit = true;
  static constexpr bool catches_signals =
      true;  ///< signal handlers belong to the process, so a sweep refuses this callback

  explicit Signals(SignalsOptions options = {});
  FULGURITE_NAMED_OPTIONS(Signals);
  Signals(Signals const&) = default;
  Signals& operator=(Signals const&) = default;
  FULGURITE_MOVES(Signals);

  void setup(Context& ctx);
  void on_train_start() { trains_ = true; }

  void on_train_batch_end(Context& ctx);
  void on_validation_batch_end(Context& ctx);
  void on_test_batch_end(auto&) { end_now(); }
  void on_predict_batch_end(auto&) { end_now(); }
  /// Called between batches for which no hook is called, and after a run, to throw for a signal that came too late for
  /// an earlier hook.
  void end_if_asked();

  void on_exception(std::exception const& error, Context& ctx);
  void teardown(Context& ctx);

  /// The files from which a fit resumes if no other file was given. In a SLURM job these include the files that the job
  /// wrote before it was requeued. Before setup, the search supplies the folder and the model.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {});
  /// The files from which a requeued SLURM job resumes, the latest first.
  std::vector<std::filesystem::path> hpc_checkpoints(CheckpointSearch const& search = {});
  /// True if SLURM has started this program, for the first time or again.
  bool resumes_hpc() const;

 private:
  /// Sets the paths of the run's files.
  void find_files(std::filesystem::path const& root, std::string_view model);
  static void end_now();

  /// Requests the file for a signal if there is a fit to resume, and then requeues the job if the signal asks for that.
  /// Until that is done, SLURM's next signal must not end the program. If the file cannot be written, the job is not
  /// requeued: it would start from an older file again and again.
  void leave(int signal, Context& ctx);
  void forget();

  SignalsOptions options_;
  slurm::Job job_{};   ///< an empty name: not in a job
  std::string fit_{};  ///< the key under which the current fit is counted
  std::filesystem::path file_{};
  checkpointing::HpcFiles hpc_files_{};
  std::shared_ptr<CaughtSignals> caught_ = nullptr;
  int asked_epoch_ = -1;  ///< the epoch and batch in which the end was requested; -1: not requested
  long asked_batch_ = 0;
  bool trains_ = false;
  int late_ = 0;  ///< a signal that came after the last batch of a run that ended well
};

/// Options of OnExceptionCheckpoint: it writes FILENAME.safetensors in a folder.
struct OnExceptionCheckpointOptions {
  std::filesystem::path dirpath = {};  ///< empty: default_root_dir
  /// Not given: `on_exception`; in default_root_dir, which other programs may use, `on_exception_<program>_<Model>`.
  std::optional<std::string> filename = std::nullopt;
};

/// Writes a checkpoint on any exception within a fit: `OnExceptionCheckpoint{{.dirpath = "runs/mlp"}}` writes
/// runs/mlp/on_exception.safetensors. The file is removed when a fit ends well, so it exists exactly when there is
/// something to rescue. The next fit, of this program or of a new process of the same program, resumes from the file
/// automatically, at the batch that failed, unless it is given another file. The constructor throws
/// [fulgurite.callback.on_exception] if the filename is empty or leads out of the folder.
class OnExceptionCheckpoint {
 public:
  using Hooks = Implements<hook::setup, hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;  ///< a fast_dev_run has nothing to rescue
  static constexpr std::string_view reads = "the state of the run";

  explicit OnExceptionCheckpoint(OnExceptionCheckpointOptions const& options = {});

  /// Refused at compile time: the folder is an option.
  template <std::convertible_to<std::filesystem::path> Folder, bool is_option = false>
  explicit OnExceptionCheckpoint(Folder const&, std::string const& = {}) {
    static_assert(is_option, "[fulgurite.callback.dirpath] OnExceptionCheckpoint's folder is an option: "
                             "OnExceptionCheckpoint{{.dirpath = \"runs\"}}");
  }

  void setup(Context& ctx);
  void on_exception(Context& ctx);
  void teardown(Context& ctx);

  std::filesystem::path const& ckpt_path() const { return file_; }
  static constexpr bool resumes_fit = true;  ///< a fit without a `CkptPath` resumes from `last_checkpoints()`
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const;

 private:
  std::filesystem::path file_in(std::filesystem::path const& root, std::string_view model) const;

  std::filesystem::path dirpath_;
  std::optional<std::string> filename_;
  std::filesystem::path file_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/signals.ipp>
#endif
