#pragma once
// Decides when a checkpoint is due, what it is called and which older ones give way; the trainer writes it at the next
// safe point. See docs/semantics.md, Checkpoints.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/checkpoint_place.hpp>
#include <fulgurite/callback/checkpoint_timing.hpp>
#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/top_k.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/yaml.hpp>

namespace fulgurite {

/// Stands in place of a metric where none is watched: the latest file is kept.
struct NoMonitor {
  using metric = NoMonitor;
  static constexpr std::string_view name() { return {}; }
};

namespace checkpointing {
/// Whether the first argument is a metric to watch.
template <class M>
inline constexpr bool watches = Watchable<M> && !std::same_as<M, NoMonitor>;
template <class T>
inline constexpr bool is_folder = std::is_convertible_v<T const&, std::filesystem::path>;
}  // namespace checkpointing

/// Asks for checkpoints, and keeps the best or the latest ones: `ModelCheckpoint{Net::val_loss}`, `ModelCheckpoint{}`,
/// `ModelCheckpoint{{.dirpath = "runs/mlp"}}`, or `ModelCheckpoint{Net::val_accuracy, {.dirpath = "runs/mlp", .mode =
/// Mode::max, .save_top_k = 2}}`. It never saves before the first optimizer step, twice at one step, in the sanity
/// check or outside of fit.
template <class M = NoMonitor>
class ModelCheckpoint {
  static constexpr bool is_metric = Watchable<M>;  // a bool: the concept's own explanation would follow the sentence
  static_assert(
      is_metric,
      "[fulgurite.callback.dirpath] ModelCheckpoint watches a metric of the model, and its folder is an option: "
      "ModelCheckpoint{Net::val_loss, {.dirpath = \"runs\"}}, or ModelCheckpoint{{.dirpath = \"runs\"}}");

 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end,
                           hook::on_validation_end, hook::on_train_end, hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;
  static constexpr bool keeps_checkpoints = true;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool watches = checkpointing::watches<M>;
  using Watches = std::conditional_t<watches, MetricTypes<M>, MetricTypes<>>;
  using Options = ModelCheckpointOptions;

  explicit ModelCheckpoint(M monitor, Options options = {})
      : monitor_(monitor),
        options_(std::move(options)),
        name_(options_),
        timing_(checkpointing::checked(options_, watches)),
        place_(options_.dirpath),
        kept_(options_) {}
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

  /// The best file; where no metric is watched, the latest one. Empty while there is none.
  std::filesystem::path const& best_model_path() const { return kept_.ranking().best; }
  std::optional<double> best_model_score() const { return kept_.ranking().best_score; }
  std::optional<double> current_score() const { return current_; }
  std::filesystem::path const& last_model_path() const { return kept_.last().file; }
  std::filesystem::path const& dirpath() const { return place_.folder(); }
  std::vector<std::filesystem::path> const& best_k_models() const { return top().paths(); }  ///< in the order of saving
  std::vector<double> const& best_k_scores() const { return top().scores(); }
  /// The file that gives way next, and its value; empty, and nothing, while fewer than k are kept.
  std::filesystem::path kth_best_model_path() const {
    return top().full() && top().size() != 0 ? top().worst_path() : std::filesystem::path{};
  }
  std::optional<double> kth_value() const {
    return top().full() && top().size() != 0 ? std::optional(top().worst_score()) : std::nullopt;
  }

  /// Writes the files that are kept and their values as YAML, "path: value" in each line, to best_k_models.yaml in the
  /// folder unless a file is given.
  void to_yaml(std::filesystem::path const& file = {}) const {
    std::string text;
    for (std::size_t i = 0; i != top().size(); ++i)
      text += json::quoted(top().paths()[i].string()) + ": " + report::yaml(top().scores()[i]) + "\n";
    write_durably(file.empty() ? dirpath() / "best_k_models.yaml" : file, text.empty() ? "{}\n" : text);
  }

  void setup(auto& ctx) {
    if (place_.choose(ctx)) kept_.leave();
    bool const writes = watch::in_fit(ctx) && ctx.rank() == 0;
    place_.tell_of_move(ctx);
    if (writes && options_.save_top_k != 0) place_.tell_of_files(ctx);
    // A folder that cannot be made is told of now, not when the first epoch is over.
    if (writes && writes_any()) DurableFile const probe(dirpath() / "probe");
    name_.check(ctx);
  }

  void on_train_start(auto& ctx) {
    place_.tell_of_move(ctx);
    timing_.begin(ctx);
    validated_ = false;
    in_fit_ = true;
    if (!std::exchange(resumed_, false)) {  // a fit that failed may have left them
      deferred_ = false;
      waiting_.reset();
      gone_.clear();
    }
    tell_of_gone(ctx);
    kept_.hold(ctx.held_files(), this);
    publish(ctx.outcome());
    if (waiting_) ask(ctx, *waiting_);  // the run was stopped between this request and its file
  }

