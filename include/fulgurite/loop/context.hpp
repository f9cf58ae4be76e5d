#pragma once
// The context of a hook, as far as it needs no type of the program: facts of the run, and requests to it. One class for
// all programs.

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
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

/// What a monitor sees of a metric.
struct WatchedValue {
  static constexpr long unknown = -1;
  std::optional<double> value = std::nullopt;
  long logged = 0;  ///< how often the metric was logged so far in the run, for all that `value` knows

  /// Whether it was logged since a look that saw `before`.
  bool is_newer_than(long before) const;
};

/// A metric that a callback watches, by its name: the mean of an epoch, the last value, or the mean of one loader.
struct WatchedMetric {
  enum class As : std::uint8_t { mean, last, of_loader };
  std::string_view name = {};  ///< empty: none is watched
  As as = As::mean;
  std::string_view loader = {};

  WatchedMetric() = default;
  explicit constexpr WatchedMetric(std::string_view of_name) : name(of_name) {}
  /// Of a metric constant, `metric.last()` or `metric.of("loader")`.
  template <class M>
    requires requires { typename M::metric; }
  explicit constexpr WatchedMetric(M const& metric) : name(M::name()) {
    if constexpr (requires { metric.loader; }) as = As::of_loader, loader = metric.loader;
    else if constexpr (!std::is_same_v<M, typename M::metric>) as = As::last;
  }
  explicit operator bool() const { return !name.empty(); }
  /// As the user wrote it, for the key of a state: two callbacks may watch one metric in several ways.
  std::string written() const;
};

/// Where a hook stands in its run, and what it may ask for there: `void on_train_epoch_end(fulgurite::Context& ctx)`.
/// A callback that is written with it is compiled once, whatever model, trainer and phase it is used with. Who needs
/// the model, the optimizers or `ctx.log` takes `auto& ctx` in its place, which is a RunContext: a Context, and what
/// the program's types add. Never kept beyond the call.
class Context {
 public:
  /// Optimizer steps of this fit so far, over all optimizers; a fit that goes on from a file counts on from there.
  /// Steps that were skipped count, too.
  long global_step() const { return asked(Asks::global_step), core_->progress.global_step; }
  /// How many of the steps above changed no weight, because a loss or a gradient was not finite (NonFinite::skip).
  long skipped_steps() const { return asked(Asks::skipped_steps), core_->progress.skipped_steps; }
  /// The epoch at hand, counted from 0: how many were completed before it.
  int current_epoch() const { return asked(Asks::current_epoch), core_->progress.epoch; }
  /// The batch, counted from 0 in its epoch or in its evaluation loader. Between batches the one before; 0 before the
  /// first, and in on_train_end.
  long batch_idx() const { return asked(Asks::batch_idx), core_->facts.batch_idx; }
  /// Samples in the batch, on this process. 0 between batches, while a batch is transferred, and for one that does not
  /// tell its size.
  long batch_size() const { return asked(Asks::batch_size), core_->facts.in_batch ? core_->facts.batch_size : 0; }
  /// Of its epoch, or of its evaluation loader. A loader that has no size and does not promise that batches stay valid
  /// is read one batch at a time: false until the end is found, after the end hook of the last batch; true in what
  /// follows.
  bool is_last_batch() const { return asked(Asks::is_last_batch), core_->facts.is_last_batch; }
  /// True where the batch at hand does not end its accumulation window: no optimizer step follows it.
  bool accumulating() const { return asked(Asks::accumulating), core_->facts.accumulating; }
  /// True in the few validation batches before training (num_sanity_val_steps).
  bool sanity_checking() const { return core_->facts.sanity_checking; }
  /// Which of the trainer's functions is at work: fit, validate, test or predict. In the validation of a fit it is fit.
  Stage stage() const { return core_->facts.stage; }
  /// Which evaluation loader is at hand, counted from 0, where there are several; else 0.
  std::size_t loader() const { return core_->facts.loader; }
  /// The evaluation loaders' own names, else their positions.
  std::vector<std::string> const& loader_names() const { return core_->loader_names; }
  /// In predict: the place of this process's i-th sample of the loader among the samples of all processes; i itself
  /// where there is one process, or each reads a loader of its own.
  long sample_place(long i) const { return core_->facts.first_sample + i * core_->facts.sample_step; }
  /// fast_dev_run is on: what would be saved, stopped or logged on behalf of a run is not.
  bool dev_run() const { return core_->asked.options.fast_dev_run != 0; }
  /// What the run goes by: the trainer's options, where fast_dev_run, overfit_batches and barebones have replaced those
  /// that they stand for.
  TrainerOptions const& options() const { return core_->asked.options; }

