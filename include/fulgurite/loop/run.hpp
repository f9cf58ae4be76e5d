#pragma once
// The state of a run: everything that it keeps between steps, in parts named by their purpose; and the errors and
// warnings of the loops that depend on no type of the program.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/switches.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/callbacks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::loop {

template <class R>
struct State;

// Part of a run's state: what the user asked for.

struct Asked {
  TrainerOptions options;  ///< the options in effect
  TrainerOptions given;    ///< the options that the user gave: fast_dev_run and others replace some
  std::size_t added;       ///< default callbacks, which are the trainer's last ones: barebones does not refuse these
  bool logs;               ///< true if a callback is a logger
  int window_length = 1;   ///< length of the next windows: accumulate_grad_batches, or the argument of ctx.accumulate

  explicit Asked(TrainerOptions&& all, std::size_t added_callbacks = 0, bool has_logger = false);
  FULGURITE_COPIES(Asked);
};

/// The options in effect, from options that were checked: fast_dev_run, overfit_batches and barebones replace others.
TrainerOptions effective(TrainerOptions given);

/// Part of a run's state: what one step passes to the next.
template <class R>
struct Carried {
  typename HiddenOf<typename R::Model>::kept hidden{};  ///< a recurrent model's state, from one slice to the next
  /// The random state when the pass over the training data began: a loader may have shuffled with it.
  std::optional<decltype(R::Backend::rng_state())> pass_random = std::nullopt;
  typename R::Value loss{};  ///< loss of the last batch, for a model with its own optimizer_step
};

/// Part of a run's state: facts about the current batch, loader and stage, which are not saved, unlike `Progress`.
struct Facts {
  Stage stage = Stage::fit;
  long batch_idx = 0;
  long batch_size = 0;
  bool is_last_batch = false;
  bool end_unknown = false;   ///< the loader is not read ahead: is_last_batch is known only after the batch
  bool accumulating = false;  ///< the current batch does not end its window
  bool in_batch = false;
  long ended = -1;             ///< `progress.total_batches` of the last batch with end hooks that were called
  bool no_rows = false;        ///< true for a batch of size 0 that holds tensors without rows
  bool left_out = false;       ///< true if the loader left out the current batch
  bool has_gradients = false;  ///< a batch of the current window ran backward; kept if the precision scales the loss
  bool types_seen = false;     ///< the first training_step was checked for types other than the precision's
  bool updated = false;        ///< a replay of the current step has made its update, too, or left it out
  bool fits = false;           ///< if so: its gradients were finite
  bool sanity_checking = false;
  bool validating = false;
  bool has_validation = false;
  std::size_t loader = 0;
  std::size_t board = 0;  ///< index in eval_boards: the loader's, or one more outside of several loaders
  long first_sample = 0;  ///< the place of this rank's first sample among those that all ranks predict
  long sample_step = 1;   ///< the distance between this rank's samples in that order
  std::optional<long> train_batches = std::nullopt;
  std::optional<long> eval_batches = std::nullopt;
};

/// Part of a run's state: its loaders, which may be requested more than once.
struct Loading {
  /// Returns the size of the training loader, and loads it if needed. Set from setup to the end of training.
  FunctionRef<std::optional<long>()> count_training{};
  /// Writes a checkpoint now, including the state of the open fit's data. Set while a fit is open.
  FunctionRef<void(std::filesystem::path const&)> write{};
  /// Returns the names of the last fit's loaders, for its files.
  std::vector<std::string> (*loaders)() = nullptr;
  bool fit_is_open = false;         ///< true from the first check of a fit to its end
  bool evaluates = false;           ///< true within validate, test and predict
  bool forgets_place = false;       ///< a loader of the fit cannot save its position
  bool resuming = false;            ///< a file is being loaded: no checkpoint may be written until all of it is
  bool half_loaded = false;         ///< parts of the run are those of a file, and others are not
  bool training_is_open = false;    ///< the training loader exists
  bool validation_is_open = false;  ///< the validation loaders exist
  bool torn_down = false;           ///< the open fit's data may be gone: files have what `left` keeps of them
  int training_since = 0;           ///< the epoch in which the training loader was requested
  int validation_since = 0;         ///< the epoch of the first validation with these loaders
};

