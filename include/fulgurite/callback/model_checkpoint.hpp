#pragma once
// Decides when a checkpoint is due, what it is called and which older ones give way; the trainer writes it at the next
// safe point. See docs/semantics.md, Checkpoints.

#include <cmath>
#include <concepts>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/numbers.hpp>

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
  bool choose(auto& ctx) {
    before_ = folder_;
    if (!given_.empty()) folder_ = given_;
    else if (!ctx.log_dir().empty()) folder_ = ctx.log_dir() / "checkpoints";
    else folder_ = (ctx.options().default_root_dir / "checkpoints").lexically_normal();
    folder_ = ctx.of_first_rank(folder_.string());  // loggers name theirs there alone
    chosen_ = true;
    return moved();
  }

  /// Warns where files of others lie in the folder.
  void tell_of_files(auto& ctx) const {
    std::error_code none;
    if (std::filesystem::is_directory(folder_, none) && !std::filesystem::is_empty(folder_, none))
      ctx.warn_each("fulgurite.callback.checkpoint_folder",
                    "ModelCheckpoint: " + folder_.string() + " is not empty: what lies there is left alone");
  }

  /// Warns, once, where the run goes on in another folder than the one that was loaded. Returns whether it does.
  bool tell_of_move(auto& ctx) {
    auto const from = std::exchange(moved_from_, {});
    if (!from.empty())
      ctx.warn_each("fulgurite.callback.checkpoint_moved",
                    "ModelCheckpoint: resumed from " + from.string() + " into " + folder_.string() +
                        ": the best file is remembered, the other kept ones are left alone");
    return !from.empty();
  }

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
  /// `watched`: the metric as it is watched, and `metric` its own name; both empty where none is.
  Results(ModelCheckpointOptions options, std::string watched, std::string_view metric);

  void tell(bool here, std::string const& what) const;

  void settle(SavedFile const& saved, Outcome& outcome) const;

  void publish(Outcome& outcome) const;

  TopK const& top() const { return kept_.ranking().top; }
  bool writes_any() const;

  ModelCheckpointOptions options_;
  Place place_;
  KeptFiles kept_;
  std::optional<double> current_ = std::nullopt;

 private:
  std::string watched_, metric_;
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

  bool at_train_epoch_end(auto& ctx) const { return watch::at_train_epoch_end(options_.save_on_train_epoch_end, ctx); }
  void request(auto& ctx, SavingFile now) {
    long const before = std::exchange(last_saved_, ctx.global_step());
    ask(ctx, {std::move(now), before});
  }

  /// Asks for a file. Its name on the disk is chosen when it is written, since those of other callbacks exist by then.
  void ask(auto& ctx, Waiting const& now) {
    waiting_ = now;
    ctx.request_checkpoint(
        {this, [this, now, &outcome = ctx.outcome()](CheckpointFiles& files) { write_waiting(files, now, outcome); }});
  }
  /// What was asked for is due.
  void write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome);
  /// Asks for the file called last, unless it holds this step.
  void ask_for_last(auto& ctx) {
    ctx.request_checkpoint({this, [this, step = ctx.global_step(), &outcome = ctx.outcome()](CheckpointFiles& files) {
                              if (kept_.last().step != step)
                                settle(kept_.save_last(files, dirpath(), options_, step), outcome);
                            }});
  }

  void tell_of_gone(auto& ctx) {
    if (gone_.empty()) return;
    std::string all;
    for (auto const& file : gone_) (all += all.empty() ? "" : ", ") += file.string();
    ctx.warn_each("fulgurite.callback.checkpoint_gone", "ModelCheckpoint: " + all +
                                                            ": kept by the run that goes on, and no longer there; what "
                                                            "is gone leaves the ranking");
  }

  std::optional<Waiting> waiting_ = std::nullopt;
  std::vector<std::filesystem::path> gone_{};  ///< files of the state that was loaded that are not there
  long last_saved_ = 0;                        ///< the step of the latest file that was asked for
  bool deferred_ = false;
};

// Which steps a ModelCheckpoint asks files for: those whose value is known, and among the best.

/// `M`: the metric that is watched, or NoMonitor.
template <class M>
class Admission : public Requests {
 protected:
  Admission(M monitor, ModelCheckpointOptions options)
      : Requests(std::move(options), watches<M> ? watch::written(monitor) : std::string(),
                 watches<M> ? std::string_view(M::name()) : std::string_view()),
        name_(options_),
        monitor_(monitor) {}

