#pragma once
// Decides when a checkpoint is due, its name, and which older checkpoints are removed. The trainer writes the file at
// the next safe point. See docs/semantics.md, Checkpoints.

#include <concepts>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

// What a ModelCheckpoint watches: a metric, or none.

/// Takes the place of a metric if none is watched: the latest file is kept.
struct NoMonitor {
  using metric = NoMonitor;
  static constexpr std::string_view name() { return {}; }
};

namespace checkpointing {

/// True if the first argument is a metric to watch.
template <class M>
inline constexpr bool watches = Watchable<M> && !std::same_as<M, NoMonitor>;

// The folder that a ModelCheckpoint writes to, and how it relates to the folder of the resumed run.

/// The folder of this run, and the folder that a loaded state names.
class Place {
 public:
  /// `given` is the folder from the options; empty if they name none.
  explicit Place(std::filesystem::path given) : given_(std::move(given)) {}

  std::filesystem::path const& folder() const { return folder_; }

  /// The folders that may contain files of this run and of earlier ones: this folder, or, before a run is set up, the
  /// folders that earlier runs may have had. If there is a logger, those are below the folders of its runs.
  std::vector<std::filesystem::path> folders(CheckpointSearch const& search) const;

  /// Called in setup: chooses the given folder, else `checkpoints` in the first logger's folder, else `checkpoints` in
  /// default_root_dir. Returns true if it differs from the folder of the loaded run.
  bool choose(Context const& ctx);

  /// Warns if the folder contains files that this run did not write.
  void warn_of_files(Context const& ctx) const;

  /// Warns, once, if the resumed run writes to another folder than the loaded one. Returns true in that case.
  bool warn_of_move(Context const& ctx);

  /// When loading, takes the folder of the loaded run, unless one was given or chosen.
  void state(auto& archive);
  /// True if the state that was loaded last names another folder.
  bool is_elsewhere() const { return is_elsewhere_; }
  /// Nothing was resumed after all: restores the folder of before, and the next run does not count as moved.
  void do_not_continue();
  /// The loaded state's spelling of this folder if it differs, as "./runs/c" does from "runs/c"; otherwise empty.
  /// Reading it clears it.
  std::filesystem::path take_other_spelling();
  /// Called if the user was warned of the move before.
  void forget_move() { moved_from_.clear(); }

 private:
  /// A run that is resumed into another folder must not delete the files in the first one.
  bool moved();

  std::filesystem::path given_;
  std::filesystem::path folder_{};
  std::filesystem::path before_{};  ///< the folder before this call's setup
  std::filesystem::path loaded_{}, moved_from_{}, other_spelling_{};
  bool chosen_ = false, is_elsewhere_ = false;
};

/// A requested file that is not written yet.
struct Waiting {
  SavingFile file{};  ///< empty if `in_batch`
  long before = 0;    ///< the step of the previous file
  bool in_batch =
      false;  ///< requested in a batch, for that batch's step: the file is ranked and named when it is written

  void state(auto& archive);
};

// When a ModelCheckpoint requests a file, and how it handles the events of a run.

/// The part of ModelCheckpoint that does not depend on the type of its metric.
class Saver {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::on_train_batch_end,
                           hook::on_train_epoch_end, hook::on_validation_end, hook::on_train_end, hook::on_fit_end,
                           hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool ignores_tensors = true;
  static constexpr bool keeps_checkpoints = true;
  static constexpr std::string_view reads = "the state of the run";

  Saver(ModelCheckpointOptions const& options, WatchedMetric monitor);
  Saver(Saver const&) = default;
  Saver& operator=(Saver const&) = default;
  FULGURITE_MOVES(Saver);

  /// The best file; if no metric is watched, the latest one. Empty while there is none.
  std::filesystem::path const& best_model_path() const { return kept_.ranking().best; }
  std::optional<double> best_model_score() const { return kept_.ranking().best_score; }
  std::optional<double> current_score() const { return current_; }
  std::filesystem::path const& last_model_path() const { return kept_.last().file; }
  std::filesystem::path const& dirpath() const { return place_.folder(); }
  std::vector<std::filesystem::path> const& best_k_models() const { return top().paths(); }  ///< in the order of saving
  std::vector<double> const& best_k_scores() const { return top().scores(); }
  /// The file that will be removed next, and its value; empty and nullopt while fewer than k are kept.
  std::filesystem::path kth_best_model_path() const;
  std::optional<double> kth_value() const;

  /// Writes the kept files and their values as YAML, one "path: value" a line, to `file`; by default to
  /// best_k_models.yaml in the folder.
  void to_yaml(std::filesystem::path const& file = {}) const;

  // The events of a run.

  void setup(Context& ctx);

  /// Called when the state of a resumed run has been loaded.
  void on_fit_start(Context& ctx);

  void on_train_start(Context& ctx);

  void on_train_batch_end(Context& ctx);

  void on_train_epoch_end(Context& ctx);

  void on_validation_end(Context& ctx);

  void on_train_end(Context& ctx);

  /// Completes what an earlier run left unfinished, also if no further training takes place.
  void on_fit_end(Context& ctx);

  void teardown(auto&) { in_fit_ = false; }
  void on_exception(Context& ctx);

  /// Called if the fit failed before it resumed from its file.
  void do_not_continue();

  std::string state_key() const;
  /// The files from which CkptPath{"last"} may resume: all files in the folder whose names could be this callback's.
  /// Without a folder of its own, and before setup, these are the files of all runs that the search knows.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const;

  /// Saves or loads. A state that is loaded within a fit either belongs to a rollback of the same fit, or was resumed
  /// before the first batch was due; neither counts as resuming.
  void state(auto& archive);