/// Gives a variable another value as long as this object lives, which may end by an exception.
template <class T>
class Instead : Pinned {
 public:
  Instead(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~Instead() { variable_ = std::move(before_); }

 private:
  T& variable_;
  T before_;
};

// Part of a run's state: logged values and their results.

/// The figures of each metric, in the order in which the model declares them.
using AllFigures = std::vector<Figures>;

/// Values of finished epochs and evaluations.
struct FinishedValues {
  explicit FinishedValues(std::size_t metrics);
  FULGURITE_COPIES(FinishedValues);

  /// Of each loader: values of metrics whose definition computes several numbers, which are on no board.
  std::vector<std::vector<MetricValue>> several{};
  /// After the batches of an evaluation: metrics with a definition, over the samples of all loaders.
  AllFigures counted;
  /// How often each metric was logged in finished epochs and evaluations: with the open one's count, its value's age.
  std::vector<long> logged;
  AllFigures results;                        ///< the last finished epoch or evaluation, merged over loaders
  std::vector<AllFigures> loader_results{};  ///< the same for each loader of the last evaluation

  /// Clears the results at the start of a fit or an evaluation.
  void forget();
};

/// The values logged in the open epoch and in the running evaluation.
template <class R>
struct Measured {
  using Board = fulgurite::Board<typename R::Metrics, typename R::Backend>;

  Board train_board{};
  Board cut_short{};  ///< a copy of train_board, taken before the end of an epoch that a limit or a stop cut short
  std::vector<Board> eval_boards = std::vector<Board>(1);
};

/// A board, for code that does not know its type: nullopt is the training board, a number is an evaluation board.
using BoardNumber = std::optional<std::size_t>;

/// The boards that a phase reads.
enum class MetricSource : std::uint8_t { training, validation_in_fit, evaluation };
template <class Phase>
inline constexpr MetricSource metric_source = !Phase::evaluates ? MetricSource::training
                                              : Phase::trains   ? MetricSource::validation_in_fit
                                                                : MetricSource::evaluation;

/// A metric with a definition, as counted over the batches so far.
struct CountedSoFar {
  std::size_t metric;
  MetricSource source;
  std::optional<std::size_t> loader;  ///< nullopt: over all loaders
  bool of_all_ranks;
};

/// Part of a run's state: times that are compared with options.
struct RunClock {
  double earlier = 0;  ///< seconds of training before the file from which the fit resumes
  /// When training began or resumed; nullopt before that. Searches and trial runs before it do not count as training.
  std::optional<TrainerOptions::Clock::time_point> training_began = std::nullopt;
  std::optional<TrainerOptions::Clock::time_point> last_validation = std::nullopt;
};

// Positions between two pieces of work at which a checkpoint may be written, and from which a fit can resume.

/// What the run was about to do.
enum class At : std::uint8_t {
  before_batch,      ///< batch number `progress.batch` of the epoch
  batch_end,         ///< the end of that batch after its step: on_train_batch_end for the listeners not notified yet
  after_step,        ///< what follows the end hooks of a batch, which are running: its row, and all of after_batch
  after_batch,       ///< what follows a batch: requested checkpoints, its validation
  after_validation,  ///< what follows that validation
  epoch_end,         ///< the end of an epoch, starting with part number `parts`
  after_epoch,       ///< the next epoch, or the end of training
  ended              ///< nothing: training has ended
};

/// A position, and facts about the batch before it.
struct SafePoint {
  At at = At::before_batch;
  bool last = false;          ///< the batch was the last of the epoch
  bool counts = false;        ///< the batch ended with a step that is counted after its validation
  bool accumulating = false;  ///< the window is open: gradients are part of the state
  bool left_early = false;    ///< the epoch ended before its loader did
  bool began = false;         ///< a pass over the data had begun, for the epoch of before_batch or for statistics
  std::uint8_t parts = 0;     ///< at an epoch's end: the number of its finished parts
  long observed = 0;          ///< the step at which schedules that follow a metric were last checked
  /// After a batch: true if its validation comes next; nullopt if this is not decided yet. A resumed run decides again.
  std::optional<bool> validates = std::nullopt;

