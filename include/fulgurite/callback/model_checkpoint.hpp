#pragma once
// Decides when a checkpoint is due, what it is called and which older ones give way; the trainer writes it at the next safe point.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/callback/file_name.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/top_k.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/yaml.hpp>

namespace fulgurite {

/// No metric is watched: the latest file is kept.
struct NoMonitor {
  using metric = NoMonitor;
  static constexpr std::string_view name() { return {}; }
};

/// `ModelCheckpoint{Net::val_loss, "runs/mlp"}`, `ModelCheckpoint{Net::val_accuracy, "runs/mlp", {.mode = Mode::max, .save_top_k = 2}}`,
/// `ModelCheckpoint{}`. Without a folder: `checkpoints` in the first logger's, else in default_root_dir. Never saves before the first
/// optimizer step, twice at one step, in the sanity check or outside of fit.
template <Watchable M = NoMonitor>
class ModelCheckpoint {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_start, hook::on_train_batch_end, hook::on_train_epoch_end, hook::on_validation_end,
                           hook::on_train_end, hook::on_exception>;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool watches = !std::same_as<M, NoMonitor>;
  using Watches = std::conditional_t<watches, MetricTypes<M>, MetricTypes<>>;
  using Options = ModelCheckpointOptions;

  explicit ModelCheckpoint(M monitor, std::filesystem::path dirpath = {}, Options options = {})
      : monitor_(monitor), asked_(std::move(dirpath)), options_(std::move(options)),
        name_(options_.filename, options_.auto_insert_metric_name),
        top_(options_.mode, options_.save_top_k), rhythm_(checkpointing::checked(options_, watches)) {}
  ModelCheckpoint(M monitor, Options options) : ModelCheckpoint(monitor, std::filesystem::path{}, std::move(options)) {}
  explicit ModelCheckpoint(std::filesystem::path dirpath, Options options = {})
    requires(!watches)
      : ModelCheckpoint(NoMonitor{}, std::move(dirpath), std::move(options)) {}
  explicit ModelCheckpoint(Options options = {})
    requires(!watches)
      : ModelCheckpoint(NoMonitor{}, std::filesystem::path{}, std::move(options)) {}

  std::filesystem::path const& best_model_path() const { return best_path_; }  ///< without a metric: the latest; empty: none yet
  std::optional<double> best_model_score() const { return best_score_; }
  std::optional<double> current_score() const { return current_; }
  std::filesystem::path const& last_model_path() const { return last_path_; }
  std::filesystem::path const& dirpath() const { return dir_; }
  std::vector<std::filesystem::path> const& best_k_models() const { return top_.paths(); }  ///< in the order of saving
  std::vector<double> const& best_k_scores() const { return top_.scores(); }
  /// The one that gives way next; empty, nullopt while fewer than k are kept.
  std::filesystem::path kth_best_model_path() const { return top_.full() && top_.size() != 0 ? top_.worst_path() : std::filesystem::path{}; }
  std::optional<double> kth_value() const { return top_.full() && top_.size() != 0 ? std::optional(top_.worst_score()) : std::nullopt; }

  /// The kept files with their values as YAML: "path: value" a line. Not given a name: best_k_models.yaml in dirpath.
  void to_yaml(std::filesystem::path const& file = {}) const {
    std::string text;
    for (std::size_t i = 0; i != top_.size(); ++i) text += json::quoted(top_.paths()[i].string()) + ": " + report::yaml(top_.scores()[i]) + "\n";
    write_durably(file.empty() ? dir_ / "best_k_models.yaml" : file, text.empty() ? "{}\n" : text);
  }

  void setup(auto& ctx) {
    if (!asked_.empty()) dir_ = asked_;
    else if (!ctx.log_dir().empty()) dir_ = ctx.log_dir() / "checkpoints";
    else dir_ = (ctx.options().default_root_dir / "checkpoints").lexically_normal();
    adopt_folder();
    warn_of_files(ctx);
    name_.each_field([&](std::string const& field) {
      if (field == "epoch" || field == "step") return;
      bool declared = false;
      ctx.each_metric([&](auto const& metric, auto const&) { declared = declared || metric.name() == field; });
      if (!declared || name_.wants_whole(field))
        throw Error("fulgurite.callback.checkpoint_name", "ModelCheckpoint: {" + field + "} in the file name " +
                    (declared ? "is a metric, not a whole number: write {" + field + ":.2f}"
                              : "is neither epoch, step nor a metric of the model"));
    });
  }

  void on_train_start(auto& ctx) {
    time_checked_ = ctx.seconds_now();
    looked_ = ctx.global_step();
    validated_ = false;
    if (!std::exchange(resumed_, false)) deferred_ = false;  // what a fit that failed was waiting for
    if (!best_path_.empty()) publish(ctx);
  }