  /// Nothing is saved twice at one step, or outside of fit.
  bool skips(auto& ctx) const { return !watch::in_fit(ctx) || ctx.global_step() == last_saved_; }

  /// Asks for a file of the step that a batch has made. Only when the batch is over is it known whether a validation
  /// follows, which then ranks and names the file.
  void save_step_of_batch(auto& ctx, long before) {
    waiting_ = Waiting{.before = before, .in_batch = true};
    ctx.request_checkpoint({this, [this, before, ctx](CheckpointFiles& files) {
                              bool const by_validation = ctx.has_validation() && (watches<M> || name_.tells_metrics());
                              auto const follows = files.validation_follows();
                              last_saved_ = before;
                              // A later hook of the batch has failed. A validation that follows the last batch of an
                              // epoch ranks the file in the run that resumes: it requests the file again.
                              if (by_validation && !follows && ctx.is_last_batch()) return;
                              waiting_.reset();
                              if ((by_validation && follows == true) || value_is_to_come(ctx)) {
                                deferred_ = true;
                              } else if (auto const now = admitted(ctx, ctx.current_epoch())) {
                                last_saved_ = now->step;
                                write_waiting(files, {*now, before}, ctx.outcome());
                              }
                            }});
  }
  void save_step_of_batch(auto& ctx) { save_step_of_batch(ctx, std::exchange(last_saved_, ctx.global_step())); }

  /// Whether the first validation is yet to tell the metric.
  bool value_is_to_come([[maybe_unused]] auto& ctx) const {
    if constexpr (watches<M>) return ctx.has_validation() && !ctx.shared_value(monitor_);
    else return false;
  }

  void save(auto& ctx) { save(ctx, ctx.current_epoch()); }
  void save(auto& ctx, int epoch) {
    if (auto now = admitted(ctx, epoch)) request(ctx, std::move(*now));
  }

  /// The watched value. Its age counts from the step at which this callback has seen it first: it looks at the end of
  /// each validation, and where a file is due.
  std::optional<double> seen_now(auto& ctx) {
    auto const now = ctx.watched_value(monitor_);
    if (now.is_newer_than(seen_.logged)) seen_ = {now.logged, ctx.global_step()};
    return now.value;
  }
  /// What this fit logs is new, however often an earlier one has logged it.
  void forget_seen() { seen_ = {}; }

  /// A file of now; nullopt where none is kept, or its value is not among the best.
  std::optional<SavingFile> admitted(auto& ctx, int epoch) {
    SavingFile now{.name = {}, .epoch = epoch, .step = ctx.global_step()};
    if constexpr (checkpointing::watches<M>) {
      now.score = seen_now(ctx);
      if (!now.score) {
        missing(ctx);
        return std::nullopt;
      }
      if (std::isnan(*now.score)) now.score = watch::worst(options_.mode);
      current_ = now.score;
      if (options_.save_top_k != 0 && !top().admits(*now.score)) {
        tell(ctx.rank() == 0, watch::written(monitor_) + " = " + report::exact(*now.score) + " is not among the best");
        return std::nullopt;
      }
    }
    if (!writes_any()) return std::nullopt;
    if constexpr (checkpointing::watches<M>) tell_of_old_value(ctx);
    now.name = file_name(ctx, epoch);
    return now;
  }

  /// The name of a file of now. The metric that is watched has the value there by which the file is ranked.
  std::string file_name(auto& ctx, int epoch) const {
    return name_.text(ctx, epoch, [&]<class Told>(Told const& metric) {
      if constexpr (std::is_same_v<Told, typename M::metric>) return ctx.shared_value(monitor_);
      else return ctx.shared_value(metric);
    });
  }

  Name name_;
  [[no_unique_address]] M monitor_;
  bool validated_ = false;

 private:
  void missing(auto& ctx) {
    std::string const what = "ModelCheckpoint watches '" + watch::written(monitor_) +
                             "', which nobody has logged by step " + std::to_string(ctx.global_step());
    if (validated_ || !ctx.has_validation())
      throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
    if (!std::exchange(warned_, true))
      ctx.warn_each("fulgurite.callback.checkpoint_waits", what + ": nothing is saved before it is");
  }