  void state(auto& archive);
};

// Part of a run's state with several ranks: what they have to exchange, and what they received.

/// True if several processes train one model: all of them must decide what changes the course of the run.
template <class R>
inline constexpr bool shares = R::Strategy::is_distributed;

/// True if each process runs a part of the model, all on the same batches. Logged values are the last rank's, each rank
/// has its own gradients, and loaders are not distributed over ranks.
template <class R>
inline constexpr bool splits_model = judge::splits_model<typename R::Strategy>();

struct SharedFacts {
  // Values of this rank. The others receive them with the next exchange of gradients, or where all ranks meet.
  bool skips = false;         ///< on_train_batch_start returned skip_epoch
  bool not_finite = false;    ///< a loss of the current window is not finite
  double loss = 0;            ///< the loss that is not finite
  bool in_gradients = false;  ///< the loss is finite, and a gradient of this rank's part of the model is not
  int signal = 0;             ///< the signal that asked this process to end
  std::uint64_t stepped = 0;  ///< one bit for each optimizer that was stepped manually
  /// Manual optimization: one bit for each optimizer that has taken no step since it was toggled without an exchange of
  /// gradients.
  std::uint64_t own_gradients = 0;

  // Values that all ranks have received.
  bool epoch_ends = false;  ///< the epoch ends with the current batch: a rank has no more batches
  bool skipped = false;     ///< a rank's skip_epoch ended the epoch: no validation follows
  bool validates = false;   ///< validation follows the current step, by rank 0's clock
  int ends_by = 0;          ///< the signal by which all ranks end
  bool rang = false;        ///< a deadline passed with the current step, by rank 0's clock

  /// The earliest deadline that someone waits for. It is set again at each call of has_come.
  double alarm = std::numeric_limits<double>::infinity();

  std::vector<std::string> parts = {};  ///< for the file being written: each rank's own state as text

  bool syncs = true;  ///< manual optimization: gradients are exchanged after each backward; must be equal on all ranks

  bool together = false;  ///< every rank has thrown the current exception
  bool alone = false;     ///< only this rank has failed: it must not call a collective any more
};

template <class R>
using SharedOf = std::conditional_t<shares<R>, SharedFacts, Nothing>;

// Part of a run's state: warnings. The only channel for warnings of the library, of callbacks and of models.

/// The warnings of a run, each with its identifier in brackets in front. `aloud`: also print on stderr.
class Warnings {
 public:
  /// Warns once for each identifier.
  void once(std::string_view identifier, std::string_view sentence, bool aloud);
  /// Warns once for each sentence.
  void each(std::string_view identifier, std::string_view sentence, bool aloud);

  std::vector<std::string> const& all() const { return said_; }

 private:
  static bool is_of(std::string_view said, std::string_view identifier);
  void say(std::string_view identifier, std::string_view sentence, bool aloud);

  std::vector<std::string> said_{};
};

}  // namespace fulgurite::loop

namespace fulgurite {

namespace report {
struct ModelRow;
}

/// The counters of a run. `epoch`: completed ones. `batch`: of the current epoch. `global_step`: optimizer steps.
struct Progress {
  int epoch = 0;
  long batch = 0;
  long global_step = 0;
  long skipped_steps = 0;  ///< those of global_step that changed nothing because a loss or a gradient was not finite
  long logged_steps = 0;   ///< batches that ended with a step, counted after its validation: the loggers' x axis
  long total_batches = 0;  ///< batches taken from the loader over all epochs, including skipped ones
  long window_start = 0;   ///< the first batch of the current accumulation window
  long window_end = 0;     ///< the batch after that window, if the loader has that many
  long left_out = 0;       ///< batches of the window that its loader left out
  long cut_short = -1;     ///< batches of the previous epoch if a limit or a stop ended it before its data, else -1

  /// True if a fit that resumes here needs a position in the training data, unless an unchanged limit ends it first.
  bool is_inside_epoch() const { return batch != 0 || cut_short > 0; }

