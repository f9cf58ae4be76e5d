#pragma once
// Decides when a checkpoint is due, what it is called and which older ones give way; the trainer writes it at the next
// safe point. See docs/semantics.md, Checkpoints.

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
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

// What a ModelCheckpoint watches: a metric, or none.

/// Stands in place of a metric where none is watched: the latest file is kept.
struct NoMonitor {
  using metric = NoMonitor;
  static constexpr std::string_view name() { return {}; }
};

namespace checkpointing {
/// Whether the first argument is a metric to watch.
template <class M>
inline constexpr bool watches = Watchable<M> && !std::same_as<M, NoMonitor>;
}  // namespace checkpointing

}  // namespace fulgurite

namespace fulgurite::checkpointing {

// The folder that a ModelCheckpoint writes to, and what it has to do with the folder of a run that was resumed.

/// A folder, and the one that a loaded state names.
class Place {
 public:
  /// `given` is the folder that the options name; empty where they name none.
  explicit Place(std::filesystem::path given) : given_(std::move(given)) {}

  std::filesystem::path const& folder() const { return folder_; }

  /// Where files of this run and of earlier ones may lie: in the folder; before a run is set up in the folders that
  /// earlier runs may have had, which are those of the loggers' runs where there is a logger.
  std::vector<std::filesystem::path> folders(CheckpointSearch const& search) const;

  /// A run is set up: the folder is the one given, else `checkpoints` in the first logger's folder, else in
  /// default_root_dir. Returns whether it is another one than that of a run which was loaded before.
  bool choose(Context const& ctx);

  /// Warns where files of others lie in the folder.
  void tell_of_files(Context const& ctx) const;

  /// Warns, once, where the run goes on in another folder than the one that was loaded. Returns whether it does.
  bool tell_of_move(Context const& ctx);

  /// Loading, the folder is that of the run before, unless one was given or chosen.
  void state(auto& archive);
  /// The state that was loaded last names another folder.
  bool is_elsewhere() const { return is_elsewhere_; }
  /// Nothing was resumed after all: the folder is that of before, and the next run moves from nowhere.
  void do_not_continue();
  /// The loaded state spells this folder in another way, as "runs/c" and "./runs/c" are one; else empty. Asked
  /// once.
  std::filesystem::path take_other_spelling();
  /// The move was told of before.
  void forget_move() { moved_from_.clear(); }

 private:
  /// A run that is resumed into another folder must not delete what the first one left.
  bool moved();
  static bool is_same(std::filesystem::path const& one, std::filesystem::path const& other);

  std::filesystem::path given_;
  std::filesystem::path folder_{};
  std::filesystem::path before_{};  ///< the folder before this call's setup
  std::filesystem::path loaded_{}, moved_from_{}, other_spelling_{};
  bool chosen_ = false, is_elsewhere_ = false;
};

// What a ModelCheckpoint can say of the files that it keeps.

/// Its options, its folder, and its files.
class Results {
 public:
  /// The best file; where no metric is watched, the latest one. Empty while there is none.
  std::filesystem::path const& best_model_path() const { return kept_.ranking().best; }
  std::optional<double> best_model_score() const { return kept_.ranking().best_score; }
  std::optional<double> current_score() const { return current_; }
  std::filesystem::path const& last_model_path() const { return kept_.last().file; }
  std::filesystem::path const& dirpath() const { return place_.folder(); }
  std::vector<std::filesystem::path> const& best_k_models() const { return top().paths(); }  ///< in the order of saving
  std::vector<double> const& best_k_scores() const { return top().scores(); }
  /// The file that gives way next, and its value; empty, and nothing, while fewer than k are kept.
  std::filesystem::path kth_best_model_path() const;
  std::optional<double> kth_value() const;

  /// Writes the files that are kept and their values as YAML, "path: value" in each line, to best_k_models.yaml in the
  /// folder unless a file is given.
  void to_yaml(std::filesystem::path const& file = {}) const;

 protected:
  Results(ModelCheckpointOptions options, WatchedMetric monitor);

  void tell(bool here, std::string const& what) const;

  void settle(SavedFile const& saved, Outcome& outcome) const;

  void publish(Outcome& outcome) const;

  TopK const& top() const { return kept_.ranking().top; }
  bool writes_any() const;

  ModelCheckpointOptions options_;
  Place place_;
  KeptFiles kept_;
  std::optional<double> current_ = std::nullopt;
  WatchedMetric monitor_;  ///< none: the latest file is kept
};

// The files that a ModelCheckpoint has asked for and that are not written yet.

/// A file that was asked for and is not written yet.
struct Waiting {
  SavingFile file{};      ///< nothing yet where `in_batch`
  long before = 0;        ///< the step of the file before it
  bool in_batch = false;  ///< for the step of a batch: it is ranked and named when it is due

  void state(auto& archive);
};

/// Each is written at the trainer's next safe point.
class Requests : public Results {
 protected:
  using Results::Results;

  bool at_train_epoch_end(Context const& ctx) const;
  void request(Context const& ctx, SavingFile now);

  /// Asks for a file. Its name on the disk is chosen when it is written, since those of other callbacks exist by then.
  void ask(Context const& ctx, Waiting const& now);
  /// What was asked for is due.
  void write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome);
  /// Asks for the file called last, unless it holds this step.
  void ask_for_last(Context const& ctx);

