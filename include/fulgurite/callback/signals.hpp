#pragma once
// Ends a run in good order where the system asks for its end, with a file from which it goes on.

#include <concepts>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>

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
std::optional<Job> job(FunctionRef<char const*(char const*)> variable);
/// The job of this process.
std::optional<Job> job();

/// `scontrol requeue NAME`, with the scontrol found on PATH and no shell. Empty where it ended well, else why not.
std::string requeue(Job const& of);

}  // namespace fulgurite::slurm

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

  explicit Signals(SignalsOptions options = {});
  Signals(Signals const&) = default;
  Signals& operator=(Signals const&) = default;
  FULGURITE_MOVES(Signals);

  void setup(Context& ctx);
  void on_train_start() { trains_ = true; }

  void on_train_batch_end(Context& ctx);
  void on_validation_batch_end(Context& ctx);
  void on_test_batch_end(auto&) { end_now(); }
  void on_predict_batch_end(auto&) { end_now(); }
  /// Between batches that no hook tells of, and after a run: one whose end was asked for too late for a place before.
  void end_if_asked();

  void on_exception(std::exception const& error, Context& ctx);
  void teardown(Context& ctx);

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
  static bool in_fit(Context const& ctx);
  static void end_now();

  /// The file that a signal asks for, where there is a run to go on with; then, where that was asked for, the job is
  /// put back into the queue. Until then SLURM's next signal must not end the program. A file that cannot be written
  /// keeps the job out of the queue: it would begin from an older one, again and again.
  void leave(int signal, Context& ctx);
  /// The files of this run are no longer needed, and removed where it has ended well.
  void give_up(Context& ctx, bool ended_well);
  void forget();

  SignalsOptions options_;
  slurm::Job job_{};   ///< without a name: none
  std::string fit_{};  ///< what the fit at hand is counted under
  std::filesystem::path file_{};
  checkpointing::HpcFiles hpc_files_{};
  std::shared_ptr<CaughtSignals> caught_ = nullptr;
  int asked_epoch_ = -1;  ///< where the end was asked for; -1: nowhere yet
  long asked_batch_ = 0;
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

  void setup(Context& ctx);
  void on_exception(Context& ctx);
  void teardown(Context& ctx);

  std::filesystem::path const& ckpt_path() const { return file_; }
  static constexpr bool resumes_fit = true;  ///< a fit without a `CkptPath` resumes from `last_checkpoints()`
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const;

 private:
  static bool in_fit(Context const& ctx);
  std::filesystem::path file_in(std::filesystem::path const& root, std::string_view model) const;

  std::filesystem::path dirpath_;
  std::optional<std::string> filename_;
  std::filesystem::path file_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/signals.ipp>
#endif