  void state(auto& archive);
};

// What a trial run does, and what a plan may do at each of its steps.

/// Facts about the loader that a trial run reads.
struct LoaderFacts {
  std::optional<long> batches = std::nullopt;  ///< batches of an epoch
  std::optional<long> samples = std::nullopt;  ///< samples, if the loader has `layout()` or `samples()`
};

/// One optimizer step of a trial run, as the functions of its plan see it.
class RehearsedStep {
 public:
  RehearsedStep(LearningRates& rates, long number) : rates_(rates), number_(number) {}

  /// The step's number, from 0. A number may repeat: a captured step that was replayed wrongly is made again.
  long number() const { return number_; }
  /// After the step: the number of steps that the trial run has made. More than `number() + 1` if a batch is cut into
  /// slices with a step each, since a plan counts all slices of a batch as one step.
  long made() const { return made_; }
  /// The current batch's position in its pass over the data, from 0.
  long batch_idx() const { return batch_idx_; }
  /// The rows of the current batch.
  long batch_size() const { return batch_size_; }
  /// After the step: the loss that training_step returned for the last batch of the window. Reads the device. NaN if it
  /// returned none, and in manual optimization.
  double loss() const;
  bool has_loss() const { return loss_ != nullptr; }
  LearningRates& rates() const { return rates_; }
  /// Ends the trial run after this step. If called before the step, this step is still made.
  void stop() { stops_ = true; }

  bool stops() const { return stops_; }
  void set_batch(long place, long size);
  void set_loss(std::function<double()> loss) { loss_ = std::move(loss); }
  void set_made(long steps) { made_ = steps; }

 private:
  LearningRates& rates_;
  long number_;
  long made_ = 0;
  long batch_idx_ = 0;
  long batch_size_ = 0;
  std::function<double()> loss_ = nullptr;
  bool stops_ = false;
};

/// What to run in a trial run. An aggregate:
///
///     tune::rehearse(trainer, net, loader, {.steps = 100, .after_step = [&](RehearsedStep& step) { ... }});
struct RehearsalPlan {
  long steps = 1;  ///< maximum number of steps: the data, max_epochs and either function may end the trial run before
  /// True: schedules change the rates as in a fit. False: the rates stay as `before_step` sets them.
  bool schedules = false;
  /// True: gets the loader from the data again, which may return another one with other batches by now.
  bool fresh_loader = false;
  /// Changes the trainer's options for the duration of the trial run.
  std::function<void(TrainerOptions&)> options = nullptr;
  /// Called when the loader exists, before any step.
  std::function<void(LoaderFacts const&)> on_loader = nullptr;
  /// Replaces the trainer's option.
  std::optional<NonFinite> non_finite = std::nullopt;
  /// Called before the step, when its first batch is loaded.
  std::function<void(RehearsedStep&)> before_step = nullptr;
  /// Called after the step.
  std::function<void(RehearsedStep&)> after_step = nullptr;
};

// Searches: trial runs that callbacks request before training continues.

class BatchSizes;

/// The base of all Rehearsers.
struct AnyRehearser {
  virtual ~AnyRehearser() = default;
};
/// The argument of a search: gives access to the run at a point between two epochs at which trial runs are possible.
template <class R>
class Rehearser : public AnyRehearser {
 public:
  /// Runs steps of the real trainer, then restores everything; see tune::rehearse.
  virtual void rehearse(RehearsalPlan const& plan) = 0;
  virtual BatchSizes& batch_sizes() = 0;
  /// The rates of the run; setting them affects the run after the search.
  LearningRates& rates() { return rates_; }
  RunContext<R, phase::Fit> context() { return RunContext<R, phase::Fit>(run_); }

 protected:
  Rehearser(loop::State<R>& run, std::span<loop::OptimizerRates const> rates) : run_(run), rates_(rates) {}

  loop::State<R>& run_;
  LearningRates rates_;
};

/// The argument of ctx.request_search. It is called at the next point at which trial runs are possible.
template <class R>
using RunSearch = std::function<void(Rehearser<R>&)>;

namespace loop {

/// Part of a run's state: searches that were requested and not run yet.
struct Searching {
  using Search = std::function<void(AnyRehearser&)>;