  /// A value that was logged before the weights were last trained ranks their file.
  void tell_of_old_value(auto& ctx) {
    if (seen_.step >= ctx.global_step() || std::exchange(warned_of_age_, true)) return;
    ctx.warn_each("fulgurite.callback.checkpoint_old_value",
                  "ModelCheckpoint watches '" + watch::written(monitor_) + "', which was last logged at step " +
                      std::to_string(seen_.step) + ": the file of step " + std::to_string(ctx.global_step()) +
                      " is ranked by that value, which its weights did not have. Save where the metric is logged, or "
                      "validate before each save");
  }

  /// How often the metric was logged when a new value was seen, and the step of then.
  struct Seen {
    long logged = 0, step = 0;
  };
  Seen seen_{};
  bool warned_ = false, warned_of_age_ = false;
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
class ModelCheckpoint : public checkpointing::Admission<M> {
  using Base = checkpointing::Admission<M>;
  static constexpr bool is_metric = Watchable<M>;  // a bool: the concept's own explanation would follow the sentence
  static_assert(
      is_metric,
      "[fulgurite.callback.dirpath] ModelCheckpoint watches a metric of the model, and its folder is an option: "
      "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}, or ModelCheckpoint{{.dirpath = \"runs\"}}");

 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::on_train_batch_end,
                           hook::on_train_epoch_end, hook::on_validation_end, hook::on_train_end, hook::on_fit_end,
                           hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool keeps_checkpoints = true;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool watches = checkpointing::watches<M>;
  using Watches = std::conditional_t<watches, MetricTypes<M>, MetricTypes<>>;
  using Options = ModelCheckpointOptions;

  explicit ModelCheckpoint(M monitor, Options options = {})
      : Base(monitor, std::move(options)), timing_(checkpointing::checked(options_, watches)) {}
  explicit ModelCheckpoint(Options options = {})
    requires(!watches)
      : ModelCheckpoint(NoMonitor{}, std::move(options)) {}
  /// Refused with a sentence: the folder is an option.
  template <class Folder, bool is_option = false>
    requires checkpointing::is_folder<Folder>
  ModelCheckpoint(M monitor, Folder const&, Options options = {}) : ModelCheckpoint(monitor, std::move(options)) {
    static_assert(is_option, "[fulgurite.callback.dirpath] ModelCheckpoint's folder is an option: "
                             "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}");
  }

  void setup(auto& ctx) {
    if (place_.choose(ctx)) kept_.leave();
    kept_.respell(place_.take_other_spelling(), place_.folder());
    bool const writes = watch::in_fit(ctx) && ctx.rank() == 0;
    moved_ = place_.tell_of_move(ctx);
    // A folder that cannot be made is told of now, not when the first epoch is over.
    if (writes && this->writes_any()) DurableFile const probe(this->dirpath() / "probe");
    name_.check(ctx);
  }

  /// The state of a resumed run is loaded.
  void on_fit_start(auto& ctx) { kept_.hold(ctx.held_files(), this); }

  void on_train_start(auto& ctx) {
    if (place_.tell_of_move(ctx)) moved_ = true;
    // Files of this run, earlier in this program or before it was resumed, are no news.
    bool const is_own = !moved_ && (resumed_ || last_saved_ != 0);
    if (ctx.rank() == 0 && options_.save_top_k != 0 && !is_own && watch::in_fit(ctx)) place_.tell_of_files(ctx);
    timing_.begin(ctx, resumed_);
    validated_ = false;
    in_fit_ = true;
    this->forget_seen();
    if (!std::exchange(resumed_, false)) {  // a fit that failed may have left them
      deferred_ = false;
      waiting_.reset();
      gone_.clear();
    }
    this->tell_of_gone(ctx);
    this->publish(ctx.outcome());
    if (!waiting_) return;  // else the run was stopped between this request and its file
    if (waiting_->in_batch) this->save_step_of_batch(ctx, waiting_->before);
    else this->ask(ctx, *waiting_);
  }

  void on_train_batch_end(auto& ctx) {
    // Within a window there is no step to save yet; a file that was asked for here would hold the step to come.
    if (ctx.accumulating()) return timing_.look(ctx);
    bool const by_step = timing_.by_steps(ctx);
    if (!this->skips(ctx) && (by_step || timing_.by_time(ctx))) this->save_step_of_batch(ctx);
  }

  void on_train_epoch_end(auto& ctx) {
    bool const by_step = timing_.by_flushed_step(ctx);
    if (this->skips(ctx)) return;
    if (by_step && this->value_is_to_come(ctx)) deferred_ = true;
    else if (by_step || (this->at_train_epoch_end(ctx) && timing_.by_epoch(ctx.current_epoch()))) this->save(ctx);
  }

