#pragma once
// Decides when a checkpoint is due, what it is called and which older ones give way; the trainer writes it at the next
// safe point. See docs/semantics.md, Checkpoints.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_admission.hpp>
#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/checkpoint_timing.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/no_monitor.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/numbers.hpp>

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
    bool const moved = place_.state(archive);
    archive("waiting", waiting_)("current_score", current_)("last_saved_step", last_saved_)("deferred", deferred_)(
        "validated", validated_);
    timing_.state(archive);
    kept_.state(archive);
    checkpointing::options_state(options_, archive);
    if (!archive.loading) return;
    kept_.respell(place_.take_other_spelling(), place_.folder());
    if (!in_fit_) gone_ = kept_.gone();
    kept_.forget(gone_);
    if (moved) kept_.leave();
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
