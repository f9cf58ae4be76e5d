#pragma once
// The part of a hook's context that does not depend on the program's types: where the run is, and requests to it. One
// class for all programs.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

/// A metric's value as a monitor sees it.
struct WatchedValue {
  static constexpr long unknown = -1;
  std::optional<double> value = std::nullopt;
  long logged = 0;  ///< how often the metric was logged in this run, up to `value`

  /// True if the metric has a value and was logged since a read that returned `before` as `logged`.
  bool is_newer_than(long before) const;
};

/// A metric that a callback watches, by its name: the mean of an epoch, the last value, or the mean of one loader.
struct WatchedMetric {
  enum class As : std::uint8_t { mean, last, of_loader };
  std::string_view name = {};  ///< empty: no metric is watched
  As as = As::mean;
  std::string_view loader = {};

  WatchedMetric() = default;
  explicit constexpr WatchedMetric(std::string_view of_name) : name(of_name) {}
  /// From a metric constant, `metric.last()` or `metric.of("loader")`.
  template <Watchable M>
  explicit constexpr WatchedMetric(M const& metric) : name(M::name()) {
    if constexpr (std::is_same_v<M, OfLoader<typename M::metric>>) as = As::of_loader, loader = metric.loader;
    else if constexpr (std::is_same_v<M, Last<typename M::metric>>) as = As::last;
  }
  explicit operator bool() const { return !name.empty(); }
  /// The metric as the user wrote it: part of a state's key, since two callbacks may watch one metric differently.
  std::string written() const;
};

/// What a hook can read about its run, and request from it. A callback whose hooks take a Context is compiled once, for
/// any model, trainer and phase:
///
///     struct PrintEpoch {
///       void on_train_epoch_end(fulgurite::Context& ctx) {
///         ctx.print("epoch " + std::to_string(ctx.current_epoch()));
///       }
///     };
///
/// A hook that needs the model, the optimizers or `ctx.log` takes `auto& ctx` instead. That is a RunContext: a Context
/// with additional members that depend on the program's types. Do not keep a context beyond the call.
///
/// A context does not give access to the trainer's other callbacks. The program can:
/// `trainer.callback<T>()` returns the trainer's own copy, which lives as long as the trainer. Use it after a fit,
/// between two batches of an open one, or before the fit, to give a callback a pointer to another for its hooks:
///
///     struct PrintTime {
///       using Stateless = ByChoice;  // a checkpoint need not keep the pointer
///       Timer* timer = nullptr;
///       void on_train_end(Context& ctx) { ctx.print(std::to_string(timer->elapsed().count()) + " s"); }
///     };
///     trainer.callback<PrintTime>().timer = &trainer.callback<Timer>();
class Context {
 public:
  // The place in the run.

  /// Optimizer steps so far, over all optimizers, including skipped steps and those of this trainer's earlier fits. A
  /// resumed fit continues the count of its file.
  long global_step() const { return asked(Asks::global_step), core_->progress.global_step; }
  /// How many of the steps in global_step() changed no weight because a loss or a gradient was not finite
  /// (NonFinite::skip).
  long skipped_steps() const { return asked(Asks::skipped_steps), core_->progress.skipped_steps; }
  /// The current epoch, from 0; equal to the number of completed epochs.
  int current_epoch() const { return asked(Asks::current_epoch), core_->progress.epoch; }
  /// The current batch, from 0 in its epoch or evaluation loader. Between batches it is the previous one; 0 before the
  /// first batch and in on_train_end.
  long batch_idx() const { return asked(Asks::batch_idx), core_->facts.batch_idx; }
  /// Samples in this process's batch. 0 between batches, while a batch is transferred, and if the size is not known.
  long batch_size() const { return asked(Asks::batch_size), core_->facts.in_batch ? core_->facts.batch_size : 0; }
  /// True for the last batch of an epoch or an evaluation loader. A loader that has no size and does not promise that
  /// batches stay valid is read one batch at a time: then this is false until the end is found, which is after the end
  /// hook of the last batch, and true from there on.
  bool is_last_batch() const { return asked(Asks::is_last_batch), core_->facts.is_last_batch; }
  /// True if the current batch does not end its accumulation window, so that no optimizer step follows it.
  bool accumulating() const { return asked(Asks::accumulating), core_->facts.accumulating; }
  /// True in the validation batches before training (num_sanity_val_steps).
  bool sanity_checking() const { return core_->facts.sanity_checking; }
  /// The trainer's function that is running: fit, validate, test or predict. In a validation inside fit it is fit.
  Stage stage() const { return core_->facts.stage; }
  /// The current evaluation loader, from 0, if there are several; else 0.
  std::size_t loader() const { return core_->facts.loader; }
  /// The names of the evaluation loaders, or their positions if they have no names.
  std::vector<std::string> const& loader_names() const {
    return stage() == Stage::predict ? core_->predict_names : core_->loader_names;
  }
  /// In predict: the index that the i-th sample of this process's loader has among the samples of all processes. It is
  /// i with one process, or if each process reads its own loader.
  long sample_place(long i) const { return core_->facts.first_sample + i * core_->facts.sample_step; }
  /// True in a fast_dev_run. Callbacks that save, stop or log for a real run do nothing then.
  bool dev_run() const { return core_->asked.options.fast_dev_run != 0; }
  /// The options in effect: the trainer's, with those replaced that fast_dev_run, overfit_batches and barebones change.
  TrainerOptions const& options() const { return core_->asked.options; }