  void on_train_batch_end(auto& ctx) {
    // Within a window there is no step to save yet; a file that was asked for here would hold the step to come.
    if (ctx.accumulating()) return;
    bool const by_step = timing_.by_steps(ctx);
    if (!skips(ctx) && (by_step || timing_.by_time(ctx))) save_step(ctx, true);
  }

  void on_train_epoch_end(auto& ctx) {
    bool const by_step = timing_.by_flushed_step(ctx);
    if (skips(ctx)) return;
    if (by_step) save_step(ctx, false);
    else if (at_train_epoch_end(ctx) && timing_.by_epoch(ctx)) save(ctx);
  }

  void on_validation_end(auto& ctx) {
    if (!watch::in_fit(ctx)) return;
    validated_ = true;
    bool const by_step = timing_.by_flushed_step(ctx);
    if (skips(ctx)) return;
    if (std::exchange(deferred_, false) || by_step || (!at_train_epoch_end(ctx) && timing_.by_epoch(ctx))) save(ctx);
  }

  void on_train_end(auto& ctx) {
    if (std::exchange(deferred_, false) && !skips(ctx)) save(ctx);  // the validation it waited for did not come
    if (!KeptFiles::copies_last(options_) || !watch::in_fit(ctx) || ctx.global_step() == 0) return;
    ctx.request_checkpoint({this, [this, step = ctx.global_step(), &outcome = ctx.outcome()](CheckpointFiles& files) {
                              if (kept_.last().step != step)
                                settle(kept_.save_last(files, dirpath(), options_, step), outcome);
                            }});
  }

  void teardown(auto&) { in_fit_ = false; }
  void on_exception(auto& ctx) {
    in_fit_ = false;
    if (options_.save_on_exception && !skips(ctx))
      request(ctx, {.name = name_.text(ctx), .step = ctx.global_step(), .ranked = false});
  }

  /// The fit has failed before it went on from its file.
  void do_not_continue() {
    resumed_ = false;
    place_.do_not_continue();
    gone_.clear();
  }

  std::string state_key() const {
    auto const number = [](auto const& n) { return n ? std::to_string(*n) : std::string("-"); };
    return "ModelCheckpoint{" + std::string(M::name()) + (options_.mode == Mode::min ? ", min, " : ", max, ") +
           number(options_.every_n_train_steps) + ", " + number(options_.every_n_epochs) + ", " +
           (options_.train_time_interval ? report::exact(options_.train_time_interval->count()) : "-") + "}";
  }
  /// The files that a run may go on from, CkptPath{"last"}: all in the folder that could be one of this callback's.
  /// With no folder of its own and before setup, they are those of all runs that the search knows.
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const {
    std::vector<std::filesystem::path> files;
    for (auto const& folder : place_.folders(search))
      for (auto& file : name_.files_in(folder, options_.extension)) files.push_back(std::move(file));
    if (!last_model_path().empty()) files.push_back(last_model_path());
    return files;
  }

  /// A state that is loaded within a fit is one of the same fit, which goes back, or what was resumed before the first
  /// batch was due: nothing is resumed then.
  void state(auto& archive) {
    bool const moved = place_.state(archive);
    archive("waiting", waiting_)("current_score", current_)("last_saved_step", last_saved_)("deferred", deferred_)(
        "validated", validated_);
    timing_.state(archive);
    kept_.state(archive);
    if (!archive.loading) return;
    if (!in_fit_) gone_ = kept_.gone();
    kept_.forget(gone_);
    if (moved) kept_.leave();
    if (in_fit_) place_.forget_move();
    else resumed_ = true;
  }

 private:
  bool at_train_epoch_end(auto& ctx) const { return watch::at_train_epoch_end(options_.save_on_train_epoch_end, ctx); }
  bool skips(auto& ctx) const { return !watch::in_fit(ctx) || ctx.global_step() == last_saved_; }

  /// Whether a validation is about to run, so that the value of an earlier one is out of date.
  bool validation_follows(auto& ctx) const {
    return watches && ctx.has_validation() && ctx.is_last_batch() &&
           (ctx.validating_each_epoch_end() || !at_train_epoch_end(ctx));
  }
  /// Saves the step that is due: at once, or when the validation that follows knows the metric.
  void save_step(auto& ctx, bool in_batch) {
    if constexpr (watches) {
      if ((in_batch && validation_follows(ctx)) || (ctx.has_validation() && !ctx.shared_value(monitor_))) {
        deferred_ = true;
        return;
      }
    }
    save(ctx, in_batch);
  }