  void on_validation_end(auto& ctx) {
    if (!watch::in_fit(ctx)) return;
    validated_ = true;
    if constexpr (watches) static_cast<void>(this->seen_now(ctx));
    bool const by_step = timing_.by_flushed_step(ctx);
    if (this->skips(ctx)) return;
    if (std::exchange(deferred_, false) || by_step ||
        (!this->at_train_epoch_end(ctx) && timing_.by_epoch(ctx.current_epoch())))
      this->save(ctx);
  }

  void on_train_end(auto& ctx) {
    int const epoch = ctx.current_epoch() - 1;  // the last one, which is over
    // Steps behind the last validation: the latest file is that of the run's end.
    bool const behind = !watches && !this->at_train_epoch_end(ctx) && timing_.by_epoch(epoch);
    bool const waited = std::exchange(deferred_, false);  // for a value that did not come
    if ((waited || behind) && !this->skips(ctx)) this->save(ctx, epoch);
    if (!KeptFiles::copies_last(options_) || !watch::in_fit(ctx) || ctx.global_step() == 0) return;
    this->ask_for_last(ctx);
  }

  /// What a run before this one has left to do is done, also where nothing was trained any more.
  void on_fit_end(auto& ctx) {
    if (!kept_.is_unfinished() || !watch::in_fit(ctx)) return;
    ctx.request_checkpoint(
        {this, [this](CheckpointFiles& files) { kept_.complete(files, place_.folder(), options_); }});
  }

  void teardown(auto&) { in_fit_ = false; }
  void on_exception(auto& ctx) {
    in_fit_ = false;
    if (options_.save_on_exception && !this->skips(ctx))
      this->request(ctx,
                    {.name = this->file_name(ctx, ctx.current_epoch()), .step = ctx.global_step(), .ranked = false});
  }

  /// The fit has failed before it went on from its file.
  void do_not_continue() {
    resumed_ = false;
    place_.do_not_continue();
    gone_.clear();
  }

  std::string state_key() const {
    auto const number = [](auto const& n) { return n ? std::to_string(*n) : std::string("-"); };
    return "ModelCheckpoint{" + watch::written(monitor_) + (options_.mode == Mode::min ? ", min, " : ", max, ") +
           number(options_.every_n_train_steps) + ", " + number(options_.every_n_epochs) + ", " +
           (options_.train_time_interval ? report::exact(options_.train_time_interval->count()) : "-") + "}";
  }
  /// The files that a run may go on from, CkptPath{"last"}: all in the folder that could be one of this callback's.
  /// With no folder of its own and before setup, they are those of all runs that the search knows.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const {
    std::vector<std::filesystem::path> files;
    for (auto const& folder : place_.folders(search))
      for (auto& file : name_.files_in(folder, options_.extension)) files.push_back(std::move(file));
    if (auto const& last = this->last_model_path(); !last.empty()) files.push_back(last);
    return files;
  }

  /// A state that is loaded within a fit is one of the same fit, which goes back, or what was resumed before the first
  /// batch was due: nothing is resumed then.
  void state(auto& archive) {
    place_.state(archive);
    archive("waiting", waiting_)("current_score", current_)("last_saved_step", last_saved_)("deferred", deferred_)(
        "validated", validated_);
    timing_.state(archive);
    kept_.state(archive);
    checkpointing::options_state(options_, archive);
    if (!archive.loading) return;
    kept_.respell(place_.take_other_spelling(), place_.folder());
    if (!in_fit_) gone_ = kept_.gone();
    kept_.forget(gone_);
    if (place_.is_elsewhere()) kept_.leave();
    if (in_fit_) place_.forget_move();
    else resumed_ = true;
  }

 private:
  using Base::current_;
  using Base::deferred_;
  using Base::gone_;
  using Base::kept_;
  using Base::last_saved_;
  using Base::monitor_;
  using Base::name_;
  using Base::options_;
  using Base::place_;
  using Base::validated_;
  using Base::waiting_;

  checkpointing::Timing timing_;
  bool resumed_ = false;
  bool moved_ = false;  ///< into another folder than that of the run which it resumes
  bool in_fit_ = false;
};

ModelCheckpoint() -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(ModelCheckpointOptions) -> ModelCheckpoint<NoMonitor>;

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/model_checkpoint.ipp>
#endif