  // What is to come.

  /// Batches of a training epoch after limits; nullopt where the loader has no size.
  std::optional<long> num_training_batches() const {
    return asked(Asks::num_training_batches), core_->facts.train_batches;
  }
  /// Batches of the current evaluation loader after limits; nullopt if the loader has no size.
  std::optional<long> num_eval_batches() const { return core_->facts.eval_batches; }
  /// Optimizer steps of the whole fit; nullopt if neither max_steps nor a sized loader with max_epochs determines them.
  std::optional<long> estimated_steps() const { return asked(Asks::estimated_steps), loop::estimated_steps(*core_); }
  /// Batches per optimizer step in the current epoch.
  int accumulate_grad_batches() const { return asked(Asks::accumulate_grad_batches), core_->asked.window_length; }
  /// True if the fit validates: it has a validation loader, and limit_val_batches is not 0.
  bool has_validation() const { return core_->facts.has_validation; }
  /// True if validation runs exactly once an epoch, at the end of every epoch.
  bool validating_each_epoch_end() const;

  // Time, in seconds.

  /// Seconds of training since on_train_start, on the clock `options().now`; max_time is compared with this. A resumed
  /// fit adds the seconds that its file holds.
  double training_seconds() const { return asked(Asks::seconds), core_->training_seconds(); }
  /// The clock `options().now`, in seconds. Its zero is arbitrary: use differences only.
  double seconds_now() const;

  // The processes that train one model together, and text for the terminal.

  /// The number of this process among those that train the model, from 0. Only rank 0 should print and write files.
  int rank() const { return core_->rank(); }
  /// The number of processes; `rank()` is less than it.
  int world() const { return core_->program->world(*core_); }
  /// Prints one or several lines on stdout, on rank 0 only. On a terminal they appear above a progress bar.
  void print(std::string_view line) const;
  /// A collective: rank 0's text on every rank, for what was read outside of the program, such as a folder's name.
  std::string of_first_rank(std::string mine) const { return core_->of_first_rank(std::move(mine)); }
  /// True if the deadline `moment`, in `seconds_now()`, has passed by rank 0's clock. Every rank must call this after
  /// each step. It costs no message until one of the deadlines has passed.
  bool has_come(double moment) const { return asked(Asks::seconds), core_->program->has_come(*core_, moment); }
  /// The signal that ends the run, or 0. `mine`: the signal that this process has received. The other ranks receive it
  /// with the next step's gradients; all of them then return it at the end of the same batch.
  int signal_of_all(int mine) const { return core_->program->signal_of_all(*core_, mine); }
  /// The signal that ends the run, exchanged at once. A collective, for places that all ranks reach, such as teardown.
  int signal_here(int mine) const { return core_->program->signal_here(*core_, mine); }

  // Values of metrics.