  void save(auto& ctx, bool in_batch = false) {
    SavingFile now{.name = {}, .epoch = ctx.current_epoch(), .step = ctx.global_step()};
    if constexpr (watches) {
      now.score = ctx.shared_value(monitor_);
      if (!now.score) return missing(ctx);
      if (std::isnan(*now.score)) now.score = watch::worst(options_.mode);
      current_ = now.score;
      if (options_.save_top_k != 0 && !top().admits(*now.score)) {
        tell(ctx.rank() == 0, std::string(M::name()) + " = " + report::exact(*now.score) + " is not among the best");
        return;
      }
    }
    if (!writes_any()) return;
    now.name = name_.text(ctx);
    request(ctx, std::move(now), in_batch);
  }

  /// A file that was asked for and is not written yet.
  struct Waiting {
    SavingFile file{};
    long before = 0;  ///< the step of the file before it
    bool in_batch =
        false;  ///< this is the end of a batch, of which it is sometimes known only later whether it is last

    void state(auto& archive) { archive("file", file)("before", before)("in_batch", in_batch); }
  };

  void request(auto& ctx, SavingFile now, bool in_batch = false) {
    long const before = std::exchange(last_saved_, ctx.global_step());
    ask(ctx, {std::move(now), before, in_batch});
  }

  /// Asks for a file. Its name on the disk is chosen when it is written, since those of other callbacks exist by then.
  void ask(auto& ctx, Waiting const& now) {
    waiting_ = now;
    ctx.request_checkpoint({this, [this, now, ctx, &outcome = ctx.outcome()](CheckpointFiles& files) {
                              gone_.clear();     // a name may be used again
                              waiting_.reset();  // the state in the file is that of after it
                              if (now.in_batch && validation_follows(ctx)) {
                                deferred_ = true;
                                last_saved_ = now.before;
                                return;
                              }
                              auto const then = [this, before = now.before, &outcome](CheckpointFiles const& done,
                                                                                      SavedFile const& saved) {
                                if (saved.file.empty()) last_saved_ = before;
                                else tell(done.writes(), "saved " + saved.file.string());
                                settle(saved, outcome);
                              };
                              if (files.later()) kept_.save_later(files, dirpath(), options_, now.file, then);
                              else then(files, kept_.save(files, dirpath(), options_, now.file));
                            }});
  }

  void settle(SavedFile const& saved, Outcome& outcome) const {
    if (!saved.file.empty()) outcome.last_file = saved.file;
    publish(outcome);
    if (saved.failure) std::rethrow_exception(saved.failure);
  }

  void tell_of_gone(auto& ctx) {
    if (gone_.empty()) return;
    std::string all;
    for (auto const& file : gone_) (all += all.empty() ? "" : ", ") += file.string();
    ctx.warn_each("fulgurite.callback.checkpoint_gone", "ModelCheckpoint: " + all +
                                                            ": kept by the run that goes on, and no longer there; what "
                                                            "is gone leaves the ranking");
  }

  void missing(auto& ctx) {
    std::string const what = "ModelCheckpoint watches '" + std::string(M::name()) +
                             "', which nobody has logged by step " + std::to_string(ctx.global_step());
    if (validated_ || !ctx.has_validation())
      throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
    if (!std::exchange(warned_, true))
      ctx.warn_each("fulgurite.callback.checkpoint_waits", what + ": nothing is saved before it is");
  }

  void tell(bool here, std::string const& what) const {
    if (options_.verbose && here) std::fprintf(stderr, "ModelCheckpoint: %s\n", what.c_str());
  }

  void publish(Outcome& outcome) const {
    auto const& ranking = kept_.ranking();
    if (!watches || !ranking.best_score) return;
    outcome.best_metric = M::name();
    outcome.best_value = ranking.best_score;
    outcome.best_epoch = ranking.best_epoch;
    outcome.best_file = ranking.best;
  }

  TopK const& top() const { return kept_.ranking().top; }
  bool writes_any() const { return options_.save_top_k != 0 || options_.save_last.kind != SaveLast::no; }

  [[no_unique_address]] M monitor_;
  Options options_;
  checkpointing::Name name_;
  checkpointing::Timing timing_;
  checkpointing::Place place_;
  KeptFiles kept_;
  std::optional<double> current_ = std::nullopt;
  std::optional<Waiting> waiting_ = std::nullopt;
  std::vector<std::filesystem::path> gone_{};  ///< files of the state that was loaded that are not there
  long last_saved_ = 0;                        ///< the step of the latest file that was asked for
  bool deferred_ = false;
  bool resumed_ = false;
  bool in_fit_ = false;
  bool validated_ = false;
  bool warned_ = false;
};

ModelCheckpoint() -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(ModelCheckpointOptions) -> ModelCheckpoint<NoMonitor>;

}  // namespace fulgurite