  void tell_of_gone(Context const& ctx);

  std::optional<Waiting> waiting_ = std::nullopt;
  std::vector<std::filesystem::path> gone_{};  ///< files of the state that was loaded that are not there
  long last_saved_ = 0;                        ///< the step of the latest file that was asked for
  bool deferred_ = false;
};

// Which steps a ModelCheckpoint asks files for: those whose value is known, and among the best.

class Admission : public Requests {
 protected:
  Admission(ModelCheckpointOptions options, WatchedMetric monitor);

  /// Nothing is saved twice at one step, or outside of fit.
  bool skips(Context const& ctx) const;

  /// Asks for a file of the step that a batch has made. Only when the batch is over is it known whether a validation
  /// follows, which then ranks and names the file.
  void save_step_of_batch(Context const& ctx, long before);
  void save_step_of_batch(Context const& ctx);

  /// Whether the first validation is yet to tell the metric.
  bool value_is_to_come(Context const& ctx) const;

  void save(Context const& ctx);
  void save(Context const& ctx, int epoch);

  /// The watched value. Its age counts from the step at which this callback has seen it first: it looks at the end of
  /// each validation, and where a file is due.
  std::optional<double> seen_now(Context const& ctx);
  /// What this fit logs is new, however often an earlier one has logged it.
  void forget_seen() { seen_ = {}; }

  /// A file of now; nullopt where none is kept, or its value is not among the best.
  std::optional<SavingFile> admitted(Context const& ctx, int epoch);

  Name name_;
  bool validated_ = false;

 private:
  void missing(Context const& ctx);

  /// A value that was logged before the weights were last trained ranks their file.
  void tell_of_old_value(Context const& ctx);

  /// How often the metric was logged when a new value was seen, and the step of then.
  struct Seen {
    long logged = 0, step = 0;
  };
  Seen seen_{};
  bool warned_ = false, warned_of_age_ = false;
};

// When a ModelCheckpoint asks for a file, and what it does with the events of a run.

/// A ModelCheckpoint without the type of its metric.
class Saver : public Admission {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::on_train_batch_end,
                           hook::on_train_epoch_end, hook::on_validation_end, hook::on_train_end, hook::on_fit_end,
                           hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool keeps_checkpoints = true;
  static constexpr std::string_view reads = "the state of the run";

  Saver(ModelCheckpointOptions const& options, WatchedMetric monitor);
  Saver(Saver const&) = default;
  Saver& operator=(Saver const&) = default;
  FULGURITE_MOVES(Saver);

  void setup(Context& ctx);

  /// The state of a resumed run is loaded.
  void on_fit_start(Context& ctx);

  void on_train_start(Context& ctx);

  void on_train_batch_end(Context& ctx);

  void on_train_epoch_end(Context& ctx);

  void on_validation_end(Context& ctx);

  void on_train_end(Context& ctx);

  /// What a run before this one has left to do is done, also where nothing was trained any more.
  void on_fit_end(Context& ctx);

  void teardown(auto&) { in_fit_ = false; }
  void on_exception(Context& ctx);

  /// The fit has failed before it went on from its file.
  void do_not_continue();

  std::string state_key() const;
  /// The files that a run may go on from, CkptPath{"last"}: all in the folder that could be one of this callback's.
  /// With no folder of its own and before setup, they are those of all runs that the search knows.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const;

  /// A state that is loaded within a fit is one of the same fit, which goes back, or what was resumed before the first
  /// batch was due: nothing is resumed then.
  void state(auto& archive);

 private:
  Timing timing_;
  bool resumed_ = false;
  bool moved_ = false;  ///< into another folder than that of the run which it resumes
  bool in_fit_ = false;
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

namespace checkpointing {
template <class T>
inline constexpr bool is_folder = std::is_convertible_v<T const&, std::filesystem::path>;
}  // namespace checkpointing

/// Asks for checkpoints, and keeps the best or the latest ones: `ModelCheckpoint{Net::val_loss}`, `ModelCheckpoint{}`,
/// `ModelCheckpoint{{.dirpath = "runs/mlp"}}`, or `ModelCheckpoint{Net::val_accuracy, {.dirpath = "runs/mlp", .mode =
/// Mode::max, .save_top_k = 2}}`. It never saves before the first optimizer step, twice at one step, in the sanity
/// check or outside of fit.
template <class M = NoMonitor>
class ModelCheckpoint : public checkpointing::Saver {
  static constexpr bool is_metric = Watchable<M>;  // a bool: the concept's own explanation would follow the sentence
  static_assert(
      is_metric,
      "[fulgurite.callback.dirpath] ModelCheckpoint watches a metric of the model, and its folder is an option: "
      "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}, or ModelCheckpoint{{.dirpath = \"runs\"}}");

 public:
  static constexpr bool watches = checkpointing::watches<M>;
  using Watches = std::conditional_t<watches, MetricTypes<M>, MetricTypes<>>;
  using Options = ModelCheckpointOptions;

  explicit ModelCheckpoint(M monitor, Options const& options = {}) : Saver(options, watched(monitor)) {}
  explicit ModelCheckpoint(Options const& options = {})
    requires(!watches)
      : ModelCheckpoint(NoMonitor{}, options) {}
  /// Refused with a sentence: the folder is an option.
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

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/model_checkpoint.ipp>
#endif