  /// Batches of a training epoch after limits; nullopt where the loader has no size.
  std::optional<long> num_training_batches() const {
    return asked(Asks::num_training_batches), core_->facts.train_batches;
  }
  /// Batches of the evaluation loader at hand, after limits.
  std::optional<long> num_eval_batches() const { return core_->facts.eval_batches; }
  /// Optimizer steps of the whole fit; nullopt where neither max_steps nor a sized loader and max_epochs tell.
  std::optional<long> estimated_steps() const {
    return asked(Asks::estimated_steps), core_->program->estimated_steps(*core_);
  }
  /// Batches per optimizer step, in the epoch at hand.
  int accumulate_grad_batches() const { return asked(Asks::accumulate_grad_batches), core_->asked.window_length; }
  /// Whether the fit validates at all: there is a loader for it, and limit_val_batches leaves some of it.
  bool has_validation() const { return core_->facts.has_validation; }
  /// Validation runs exactly once, at the end of every epoch.
  bool validating_each_epoch_end() const;
  /// Seconds of training, on the clock `options().now`, which max_time is compared with: it runs from on_train_start
  /// on. Where a fit goes on from a file, those before the file was written count, too.
  double training_seconds() const { return asked(Asks::seconds), core_->training_seconds(); }
  /// The clock `options().now` in seconds, from a beginning of its own: only differences mean something.
  double seconds_now() const;

  /// This process's number among those that train the model together, from 0; 0 where there is one. Let rank 0 alone
  /// print and write.
  int rank() const { return core_->rank(); }
  /// How many processes there are; `rank()` counts them from 0.
  int world() const { return core_->program->world(*core_); }
  /// A line on stdout, or several, of rank 0 alone. On a terminal it comes out above a progress bar.
  void print(std::string_view line) const;
  /// Rank 0's text for all: what was looked up outside of the program, such as the name of a folder. Every rank asks.
  std::string of_first_rank(std::string mine) const { return core_->program->of_first_rank(*core_, std::move(mine)); }
  /// Whether a moment in `seconds_now()` has come, by rank 0's clock. Every rank asks after each step, and as long as
  /// no moment has come that somebody asks for, that costs no message.
  bool has_come(double moment) const { return asked(Asks::seconds), core_->program->has_come(*core_, moment); }
  /// The signal by which the run ends, 0: none. `mine`: what has come to this process; the others hear of it with the
  /// next step's gradients, and then all of them get it at the end of the same batch.
  int signal_of_all(int mine) const { return core_->program->signal_of_all(*core_, mine); }
  /// The same where all ranks meet, such as in teardown.
  int signal_here(int mine) const { return core_->program->signal_here(*core_, mine); }

  /// The value of a metric and its age, as all processes together have it: see RunContext::watched_value.
  WatchedValue watched_value(WatchedMetric const& metric) const;
  /// The same without its age.
  std::optional<double> shared_value(WatchedMetric const& metric) const { return watched_value(metric).value; }
  /// The value of a metric of that name, of this process; it may read a device.
  std::optional<double> value(std::string_view metric) const;
  /// f(metric, value the host knows already) for each declared metric of one number, in order.
  void each_metric(FunctionRef<void(DeclaredMetric const&, std::optional<double>)> f) const;
  /// f(reported name, the value of each loader, where it has one) for each metric that an evaluation reports, when it
  /// is over. What was logged outside of its loaders belongs to each of them.
  void each_loader_value(FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f) const;
  /// The name of the model's type.
  std::string_view model_name() const { return core_->program->model_name; }
  /// Whether an optimizer step follows each window of batches: not by hand, nor where batches are cut along time.
  bool steps_by_batch() const { return core_->program->steps_by_batch; }
  /// f(name, value) for what the tensor library tells of the device: memory, and how often it was asked for.
  void device_stats(FunctionRef<void(std::string const&, double)> f) const { core_->program->device_stats(*core_, f); }
  /// The rows of the model's table, down to a depth (-1: all of it); `with_example`: sizes are found by a forward pass
  /// where the model has an example_input. None where the tensor library cannot tell.
  void model_rows(int max_depth, bool with_example, std::vector<report::ModelRow>& rows) const {
    core_->program->model_rows(*core_, max_depth, with_example, rows);
  }

  /// What may be meant and mostly is not: on stderr unless `.silence` names it, and in `trainer.warnings()`. Said once
  /// for each identifier: `warn("mine.rate.high", "the rate is above 1: lower it")`. An Error where the identifier is
  /// not of that form.
  void warn(std::string_view identifier, std::string_view sentence) const;
  /// The same, said once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence) const;

  /// Training ends at the next optimizer step's boundary, once min_epochs and min_steps are met. `why` is for the last
  /// line of the fit: `ctx.request_stop("the budget is spent")`. Outside of fit there is no training to end, and this
  /// does nothing.
  void request_stop(std::string_view why = {}) const;
  /// The same, for a caller that asks again in each run. A fit that resumes from the file of its end trains on, unless
  /// it is asked again.
  void request_stop_for_now(std::string_view why = {}) const;
  /// For callbacks that watch a metric: whether `who`, the callback's state_key(), wants training to end by what it has
  /// just seen. This replaces what it said before, so while min_epochs and min_steps are not met a monitor whose metric
  /// has recovered withdraws its request. Under several ranks all of them have to say the same, so go by
  /// `watched_value`.
  void set_stop_request(std::string const& who, bool wanted, std::string const& why = {}) const;
  /// Whether this run will stop early: someone has asked for it, on this process or, as far as was heard, on another.
  bool stop_requested() const { return asked(Asks::stop_requested), core_->due.stop.holds || core_->due.stop.waits; }