  bool answers = false;        ///< a callback of the current fit declares `searches`
  bool alone = false;          ///< the run is only for its search, and ends after it
  bool rehearsing = false;     ///< a trial run is running: nothing may be written to files
  bool sizes_changed = false;  ///< a search has set another batch size: the fit must get its loaders again
  std::vector<Search> due{};
  std::vector<Search> settings{};  ///< run before loaders are requested

  /// Adds a search, unless this is a trial run.
  template <class R>
  void add(std::vector<Search>& to, RunSearch<R> what) {
    if (!rehearsing)
      to.push_back([what = std::move(what)](AnyRehearser& any) { what(static_cast<Rehearser<R>&>(any)); });
  }
};

struct RunCore;

/// State at the start of a validation inside fit that its hooks and steps can change: see run_state.hpp.
struct BeforeValidation {
  StopRequest stop;         ///< a copy of Due's
  int validation_since;     ///< a copy of Loading's
  long rows;                ///< a copy of Due's
  Switches switches;        ///< the model's
  StateMemory parts{};      ///< model, data module, loaders, results, random numbers
  StateMemory callbacks{};  ///< callbacks with a state, each under its name

  explicit BeforeValidation(RunCore const& run);
  FULGURITE_MOVES(BeforeValidation);
  void keep_callbacks(Callbacks all);
};

struct ProgramEvents;

/// The functions by which code that does not know the program's types calls it: one table for each program.
struct ProgramCalls {
  std::string_view model_name;  ///< the name of the model's type
  bool is_distributed;          ///< true if several processes train one model
  bool splits_model;            ///< true if each of these processes runs a part of the model
  bool steps_by_batch;          ///< false for manual optimization, and if batches are cut into slices
  bool is_recurrent;            ///< the number of steps is known only batch by batch
  bool keeps_questions;         ///< a strategy replays steps, and needs to know what a recorded step has read
  void* (*model)(RunCore const&);
  int (*rank)(RunCore const&);
  int (*world)(RunCore const&);
  std::string (*of_first_rank)(RunCore&, std::string);
  bool (*has_come)(RunCore&, double);
  int (*signal_of_all)(RunCore&, int);
  int (*signal_here)(RunCore&, int);
  long (*unchecked_steps)(RunCore const&);  ///< replayed steps since the last check
  std::vector<std::pair<std::string, double>> (*device_stats)(RunCore&);
  void (*model_rows)(RunCore&, int max_depth, bool with_example, std::vector<report::ModelRow>&);
  std::span<DeclaredMetric const> metrics = {};
  std::size_t (*evaluation_boards)(RunCore const&) = nullptr;
  std::span<Cell> (*cells)(RunCore&, BoardNumber) = nullptr;
  /// Reads values that are still on a device.
  void (*collect)(RunCore&, BoardNumber) = nullptr;
  /// Null if no metric has a definition.
  std::optional<double> (*counted_so_far)(RunCore&, CountedSoFar const&) = nullptr;
  /// Replaces the values by those of all ranks; returns false on a rank that has failed.
  bool (*reduce)(RunCore&, std::span<double> values, std::span<Reduce const> how);

  // What is switched off in a model, and which of its modules are in eval mode: nothing, if the tensor library knows of
  // no such switches in this model.
  Switches (*switches)(void* model);
  void (*set_switches)(void* model, Switches const& off);
  std::vector<std::string> (*eval_modules)(void* model);
  void (*set_eval_modules)(void* model, std::vector<std::string> const& names);
  /// True if the model has another first weight than at the last call: another one may have the same address.
  bool (*has_other_weights)(RunCore& run);
};
template <class R>
struct ProgramCallsOf;

/// The part of a run's state that does not depend on the program's types and that a trial run restores by copying.
struct RunPlace {
  Asked asked;          ///< what the user asked for
  Progress progress{};  ///< the position of the run as counters, which are saved
  long slices = 0;      ///< slices of the current batch that were stepped on, while others of it follow
  long observed = 0;    ///< the step at which schedules that follow a metric were last checked
  SafePoint point{};    ///< between which pieces of work the run is, while a checkpoint is written
  Facts facts{};        ///< the current batch, loader and stage
  Due due{};
  Loading loading{};
  RunClock clock{};
  Made made{};
  FinishedValues values;
  std::vector<std::string> loader_names{}, predict_names{};  ///< of the evaluation loaders, or their positions
};

/// The part of a run's state that does not depend on the program's types.
struct RunCore : RunPlace, Pinned {
  RunCore(Asked&& what, ProgramCalls const& of_program);
  ~RunCore();