  /// A metric's value over all processes, and its age: see RunContext::watched_value.
  WatchedValue watched_value(WatchedMetric const& metric) const;
  /// A metric's value over all processes.
  std::optional<double> shared_value(WatchedMetric const& metric) const { return watched_value(metric).value; }
  /// The value of the metric of this name on this process. May wait for a device.
  std::optional<double> value(std::string_view metric) const;
  /// Calls f(metric, value) for each declared metric of one number, with the value that the host already knows.
  void each_metric(FunctionRef<void(DeclaredMetric const&, std::optional<double>)> f) const;
  /// Calls f(reported name, values by loader) for each metric that a finished evaluation reports. A loader without a
  /// value has nullopt. A value that was logged outside of the loaders' batches is given for each loader.
  void each_loader_value(FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f) const;

  // The program.

  /// The name of the model's type.
  std::string_view model_name() const { return core_->program->model_name; }
  /// True if a step follows each window of batches: not in manual optimization, nor if batches are cut along time.
  bool steps_by_batch() const { return core_->program->steps_by_batch; }
  /// Calls f(name, value) for the device statistics of the tensor library, such as allocated memory and counts of
  /// allocations.
  void device_stats(FunctionRef<void(std::string const&, double)> f) const {
    for (auto const& [name, value] : core_->program->device_stats(*core_)) f(name, value);
  }
  /// The rows of the model summary down to `max_depth` (-1: all levels). `with_example`: a forward pass finds the
  /// sizes, if the model has an example_input. Gives no rows if the tensor library does not support it.
  void model_rows(int max_depth, bool with_example, std::vector<report::ModelRow>& rows) const {
    core_->program->model_rows(*core_, max_depth, with_example, rows);
  }

  // Warnings, and requests to stop.

  /// Warns of what is probably a mistake, once for each identifier. The warning is printed on stderr unless `.silence`
  /// names it, and kept in `trainer.warnings()`. Throws [fulgurite.context.warning] if the identifier is not lower-case
  /// words with points between them.
  ///
  ///     ctx.warn("mine.rate.high", "the rate is above 1: lower it");
  void warn(std::string_view identifier, std::string_view sentence) const;
  /// Warns once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence) const;

  /// Requests that training stop at the next optimizer step, once min_epochs and min_steps are met. `why` appears in
  /// the last line that the fit prints: `ctx.request_stop("the budget is spent")`. Does nothing outside of fit.
  void request_stop(std::string_view why = {}) const;
  /// Requests a stop for this run only, for callers that request it in each run. A fit that resumes from the file of
  /// this run's end continues training, unless a stop is requested again.
  void request_stop_for_now(std::string_view why = {}) const;
  /// For callbacks that watch a metric: sets or withdraws the stop request of `who`, which is `ctx.name_of(this)`. A
  /// call replaces the previous one, so while min_epochs and min_steps are not met, a monitor whose metric has
  /// recovered withdraws its request. All ranks must give the same answer, so decide by `watched_value`.
  void set_stop_request(std::string const& who, bool wanted, std::string const& why = {}) const;
  /// The name of the callback at this address in the run's files: its state_key(), followed by its type unless the key
  /// begins with that. Empty if the trainer has no such callback.
  std::string name_of(void const* callback) const { return loop::name_of_callback(core_->callbacks, callback); }
  /// True if this run will stop early: a stop was requested on this process, or on another whose request has arrived.
  bool stop_requested() const { return asked(Asks::stop_requested), core_->due.stop.holds || core_->due.stop.waits; }

  // Rows, files, profilers and results.

  /// The loggers' x axis: the number of batches in this run that ended with an optimizer step, counted after the
  /// validation of that step.
  long logged_steps() const { return asked(Asks::logged_steps), core_->progress.logged_steps; }
  /// Writes a row to the loggers that is no metric of the model, such as learning rates. It is delivered after all
  /// listeners of the current event were notified.
  void log_scalars(std::span<Scalar const> row) const;

  /// Requests a checkpoint file. It is written at the next safe point, after all listeners of the current event were
  /// notified. Inside an accumulation window it is written after the step; if a validation requests it, at once, so
  /// that it has the weights that the validation scored. Throws [fulgurite.context.outside_fit] outside of fit. A
  /// request may be a function, called when the file is written, so that a name can contain the step:
  ///
  ///     ctx.request_checkpoint({this, [ctx](CheckpointFiles& files) {
  ///       files.write(std::to_string(ctx.global_step()));
  ///     }});
  void request_checkpoint(CheckpointRequest request) const;
  /// The checkpoint files that callbacks rely on: check here before you remove one whether another needs it.
  HeldFiles& held_files() const { return core_->made.held_files; }