  /// The loggers' x axis: batches of this run that ended with an optimizer step and its validation.
  long logged_steps() const { return asked(Asks::logged_steps), core_->progress.logged_steps; }
  /// A row for the loggers that is no metric of the model (learning rates), delivered when the event at hand has been
  /// heard by all.
  void log_scalars(std::span<Scalar const> row) const;

  /// A file to be written at the next safe point: after the event at hand has been heard by all. Inside an accumulation
  /// window it waits for the step, unless a validation asks: then the weights that it scored are written as they are.
  /// So that a name may tell the step that a file holds, a request may be a function, which is called when the file is
  /// written:
  ///     ctx.request_checkpoint({this, [ctx](CheckpointFiles& files) {
  ///       files.write(std::to_string(ctx.global_step()));
  ///     }});
  void request_checkpoint(CheckpointRequest request) const;
  /// Who counts on which checkpoint files: a callback that removes one asks here first whether another counts on it.
  HeldFiles& held_files() const { return core_->made.held_files; }

  /// Before on_train_end the training data are passed once through training_step, with nothing but buffers changing:
  /// what BatchNorm needs after its weights were replaced.
  void request_statistics_pass() const;

  /// A part of a step or a hook that a profiler shall show by this name, for as long as the result lives:
  ///     auto const watched = ctx.profile("augment");
  /// Without a profiler it costs one look at a pointer. In a captured step it is seen where the step is recorded.
  [[nodiscard]] OwnAction profile(std::string_view name) const { return core_->own_actions.begin(name); }

  /// The folder of this run's logs; empty where no logger writes into one.
  std::filesystem::path const& log_dir() const { return core_->made.log_dir; }
  /// The first logger's folder; the first to say so wins.
  void set_log_dir(std::filesystem::path dir) const;
  /// What the run came to: its best file, its best score and the like, which `trainer.outcome()` shows. Callbacks write
  /// it.
  Outcome& outcome() const { return asked(Asks::outcome), core_->made.outcome; }

 protected:
  using Asks = loop::Question;

  constexpr Context(loop::RunCore& core, loop::MetricSource source) : core_(&core), source_(source) {}
  /// A strategy that replays steps has to know what a recorded one went by.
  void asked(Asks question) const {
    if (core_->keeps_questions) core_->questions.add(question);
  }

  loop::RunCore* core_;
  loop::MetricSource source_;

 private:
  void note_why(std::string_view why) const;
  void require_identifier(std::string_view identifier) const;
};

}  // namespace fulgurite

namespace fulgurite::loop {

// Where the value of a metric is found: in the running epoch or evaluation, else in the last one that is over.

/// Looks for it, as a phase does: hooks of training and of evaluations read other boards. Each question waits for a
/// device where figures are still on it, unless it says otherwise.
class MetricValues {
 public:
  MetricValues(RunCore& run, MetricSource source) : run_(run), source_(source) {}

  /// Where a metric of one number that has this name stands.
  std::optional<std::size_t> place_of(std::string_view name) const;
  /// `at`: where it stands among the metrics.
  std::optional<double> value(WatchedMetric const& metric, std::size_t at) const;
  /// What the host knows already.
  std::optional<double> known(WatchedMetric const& metric, std::size_t at) const;
  /// As all processes together have it, with its age.
  WatchedValue watched_value(WatchedMetric const& metric, std::size_t at) const;
  /// Whether figures of it still wait on a device: to ask for its value would wait for them.
  bool waits(std::size_t at) const;

 private:
  /// The figures that a metric's value is made of.
  struct Found {
    Figures figures = {};
    bool is_shared = true;  ///< they are those of all processes
    bool is_live = false;   ///< their epoch or evaluation is open
  };
  Found find(WatchedMetric const& metric, std::size_t at, bool collects) const;
  /// f(board) for those whose running epoch `value` reads first: all loaders' together; none once an evaluation has
  /// been published.
  template <class F>
  void each_live_board(F&& f) const;
  std::optional<double> counted_so_far(WatchedMetric const& metric, std::size_t at, bool of_all_ranks) const;
  std::optional<double> reduced(WatchedMetric const& metric, std::size_t at, Figures const& figures) const;
  /// The position of a metric's loader; their number where none has that name.
  std::size_t loader_at(WatchedMetric const& metric) const;
  /// In a validation inside fit: a metric that only training logs has its epoch so far there.
  bool trains_on(std::size_t at) const;
  Cell const& cell(BoardNumber board, std::size_t at) const;
  void note_question() const;

  RunCore& run_;
  MetricSource source_;
};

/// A metric in the running evaluation, over all of its loaders: what `results` will be, and what hooks read until
/// then.
Figures over_loaders(RunCore& run, std::size_t metric);

/// The values of the training epoch become results.
void publish_epoch(RunCore& run);
/// The loaders' figures become results, each by itself, and merged: what watching a metric means.
void publish_evaluation(RunCore& run);

/// f(reported name, value of each loader) for each metric that the last evaluation reported.
void each_loader_value(RunCore const& run,
                       FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f);

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/context.ipp>
#endif