  Warnings said{};
  OwnActions own_actions{};
  ModelSwitches switches{};
  Searching searching{};
  std::optional<StateMemory> left{};  ///< what is kept of the last fit's data
  /// The state before hooks were notified of the end of an epoch that was cut short; see run_state.hpp.
  std::optional<StateMemory> before_cut{}, cut_random{};
  Switched cut_switches{};                              ///< what hooks had switched then
  std::optional<BeforeValidation> before_validation{};  ///< of the running validation, or of one that failed
  bool const keeps_questions;                           ///< the program's
  Questions questions{};                  ///< what contexts were asked for since `questions` was last cleared
  std::vector<AnyCallback> callbacks{};   ///< in firing order
  ProgramEvents const* events = nullptr;  ///< the table of events for these callbacks
  ProgramCalls const* program;

  int rank() const { return program->rank(*this); }
  std::string of_first_rank(std::string mine);
  void set_callbacks(Callbacks all, ProgramEvents const& of_pack);
  /// Resets the state of an earlier run at the start of a fit.
  void begin_fit(bool has_validation);

  /// Warns once for each identifier.
  void warn(std::string_view identifier, std::string_view sentence);
  /// Warns once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence);

  double training_seconds() const;
  /// The time after a fit is none of its training.
  void stop_clock();

 private:
  bool aloud(std::string_view identifier) const;
};

/// The part of a run's state that depends on the program's types and that a trial run restores by copying.
template <class R>
struct TypedPlace {
  typename R::Optimization optimization;  ///< a part of what the user asked for
  Carried<R> carried{};
  Watch<R> watch{};
  Measured<R> measured{};
  [[no_unique_address]] SharedOf<R> shared{};
};

/// The trainer owns it; loops, contexts and steps hold references to it.
template <class R>
struct State : RunCore, TypedPlace<R> {
  using Key = R;
  using Board = typename Measured<R>::Board;
  static constexpr std::size_t metrics = R::Metrics::size;

  State(Asked&& what, typename R::Optimization&& how, typename R::Strategy&& strategy,
        typename R::Precision&& precision, typename R::Model* model = nullptr)
      : RunCore(std::move(what), ProgramCallsOf<R>::table),
        TypedPlace<R>{.optimization = std::move(how)},
        parts{.strategy = std::move(strategy), .precision = std::move(precision), .model = model} {}