  void on_train_batch_end(auto& ctx) {
    // A batch may hold several steps: what counts is whether one of them was an n-th.
    long const before = std::exchange(looked_, ctx.global_step());
    if (skips(ctx)) return;
    bool const by_step = rhythm_.steps >= 1 && before / rhythm_.steps != looked_ / rhythm_.steps;
    bool by_time = false;
    if (rhythm_.seconds) {
      double const now = ctx.seconds_now();
      by_time = now - time_checked_ >= *rhythm_.seconds;
      if (by_time) time_checked_ = now;
    }
    if (!by_step && !by_time) return;
    if constexpr (watches) {
      // The value of an earlier validation is stale where the next one is about to run.
      bool const validation_follows = ctx.is_last_batch() && (ctx.validating_each_epoch_end() || !at_train_epoch_end(ctx));
      if (ctx.has_validation() && (validation_follows || !ctx.value(monitor_))) {
        deferred_ = true;
        return;
      }
    }
    save(ctx);
  }

  void on_train_epoch_end(auto& ctx) {
    if (!skips(ctx) && at_train_epoch_end(ctx) && epoch_due(ctx)) save(ctx);
  }

  void on_validation_end(auto& ctx) {
    if (!watch::in_fit(ctx)) return;
    validated_ = true;
    if (skips(ctx) || (!deferred_ && at_train_epoch_end(ctx))) return;
    if (std::exchange(deferred_, false) || epoch_due(ctx)) save(ctx);
  }

  void on_train_end(auto& ctx) {
    if (std::exchange(deferred_, false) && !skips(ctx)) save(ctx);  // the validation it waited for did not come
    if (copies_last() && watch::in_fit(ctx) && ctx.global_step() != 0 && last_written_ != ctx.global_step()) {
      auto const path = last_file(ctx);
      request(ctx, path);
    }
  }

  void on_exception(auto& ctx) {
    if (!options_.save_on_exception || skips(ctx)) return;
    auto const path = fresh(name(ctx), {});
    request(ctx, path, last_copies(ctx));
  }

  std::string state_key() const {
    auto const number = [](auto const& n) { return n ? std::to_string(*n) : std::string("-"); };
    return "ModelCheckpoint{" + std::string(M::name()) + (options_.mode == Mode::min ? ", min, " : ", max, ") +
           number(options_.every_n_train_steps) + ", " + number(options_.every_n_epochs) + ", " +
           (options_.train_time_interval ? report::exact(options_.train_time_interval->count()) : "-") + "}";
  }
  void state(auto& archive) {
    archive("dirpath", dir_)("best_model_path", best_path_)("best_model_score", best_score_)("best_epoch", best_epoch_);
    archive("current_score", current_)("last_model_path", last_path_)("last_saved_step", last_saved_);
    archive("last_written_step", last_written_)("deferred", deferred_);
    archive.child("best_k_models", top_);
    if (archive.loading) {
      resumed_ = true;
      loaded_dir_ = dir_;
      if (!asked_.empty()) dir_ = asked_;
      adopt_folder();
    }
  }

 private:
  bool at_train_epoch_end(auto& ctx) const { return watch::at_train_epoch_end(options_.save_on_train_epoch_end, ctx); }
  bool epoch_due(auto& ctx) const { return rhythm_.epochs >= 1 && (ctx.current_epoch() + 1) % rhythm_.epochs == 0; }
  bool skips(auto& ctx) const { return !watch::in_fit(ctx) || ctx.global_step() == last_saved_; }

  void save(auto& ctx) {
    std::optional<std::filesystem::path> displaced = std::nullopt;
    std::filesystem::path path;
    if constexpr (watches) {
      std::optional<double> value = ctx.value(monitor_);
      if (!value) return missing(ctx);
      if (std::isnan(*value)) value = watch::worst(options_.mode);
      current_ = value;
      if (options_.save_top_k != 0) {
        if (!top_.admits(*value)) {
          tell(ctx, std::string(M::name()) + " = " + report::exact(*value) + " is not among the best");
          return;
        }
        displaced = top_.displaced();
        path = fresh(name(ctx), displaced.value_or(std::filesystem::path{}));
        top_.add(path, *value);
        if (top_.best_path() == path) best_epoch_ = ctx.current_epoch();
        best_path_ = top_.best_path();
        best_score_ = top_.best_score();
      }
    } else if (options_.save_top_k != 0) {
      if (options_.save_top_k == 1 && !best_path_.empty()) displaced = best_path_;
      path = fresh(name(ctx), displaced.value_or(std::filesystem::path{}));
      best_path_ = path;
      best_epoch_ = ctx.current_epoch();
    }
    auto copies = last_copies(ctx);
    if (path.empty()) {
      if (copies.empty()) return;
      path = std::exchange(copies, {}).front();
    }
    last_saved_ = ctx.global_step();
    std::vector<std::filesystem::path> remove;
    if (displaced && *displaced != path && checkpointing::inside(dir_, *displaced)) remove.push_back(*displaced);
    publish(ctx);
    tell(ctx, "saving " + path.string());
    request(ctx, path, std::move(copies), std::move(remove));
    ctx.outcome().last_file = path;
  }