 private:
  bool at_train_epoch_end(Context const& ctx) const;
  /// True if nothing is to be saved: outside of fit, or if this step is saved already.
  bool skips(Context const& ctx) const;
  /// True if the metric gets its first value only from a validation that has not run yet.
  bool value_is_to_come(Context const& ctx) const;
  /// The watched value. Its age counts from the step at which this callback first saw it; the callback looks at the end
  /// of each validation, and whenever a file is due.
  std::optional<double> seen_now(Context const& ctx);

  // Requests of files. Each one is written at the trainer's next safe point.

  void save(Context const& ctx, int epoch);
  /// Requests a file of the step that a batch has taken. Only after the batch is it known whether a validation follows,
  /// which then ranks and names the file.
  void save_step_of_batch(Context const& ctx, long before);
  /// A file of the current state; nullopt if no file is kept, or if its value is not among the best.
  std::optional<SavingFile> admitted(Context const& ctx, int epoch);
  void request(Context const& ctx, SavingFile now);
  /// Requests a file. Its name on disk is chosen when it is written, since other callbacks' files exist by then.
  void ask(Context const& ctx, Waiting const& now);
  /// Writes a requested file that is due.
  void write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome);

  void missing(Context const& ctx);
  void warn_of_missing(Context const& ctx);
  /// Warns if the value that ranks the file was logged before the latest training step.
  void warn_of_old_value(Context const& ctx);

  void print(bool here, std::string const& what) const;

  /// A function that enters the name of a file in the outcome before the file is written: the state in it contains the
  /// outcome, so that a resumed run has the results of an unbroken one. Without a name, the outcome is as it was.
  KeptFiles::Named naming(Outcome& outcome) const;

  /// True if the outcome's best file is this callback's to set.
  bool says_best(Outcome const& outcome) const;
  void publish(Outcome& outcome) const;

  TopK const& top() const { return kept_.ranking().top; }
  bool writes_any() const;

  ModelCheckpointOptions options_;
  Place place_;
  KeptFiles kept_;
  std::optional<double> current_ = std::nullopt;
  WatchedMetric monitor_;  ///< without a name: the latest file is kept
  Name name_;
  Timing timing_;
  std::optional<Waiting> waiting_ = std::nullopt;
  std::vector<std::filesystem::path> gone_{};  ///< files named in the loaded state that do not exist
  long last_saved_ = 0;                        ///< the step of the latest requested file
  /// How often the metric had been logged when a new value was seen, and the step at that time.
  struct Seen {
    long logged = 0, step = 0;
  };
  Seen seen_{};
  bool deferred_ = false, validated_ = false;
  bool warned_ = false, warned_of_age_ = false;
  bool resumed_ = false;
  bool moved_ = false;  ///< true if this run writes to another folder than the run that it resumes
  bool in_fit_ = false;
};

template <class T>
inline constexpr bool is_folder = std::is_convertible_v<T const&, std::filesystem::path>;
}  // namespace checkpointing

/// Requests checkpoints and keeps the best or the latest ones: `ModelCheckpoint{Net::val_loss}`, `ModelCheckpoint{}`,
/// `ModelCheckpoint{{.dirpath = "runs/mlp"}}`, or `ModelCheckpoint{Net::val_accuracy, {.dirpath = "runs/mlp", .mode =
/// Mode::max, .save_top_k = 2}}`. It never saves before the first optimizer step, twice at the same step, in the sanity
/// check, or outside of fit.
template <class M = NoMonitor>
class ModelCheckpoint : public checkpointing::Saver {
  static constexpr bool is_metric =
      Watchable<M>;  // a bool, since the compiler would add the concept's own explanation to the sentence
  static_assert(
      is_metric,
      "[fulgurite.callback.dirpath] ModelCheckpoint watches a metric of the model, and its folder is an option: "
      "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}, or ModelCheckpoint{{.dirpath = \"runs\"}}");

 public:
  static constexpr bool watches = checkpointing::watches<M>;
  using Watches = std::conditional_t<watches, MetricTypes<M>, MetricTypes<>>;
  using Options = ModelCheckpointOptions;

  explicit ModelCheckpoint(M monitor, Options const& options = {})
    requires(!std::same_as<M, NoMonitor>)
      : Saver(options, watched(monitor)) {}
  explicit ModelCheckpoint(Options const& options = {})
    requires(!watches)
      : Saver(options, {}) {}
  /// A template, since clang takes braced options for a NoMonitor inside of another one.
  template <std::same_as<NoMonitor> Monitor>
    requires(!watches)
  explicit ModelCheckpoint(Monitor, Options const& options = {}) : Saver(options, {}) {}
  /// Refused at compile time: an option without its name.
  template <Unnamed T>
    requires(!checkpointing::is_folder<T>)
  ModelCheckpoint(M monitor, T const& given) : ModelCheckpoint(monitor) {
    refuse_unnamed(given);
  }
  /// Refused at compile time: the folder is an option.
  template <class Folder, bool is_option = false>
    requires checkpointing::is_folder<Folder>
  ModelCheckpoint(M monitor, Folder const&, Options const& options = {}) : ModelCheckpoint(monitor, options) {
    static_assert(is_option, "[fulgurite.callback.dirpath] ModelCheckpoint's folder is an option: "
                             "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}");
  }

 private:
  static WatchedMetric watched(M const& monitor) {
    if constexpr (watches) return WatchedMetric(monitor);
    else return {};
  }
};

ModelCheckpoint() -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(ModelCheckpointOptions) -> ModelCheckpoint<NoMonitor>;

FULGURITE_REFUSES_MISSPELT_OPTION(ModelCheckpoint);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/model_checkpoint.ipp>
#endif