  Parts<R> parts;  ///< what the run was assembled from
  [[no_unique_address]] FilesUnderWay<typename R::Backend> under_way{};
};

/// Makes the results of all steps so far readable: a strategy may let replays wait for those after them.
template <class R>
void finish_replays([[maybe_unused]] State<R>& run) {
  if constexpr (JoinsSteps<typename R::Strategy>) run.parts.strategy.finish_replays();
}

/// Sets the strategy's precision of matrix products for the lifetime of the result, if the strategy has that option.
template <class R>
auto products_scope(State<R>& run) {
  if constexpr (hook::of_strategy::matmul_scope::named<typename R::Strategy>) return run.parts.strategy.matmul_scope();
  else return 0;
}

/// Constructs in place what can neither be copied nor moved: `scope.emplace(InPlace{[] { return Scope(...); }});`
template <class F>
struct InPlace {
  F make;
  operator decltype(std::declval<F&>()())() { return make(); }
};
template <class F>
InPlace(F) -> InPlace<F>;

/// Thrown if a trial run's changes could not be undone. A search never takes it for "out of memory", even if
/// the memory was the cause.
class NotRestored : public Error {
 public:
  explicit NotRestored(char const* why);
};

/// Runs `work()`, then `restore()`, also if `work` throws. Throws [fulgurite.tuner.put_back] if restoring fails.
template <class Work, class Restore>
void restore_after(Work&& work, Restore&& restore) {
  auto const all = [&] {
    try {
      restore();
    } catch (std::exception const& error) { throw NotRestored(error.what()); } catch (...) {
      throw NotRestored("what was thrown is no std::exception");
    }
  };
  try {
    work();
  } catch (...) {
    all();
    throw;
  }
  all();
}

/// For the batches of a pass without hooks inside a fit: ends the program if a signal asked for it and there is one
/// process. Several ranks end together, with the next step for which they exchange gradients, or in teardown. A rank
/// that ended by itself would end the others without a file to resume from.
void end_alone_if_asked(RunCore const& run, Callbacks callbacks);

// Errors and warnings of the loops whose sentences depend on no type of the program, so that each is compiled once.

// Of ctx.log.

[[noreturn]] void refuse_log_place(std::string_view name, bool by_step);
[[noreturn]] void refuse_no_rows(std::string_view name, long batch);
[[noreturn]] void refuse_no_size(std::string_view name);

// Of loaders that end too early, or have no name of their own, and of batches that are none.

inline std::string loader_at(std::size_t position) { return "dataloader_idx_" + std::to_string(position); }
/// The epoch that a resumed run is in has fewer batches than it has trained on.
[[noreturn]] void refuse_short(long consumed, long had);
/// A loader has ended before the number of batches that its size() promised.
[[noreturn]] void throw_short(long promised, long had);
[[noreturn]] void refuse_empty_epoch(int epoch);
void warn_of_left_out(RunCore& run, long batch);

// Of a training loop that waits for its data while processors are idle.

/// The number of processors that were idle in a pass during which the loop waited for a quarter of the time; 0 for
/// passes shorter than 5 s, or if no processor was idle. `processors`: those of the machine.
int idle_while_waiting(Waited const& waited, unsigned processors);
/// Warns if there were some.
void advise_on_waiting(RunCore& run, Waited const& waited);

// Of values that are not finite.

/// What was found. `loss`: that of the batch, if it is one number.
inline std::string not_finite_loss(double loss) { return "the loss is " + std::to_string(loss); }
std::string not_finite_gradient(std::optional<double> loss);
/// `buffer`: the name of a buffer that holds a nan, or nothing.
[[noreturn]] void refuse_update(RunCore const& run, std::string const& what, std::string const& buffer);
void warn_of_skipped(RunCore& run, std::string const& what, std::string const& buffer);
[[noreturn]] void refuse_non_finite(long from, long to);

// Of what is done between two fits.

/// Gives one warning for all options of the program that differ from those of the file.
void warn_of_options(RunCore& run, std::vector<std::string> const& differences);
/// Throws [fulgurite.trainer.open_fit] inside of a fit. `is_run`: inside of validate, test and predict, too.
void refuse_open(RunCore const& run, std::string const& what, bool is_run = false);
/// Throws [fulgurite.resume.half_loaded] if parts of the run are those of a file, and others are not.
void refuse_half_loaded(RunCore const& run, std::string const& what);

/// ceil(batches / window) * epochs, at most max_steps (Lightning's estimated_stepping_batches). If called in
/// configure_optimizers, it loads the training data early.
std::optional<long> estimated_steps(RunCore const& run);

/// Checks a window's length as soon as the optimizer is known. Throws [fulgurite.options.accumulate] or
/// [fulgurite.optimizer.closure_accumulates].
void check_window(char const* name, int batches, bool needs_closure);
/// Throws [fulgurite.options.tbptt] unless a slice length is given exactly for a model that declares Hidden
/// (`recurrent`), and with windows of one batch.
void check_slices(bool recurrent, int tbptt, int window);

/// Throws [fulgurite.tuner.steps] unless a trial run has a step.
void check_steps(RehearsalPlan const& plan);

}  // namespace loop
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run.ipp>
#endif