  /// Requests a pass of the training data through training_step before on_train_end, in which only buffers change.
  /// BatchNorm needs it after its weights were replaced.
  void request_statistics_pass() const;

  /// Names a part of a step or a hook for profilers; it lasts as long as the returned object lives:
  ///
  ///     auto const watched = ctx.profile("augment");
  ///
  /// Without a profiler it costs one check of a pointer. Of a captured step profilers see only the recording.
  [[nodiscard]] OwnAction profile(std::string_view name) const { return core_->own_actions.begin(name); }

  /// The folder of this run's logs; empty if no logger writes to a folder.
  std::filesystem::path const& log_dir() const { return core_->made.log_dir; }
  /// Sets the folder of this run's logs, for loggers. Only the first call has an effect.
  void set_log_dir(std::filesystem::path dir) const;
  /// The results of the run, such as the best file, for callbacks to write to; `trainer.outcome()` returns them.
  Outcome& outcome() const { return asked(Asks::outcome), core_->made.outcome; }

 protected:
  using Asks = loop::Question;

  constexpr Context(loop::RunCore& core, loop::MetricSource source) : core_(&core), source_(source) {}
  /// Records the read: a strategy that replays steps needs to know on what a recorded step depends.
  void asked(Asks question) const {
    if (core_->keeps_questions) core_->questions.add(question);
  }

  // Where the value of the metric at a position is read: from the running epoch or evaluation, else from the last
  // finished one. Hooks of training and of evaluations read different boards. Each read waits for the device if figures
  // are still on it, unless its comment says otherwise.

  std::optional<double> value_at(std::size_t at, WatchedMetric const& metric) const;
  /// The value that the host already knows; never waits.
  std::optional<double> known_at(std::size_t at, WatchedMetric const& metric) const;
  /// The value over all processes, with its age.
  WatchedValue watched_at(std::size_t at, WatchedMetric const& metric) const;
  /// True if figures of the metric are still on a device, so that reading its value would wait.
  bool waits_at(std::size_t at) const;

  loop::RunCore* core_;
  loop::MetricSource source_;

 private:
  /// The figures from which a metric's value is computed.
  struct Found {
    Figures figures = {};
    bool is_shared = true;  ///< the figures already are those of all processes
    bool is_live = false;   ///< their epoch or evaluation is still running
  };
  Found find(std::size_t at, WatchedMetric const& metric, bool collects) const;
  /// The position of the metric with this name that has one number.
  std::optional<std::size_t> place_of(std::string_view name) const;
  /// Calls f(board) for the boards of the running epoch or evaluation, until it is published: they are read first.
  template <class F>
  void each_live_board(F&& f) const;
  std::optional<double> counted_so_far(std::size_t at, WatchedMetric const& metric, bool of_all_ranks) const;
  std::optional<double> reduced(std::size_t at, WatchedMetric const& metric, Figures const& figures) const;
  /// The position of a metric's loader; the number of loaders if none has that name.
  std::size_t loader_at(WatchedMetric const& metric) const;
  /// True in a validation inside fit for a metric that only training logs: its value there is that of the epoch so far.
  bool trains_on(std::size_t at) const;
  Cell const& cell(loop::BoardNumber board, std::size_t at) const;
  void note_why(std::string_view why) const;
  void require_identifier(std::string_view identifier) const;
};

}  // namespace fulgurite

namespace fulgurite::loop {

/// Throws [fulgurite.metric.dynamic_name] if ctx.log_dynamic must not use this name.
void check_dynamic_name(RunCore const& run, std::string_view name);

/// Copies the values of the training epoch to the results.
void publish_epoch(RunCore& run);
/// Copies the loaders' figures to the results, separately and merged. Monitors read the merged value.
void publish_evaluation(RunCore& run);

/// Replaces figures by those of all ranks, in one collective; `last` becomes the mean of the ranks' last values. With a
/// split model throws [fulgurite.pipeline.metric] on all ranks if another rank has logged a metric that the last one
/// has not, whose values count for all.
void share(RunCore& run, std::span<Figures* const> figures);

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/context.ipp>
#endif