  void request(auto& ctx, std::filesystem::path const& path, std::vector<std::filesystem::path> copies = {},
               std::vector<std::filesystem::path> remove = {}) {
    CheckpointRequest wanted(path, std::move(copies), std::move(remove));
    wanted.save_weights_only = options_.save_weights_only;
    if (options_.save_last.kind == SaveLast::link && !copies_last()) wanted.link = last_file(ctx);
    ctx.request_checkpoint(std::move(wanted));
  }

  void missing(auto& ctx) {
    std::string const what =
        "ModelCheckpoint watches '" + std::string(M::name()) + "', which nobody has logged by step " + std::to_string(ctx.global_step());
    if (validated_ || !ctx.has_validation())
      throw Error("fulgurite.callback.checkpoint_metric", what + ": log it, or watch another metric");
    if (!std::exchange(warned_, true) && ctx.rank() == 0) std::fprintf(stderr, "%s: nothing is saved before it is\n", what.c_str());
  }

  void tell(auto& ctx, std::string const& what) const {
    if (options_.verbose && ctx.rank() == 0) std::fprintf(stderr, "ModelCheckpoint: %s\n", what.c_str());
  }

  void publish(auto& ctx) const {
    if (!watches || !best_score_) return;
    auto& outcome = ctx.outcome();
    outcome.best_metric = M::name();
    outcome.best_value = best_score_;
    outcome.best_epoch = best_epoch_;
    outcome.best_file = best_path_;
  }

  std::string name(auto& ctx) const {
    return name_.text([&](std::string const& field) -> FileName::Value {
      if (field == "epoch") return {static_cast<double>(ctx.current_epoch()), true};
      if (field == "step") return {static_cast<double>(ctx.global_step()), true};
      FileName::Value found;
      ctx.each_metric([&](auto const& metric, auto const&) {
        if (metric.name() != field) return;
        if (std::optional<double> const value = ctx.value(metric)) found = {*value, false};
      });
      return found;
    });
  }

  /// `ours` may be overwritten, what else exists leads to a version of the name.
  std::filesystem::path fresh(std::string const& name, std::filesystem::path const& ours) const {
    if (!options_.enable_version_counter) return dir_ / (name + options_.extension);
    return checkpointing::unused_name(dir_, name, options_.extension, ours, [&](auto const& path) { return top_.contains(path); });
  }
  std::filesystem::path const& last_file(auto& ctx) {
    last_path_ = fresh("last", last_path_);
    last_written_ = ctx.global_step();
    ctx.outcome().last_file = last_path_;
    return last_path_;
  }
  std::vector<std::filesystem::path> last_copies(auto& ctx) {
    std::vector<std::filesystem::path> copies;
    if (copies_last()) copies.push_back(last_file(ctx));
    return copies;
  }
  /// Where no file is kept there is none to link to.
  bool copies_last() const {
    return options_.save_last.kind == SaveLast::copy || (options_.save_last.kind == SaveLast::link && options_.save_top_k == 0);
  }

  void warn_of_files(auto& ctx) const {
    std::error_code none;
    if (!watch::in_fit(ctx) || options_.save_top_k == 0 || ctx.rank() != 0 || !std::filesystem::is_directory(dir_, none)) return;
    if (!std::filesystem::is_empty(dir_, none))
      std::fprintf(stderr, "ModelCheckpoint: %s is not empty: what lies there is left alone\n", dir_.c_str());
  }

  // A run resumed into another folder must not delete what the first one left.
  void adopt_folder() {
    if (loaded_dir_.empty() || dir_.empty() || loaded_dir_ == dir_) return;
    std::fprintf(stderr, "ModelCheckpoint: resumed from %s into %s: the best file is remembered, the other kept ones are left alone\n",
                 loaded_dir_.c_str(), dir_.c_str());
    loaded_dir_.clear();
    top_.clear();
    last_path_.clear();
  }

  [[no_unique_address]] M monitor_;
  std::filesystem::path asked_;
  Options options_;
  FileName name_;
  TopK top_;
  checkpointing::Rhythm rhythm_;
  std::filesystem::path dir_{};
  std::filesystem::path loaded_dir_{};
  std::filesystem::path best_path_{};
  std::filesystem::path last_path_{};
  std::optional<double> best_score_ = std::nullopt;
  std::optional<double> current_ = std::nullopt;
  int best_epoch_ = 0;
  long last_saved_ = 0;
  long last_written_ = 0;
  double time_checked_ = 0;
  long looked_ = 0;  ///< steps that on_train_batch_end has looked at
  bool deferred_ = false;
  bool resumed_ = false;
  bool validated_ = false;
  bool warned_ = false;
};

ModelCheckpoint() -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(ModelCheckpointOptions) -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(std::filesystem::path) -> ModelCheckpoint<NoMonitor>;
ModelCheckpoint(std::filesystem::path, ModelCheckpointOptions) -> ModelCheckpoint<NoMonitor>;

}  // namespace fulgurite
