#pragma once
// The state of a run: everything it keeps between steps, in parts that say what they are.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/callbacks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/context_reads.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::loop {

// Part of a run's state: what was asked for.

/// How many callbacks make_trainer has added.
struct AddedCallbacks {
  std::size_t count = 0;
};

struct Asked {
  TrainerOptions options;          ///< that the run goes by
  TrainerOptions given = options;  ///< as the user gave them: fast_dev_run and others replace some
  std::size_t added = 0;  ///< callbacks of the defaults, the last ones of the trainer: barebones finds them idle
  bool logs = false;      ///< there is a logger among the callbacks
  int window_length = 1;  ///< batches of the windows to come: accumulate_grad_batches, or what ctx.accumulate said
};

// Part of a run's state: what one step leaves to the next.

template <class R>
struct Carried {
  std::optional<typename HiddenOf<typename R::Model>::type> hidden =
      std::nullopt;  ///< of a recurrent model, from one slice of time to the next
  long slices = 0;   ///< of the batch at hand that were stepped on, where others of it follow
  /// Random numbers as they were when the pass over the training data began: a loader may have shuffled by them.
  std::optional<decltype(R::Backend::rng_state())> pass_random = std::nullopt;
  /// The same of the end of an epoch that was cut short: see run_position.hpp.
  std::optional<decltype(R::Backend::rng_state())> cut_random = std::nullopt;
  typename R::Value loss{};  ///< of the last batch, where a model's own optimizer_step may ask for it
};

// Part of a run's state: facts of the batch, the loader and the stage at hand. Beside `Progress`, which counts and is
// saved, they say where a run is; nothing of them outlives it.

/// Set by the loops and read through contexts.
struct Facts {
  Stage stage = Stage::fit;
  long batch_idx = 0;
  long batch_size = 0;
  bool is_last_batch = false;
  bool end_unknown = false;   ///< the loader is not read ahead: whether this batch is the last is found out later
  bool accumulating = false;  ///< the batch at hand does not end its window
  bool in_batch = false;
  long ended = -1;        ///< `progress.total_batches` of the last batch whose end hooks were told, where any listen
  bool no_rows = false;   ///< of a batch of size 0: it holds tensors, and they have no rows
  bool left_out = false;  ///< the batch at hand is none: its loader left it out
  bool has_gradients = false;  ///< a batch of the window at hand ran backward; kept where a precision scales the loss
  bool types_seen = false;     ///< the first training_step was watched for types other than the precision's
  bool sanity_checking = false;
  bool validating = false;
  bool has_validation = false;
  std::size_t loader = 0;
  std::size_t board = 0;  ///< of eval_boards: the loader's, or with several loaders, outside of them, one more
  long first_sample = 0;  ///< of the samples that all ranks predict, the place of this one's first ...
  long sample_step = 1;   ///< ... and how far the others are apart
  std::optional<long> train_batches = std::nullopt;
  std::optional<long> eval_batches = std::nullopt;
};

// Part of a run's state: its loaders, as far as they are asked for more than once.

struct Loading {
  /// Asks the training loader for its size, loading it if need be; there from setup to the end of training.
  FunctionRef<std::optional<long>()> count_training{};
  /// Writes a file now, with what the open fit knows of its data; there while one is open.
  FunctionRef<void(std::filesystem::path const&)> write{};
  /// The names of the loaders of the last fit, for its files.
  std::vector<std::string> (*loaders)() = nullptr;
  bool fit_is_open = false;         ///< from its first check to its end
  bool forgets_place = false;       ///< a loader of the fit says nothing of where it is
  bool resuming = false;            ///< a file is being loaded: it holds more than this run does until all of it is
  bool training_is_open = false;    ///< the training loader is there
  bool validation_is_open = false;  ///< those of validation are
  int training_since = 0;           ///< epoch in which the training loader was asked for
  int validation_since = 0;         ///< epoch whose validation was the first with these loaders
};

/// While it lives, a fit is open, however it ends.
class FitIsOpen {
 public:
  explicit FitIsOpen(Loading& loading) : loading_(loading) { loading_.fit_is_open = true; }
  FitIsOpen(FitIsOpen const&) = delete;
  ~FitIsOpen() { loading_.fit_is_open = false; }

 private:
  Loading& loading_;
};

// Part of a run's state: what was logged, and what it came to.

/// Figures of each metric, in the order in which the model declares them.
using AllFigures = std::vector<Figures>;

/// Values of the epochs and evaluations that are over.
struct FinishedValues {
  explicit FinishedValues(std::size_t metrics);
  FinishedValues(FinishedValues const&);
  FinishedValues& operator=(FinishedValues const&);
  ~FinishedValues();

  /// Beside the boards of an evaluation: of metrics whose definition computes several numbers.
  std::vector<std::vector<std::pair<std::string, double>>> several{};
  /// Of the evaluation whose batches are over: metrics that have a definition, over the samples of all loaders.
  AllFigures counted;
  /// How often each metric was logged in epochs and evaluations that are over: with what the open one has logged, the
  /// age of its value.
  std::vector<long> logged;
  AllFigures results;                        ///< of the last finished epoch or evaluation, merged over loaders
  std::vector<AllFigures> loader_results{};  ///< the same as `results` of each of them

  /// A fit or an evaluation begins: values of an earlier one are none of its own.
  void forget();
  /// An evaluation of so many loaders begins.
  void set_loaders(std::size_t loaders);
};

/// What is logged in the open epoch, and in the evaluation under way.
template <class R>
struct Measured {
  using Board = fulgurite::Board<typename R::Metrics, typename R::Backend>;

  Board train_board{};
  Board cut_short{};  ///< train_board of an epoch that a limit or a stop has cut short, as it was before its end
  std::vector<Board> eval_boards = std::vector<Board>(1);
};

/// For code that does not know a program's boards: that of training, or the number of one of the evaluation.
using BoardNumber = std::optional<std::size_t>;

/// Which boards a phase reads.
enum class MetricSource : std::uint8_t { training, validation_in_fit, evaluation };
template <class Phase>
inline constexpr MetricSource metric_source = !Phase::evaluates ? MetricSource::training
                                              : Phase::trains   ? MetricSource::validation_in_fit
                                                                : MetricSource::evaluation;

/// A metric with a definition, as the batches so far have counted it.
struct CountedSoFar {
  std::size_t metric;
  MetricSource source;
  std::optional<std::size_t> loader;  ///< nullopt: over all of them
  bool of_all_ranks;
};

}  // namespace fulgurite::loop

namespace fulgurite {

namespace report {
struct ModelRow;
}

// Actions that a program names itself, where a profiler watches.

/// What `ctx.profile("name")` returns: the action lasts as long as it lives. Empty where no profiler watches.
class OwnAction {
 public:
  struct Held {
    Held() = default;
    Held(Held const&) = delete;
    Held& operator=(Held const&) = delete;
    virtual ~Held() = default;
  };
  OwnAction() = default;
  explicit OwnAction(std::unique_ptr<Held> held) : held_(std::move(held)) {}

 private:
  std::unique_ptr<Held> held_{};
};

namespace loop {

/// Part of a run's state: how contexts, which do not know the callbacks, reach the profilers among them.
class OwnActions {
 public:
  /// The pack of the run to come.
  template <class Pack>
  void told_to(Pack& pack) {
    if constexpr (Pack::profiles) {
      pack_ = &pack;
      open_ = [](void* to, ProfiledAction const& action) -> std::unique_ptr<OwnAction::Held> {
        struct Held : OwnAction::Held {
          Held(Pack& p, ProfiledAction const& a) : watched(p.watch(a)) {}
          decltype(std::declval<Pack&>().watch(std::declval<ProfiledAction const&>())) watched;
        };
        return std::make_unique<Held>(*static_cast<Pack*>(to), action);
      };
    }
  }
  OwnAction begin(std::string_view name);
  /// An action of the library, in what is no template.
  OwnAction begin(ProfiledAction const& action);
  template <class A>
  OwnAction begin() {
    return open_ == nullptr ? OwnAction() : begin(action::action_of<A>());
  }

 private:
  void* pack_ = nullptr;
  std::unique_ptr<OwnAction::Held> (*open_)(void*, ProfiledAction const&) = nullptr;
  std::map<std::string, ProfiledAction, std::less<>> actions_{};
};

}  // namespace loop

// Every position of a run in one place.

/// Counters of a run. `epoch` completed epochs, `batch` batches consumed in the current one, `global_step` optimizer
/// steps.
struct Progress {
  int epoch = 0;
  long batch = 0;
  long global_step = 0;
  long skipped_steps = 0;  ///< of these, steps not taken because a loss or a gradient was not finite
  long logged_steps = 0;   ///< batches that ended with a step and its validation: the loggers' x axis
  long total_batches = 0;  ///< taken from the loader over all epochs, those that were skipped included
  long window_start = 0;   ///< batch at which the current accumulation window began
  long window_end = 0;     ///< the batch after that window, as long as the loader goes on so far
  long left_out = 0;       ///< batches of it that were none, of a loader that leaves some out
  long cut_short = -1;     ///< batches of the epoch before, where a limit or a stop ended it before its data, else -1

  /// A fit that resumes here needs a place in the training data, unless limits that stay end it before.
  bool is_inside_epoch() const { return batch != 0 || cut_short > 0; }

  void state(auto& archive);
};

}  // namespace fulgurite

namespace fulgurite::loop {

// Part of a run's state: the times that options are compared with.

struct RunClock {
  double earlier = 0;  ///< seconds of training before the file that the fit goes on from
  /// When training began, or went on; nullopt before: what is looked for and tried out until then is no training.
  std::optional<TrainerOptions::Clock::time_point> training_began = std::nullopt;
  std::optional<TrainerOptions::Clock::time_point> last_validation = std::nullopt;
};

// The places between two pieces of a run's work at which a checkpoint is written, and from which a fit can go on.

/// What the run was about to do.
enum class At : std::uint8_t {
  before_batch,      ///< the batch `progress.batch` of the epoch
  batch_end,         ///< the end of that batch, whose step was made: on_train_batch_end for the others
  after_step,        ///< what follows the end hooks of a batch, which are being told: its row, and what follows that
  after_batch,       ///< what follows a batch: the checkpoints it asked for, its validation
  after_validation,  ///< what follows that validation
  epoch_end,         ///< the end of an epoch, from its part `parts` on
  after_epoch,       ///< the next epoch, or the end of training
  ended              ///< nothing: training has ended
};

/// A place, and what is known there of the batch before it.
struct SafePoint {
  At at = At::before_batch;
  bool last = false;          ///< it was the epoch's last one
  bool counts = false;        ///< it ended with a step, whose counting comes after its validation
  bool accumulating = false;  ///< its window is open: the gradients belong to the state
  bool left_early = false;    ///< the epoch ended before its loader did
  bool began = false;         ///< a pass over the data, of before_batch's epoch or for statistics, had begun
  std::uint8_t parts = 0;     ///< at an epoch's end: so many of its parts were over
  long observed = 0;          ///< the step that schedules which follow a metric were last told of
  /// After a batch: whether its validation comes next. nullopt: not decided yet. A resumed run decides again.
  std::optional<bool> validates = std::nullopt;

  void state(auto& archive);
};

// Part of a run's state under several ranks: what they have yet to tell each other, and what they were told.

/// Several processes train one model, so that whatever changes its course has to be decided by all of them.
template <class R>
inline constexpr bool shares = R::Strategy::is_distributed;

/// Each of them runs a part of the model, all on the same batches: what is logged is the last rank's, gradients are
/// each rank's own, and loaders are not shared out.
template <class R>
inline constexpr bool splits_model = judge::splits_model<typename R::Strategy>();

struct SharedFacts {
  // Of this rank alone. The others hear it with the next gradients, or where all of them meet.
  bool skips = false;         ///< on_train_batch_start answered skip_epoch
  bool not_finite = false;    ///< a loss of the window at hand is not
  double loss = 0;            ///< that loss
  bool in_gradients = false;  ///< not the loss: a gradient of this rank's part of the model
  int signal = 0;             ///< by which the system has asked for the program's end
  std::uint64_t stepped = 0;  ///< a bit for each optimizer that was stepped by hand

  // Known to all.
  bool epoch_ends = false;  ///< with the batch at hand: a rank has no further one
  bool skipped = false;     ///< the epoch was left by a rank's skip_epoch: no validation follows
  bool validates = false;   ///< after the step at hand, as rank 0's clock says
  int ends_by = 0;          ///< the signal by which all end
  bool rang = false;        ///< with the step at hand: a moment has come that somebody waits for, by rank 0's clock

  /// The first of those moments. Each is named anew where it is asked for.
  double alarm = std::numeric_limits<double>::infinity();

  std::vector<std::string> parts = {};  ///< of the file at hand: what each rank alone keeps, as text

  bool syncs = true;  ///< manual optimization: gradients are exchanged after each backward; all ranks ask for the same

  bool together = false;  ///< the exception at hand was thrown by every rank
  bool alone = false;     ///< this rank has failed by itself: nothing may be asked of the others any more
};

/// In place of them with one process.
struct NothingShared {};

template <class R>
using SharedOf = std::conditional_t<shares<R>, SharedFacts, NothingShared>;

// Part of a run's state: what was said. The one channel for warnings of the library, of callbacks and of models.

/// How a function that is no template warns through a run: State's `warn`, lent.
using Warn = FunctionRef<void(std::string_view identifier, std::string_view sentence)>;

/// What may be meant and mostly is not, each with its identifier in brackets in front. `aloud`: on stderr, too.
class Warnings {
 public:
  /// Said once for each identifier.
  void once(std::string_view identifier, std::string_view sentence, bool aloud);
  /// Said once for each sentence.
  void each(std::string_view identifier, std::string_view sentence, bool aloud);

  std::vector<std::string> const& all() const { return said_; }

 private:
  static bool is_of(std::string_view said, std::string_view identifier);
  void say(std::string_view identifier, std::string_view sentence, bool aloud);

  std::vector<std::string> said_{};
};

}  // namespace fulgurite::loop

namespace fulgurite {

// What is tried out in a rehearsal, and what may be done at each of its steps.

/// What a rehearsal finds out about the loader that it reads.
struct LoaderFacts {
  std::optional<long> batches = std::nullopt;  ///< of an epoch
  std::optional<long> samples = std::nullopt;  ///< where the loader has `layout()` or `samples()` that says it
};

/// The learning rates of a run: those of all groups of its first optimizer, then of the second one. Error
/// [fulgurite.tuner.rates] where more or fewer are given than it has.
class LearningRates {
 public:
  virtual ~LearningRates() = default;
  virtual std::vector<double> now() const = 0;
  /// That schedules start from: what configure_optimizers gave.
  virtual std::vector<double> initial() const = 0;
  /// Until a schedule moves them.
  virtual void set(std::span<double const> rates) = 0;
  /// From which schedules start from now on. What a schedule makes of them at its present place is set at once.
  virtual void begin_from(std::span<double const> rates) = 0;
};

/// One optimizer step of a rehearsal, as the functions of its plan see it.
class RehearsedStep {
 public:
  RehearsedStep(LearningRates& rates, long number) : rates_(rates), number_(number) {}

  /// Counted from 0. A captured step that was replayed wrongly is made again, and so its number may come again.
  long number() const { return number_; }
  /// After the step: how many the rehearsal has made. More than `number() + 1` where a batch is cut into slices, each
  /// with a step of its own: all of them are one step to a plan.
  long made() const { return made_; }
  /// The place of the batch at hand in its pass over the data, from 0.
  long batch_idx() const { return batch_idx_; }
  /// Rows of the batch at hand.
  long batch_size() const { return batch_size_; }
  /// After the step: what training_step returned for the batch that closed its window. Reads the device. NaN where it
  /// returned none, and under manual optimization.
  double loss() const;
  bool has_loss() const { return loss_ != nullptr; }
  LearningRates& rates() const { return rates_; }
  /// No other step follows this one. Before a step: it is the last one.
  void stop() { stops_ = true; }

  bool stops() const { return stops_; }
  void set_batch(long place, long size, std::function<double()> loss);
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

/// An aggregate: `RehearsalPlan{.steps = 100, .after_step = [&](RehearsedStep& step) { ... }}`.
struct RehearsalPlan {
  long steps = 1;  ///< at most: the data and max_epochs may end it before, and either function
  /// Schedules move as in a fit. Otherwise the rates stay where `before_step` puts them.
  bool schedules = false;
  /// The data are asked for their loader anew, which may be another one by now: one of other batches.
  bool fresh_loader = false;
  /// Changes the trainer's options while it lasts.
  std::function<void(TrainerOptions&)> options = nullptr;
  /// When the loader is at hand, before any step.
  std::function<void(LoaderFacts const&)> on_loader = nullptr;
  /// In place of the trainer's own option.
  std::optional<NonFinite> non_finite = std::nullopt;
  /// When the first batch of a step is at hand.
  std::function<void(RehearsedStep&)> before_step = nullptr;
  /// When the step is made.
  std::function<void(RehearsedStep&)> after_step = nullptr;
};

// Searches: what callbacks want tried out before training goes on.

class BatchSizes;

/// What a search is given: the run at a place between two epochs, where steps can be tried out.
template <class R>
class Rehearser {
 public:
  virtual ~Rehearser() = default;
  /// Runs steps of the real trainer, and puts everything back; see tune::rehearse.
  virtual void rehearse(RehearsalPlan const& plan) = 0;
  /// Those of the run, to be set for what follows the search.
  virtual LearningRates& rates() = 0;
  virtual RunContext<R, phase::Fit> context() = 0;
  virtual BatchSizes& batch_sizes() = 0;
};

/// What a callback gives to ctx.request_search: called at the next place where steps can be tried out.
template <class R>
using RunSearch = std::function<void(Rehearser<R>&)>;

namespace loop {

/// Part of a run's state: searches that were asked for and have yet to be done.
template <class R>
struct Searching {
  bool answers = false;        ///< the fit at hand has a callback that says `searches`
  bool alone = false;          ///< the run is there for its search, and ends then
  bool rehearsing = false;     ///< steps are tried out: nothing of them is written
  bool sizes_changed = false;  ///< a search has set another batch size: the fit asks for its loaders anew
  std::vector<RunSearch<R>> due{};
  std::vector<RunSearch<R>> settings{};  ///< to be done before loaders are asked for
};

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

/// What is kept of data when their fit is over, where the Backend has files.
template <class Backend>
struct LeftBy {
  struct type {};
};
template <class Backend>
  requires requires { typename Backend::RunFile::Memory; }
struct LeftBy<Backend> {
  using type = typename Backend::RunFile::Memory;
};

/// Of what a validation inside fit begins with, what depends on no type of the program.
struct ValidationBegan {
  StopRequest stop{};        ///< Due's
  int validation_since = 0;  ///< Loading's
  long rows = 0;             ///< Due's
};
/// What a validation inside fit begins with, as far as its hooks and steps can change it. Weights, buffers and
/// optimizers are not in it. See loader_state.hpp.
template <class R>
struct BeforeValidation : ValidationBegan {
  typename LeftBy<typename R::Backend>::type parts{};      ///< of the model, the data module, the loaders; results
  typename LeftBy<typename R::Backend>::type callbacks{};  ///< what callbacks save, each under its name
  decltype(R::Backend::rng_state()) random = R::Backend::rng_state();
};

struct RunCore;
struct ProgramEvents;

/// How code that does not know the program's types reaches them: one table for each program.
struct ProgramCalls {
  std::string_view model_name;  ///< the name of its type
  bool is_distributed;          ///< several processes train one model
  bool splits_model;            ///< each of them runs a part of it
  bool steps_by_batch;          ///< max_steps tells of batches: not by hand, nor where they are cut into slices
  bool keeps_questions;         ///< a strategy replays steps, and has to know what a recorded one went by
  int (*rank)(RunCore const&);
  int (*world)(RunCore const&);
  std::string (*of_first_rank)(RunCore&, std::string);
  bool (*has_come)(RunCore&, double);
  int (*signal_of_all)(RunCore&, int);
  int (*signal_here)(RunCore&, int);
  std::optional<long> (*estimated_steps)(RunCore const&);
  long (*unchecked_steps)(RunCore const&);  ///< replayed steps that no check has followed
  void (*device_stats)(RunCore&, FunctionRef<void(std::string const&, double)>);
  void (*model_rows)(RunCore&, int max_depth, bool with_example, std::vector<report::ModelRow>&);
  std::span<DeclaredMetric const> metrics = {};
  std::size_t (*evaluation_boards)(RunCore const&) = nullptr;
  std::span<Cell> (*cells)(RunCore&, BoardNumber) = nullptr;
  /// Reads what waits on a device.
  void (*collect)(RunCore&, BoardNumber) = nullptr;
  /// Null where no metric has a definition.
  std::optional<double> (*counted_so_far)(RunCore&, CountedSoFar const&) = nullptr;
  /// Values of all ranks in place of this one's; false on a rank that has failed. Null in one process.
  bool (*reduce)(RunCore&, std::span<double> values, std::span<Reduce const> how) = nullptr;
};
template <class R>
struct ProgramCallsOf;

/// What of a run's state depends on no type of the program.
struct RunCore {
  RunCore(Asked what, ProgramCalls const& of_program);
  RunCore(RunCore const&) = delete;
  RunCore& operator=(RunCore const&) = delete;
  ~RunCore();

  Asked asked;          ///< what the user wants
  Progress progress{};  ///< where it is: what is counted, and saved
  SafePoint point{};    ///< where it is: between which pieces of work, while a checkpoint is written
  Facts facts{};        ///< where it is: the batch, the loader, the stage at hand
  Due due{};
  Loading loading{};
  RunClock clock{};
  Made made{};
  Warnings said{};
  FinishedValues values;
  OwnActions own_actions{};
  bool const keeps_questions;               ///< the program's
  Questions questions{};                    ///< to a context, since they were last forgotten
  std::vector<std::string> loader_names{};  ///< of the evaluation loaders: their own, or their positions
  std::vector<AnyCallback> callbacks{};     ///< in firing order
  ProgramEvents const* events = nullptr;    ///< of these callbacks
  ProgramCalls const* program;

  int rank() const { return program->rank(*this); }
  /// A fit begins: what an earlier run requested or was doing is forgotten.
  void begin_fit(bool has_validation);

  /// A warning, said once for each identifier.
  void warn(std::string_view identifier, std::string_view sentence);
  /// The same, said once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence);

  double training_seconds() const;

 private:
  bool aloud(std::string_view identifier) const;
};

/// The trainer owns it; loops, contexts and steps borrow it.
template <class R>
struct State : RunCore {
  using Key = R;
  using Board = typename Measured<R>::Board;
  static constexpr std::size_t metrics = R::Metrics::size;

  State(Asked what, typename R::Optimization how, typename R::Strategy strategy, typename R::Precision precision,
        typename R::Model* model = nullptr)
      : RunCore(std::move(what), ProgramCallsOf<R>::table),
        optimization(std::move(how)),
        parts{.strategy = std::move(strategy), .precision = std::move(precision), .model = model} {}

  typename R::Optimization optimization;  ///< what the user wants, too
  Parts<R> parts;                         ///< what it was assembled from
  Carried<R> carried{};
  Watch<R> watch{};
  Measured<R> measured{};
  Searching<R> searching{};
  [[no_unique_address]] SharedOf<R> shared{};
  [[no_unique_address]] FilesUnderWay<typename R::Backend> under_way{};
  std::optional<typename LeftBy<typename R::Backend>::type> left{};  ///< by the data of the last fit
  /// Its state before hooks were notified of the end of an epoch that was cut short; see run_position.hpp.
  std::optional<typename LeftBy<typename R::Backend>::type> before_cut{};
  std::optional<BeforeValidation<R>> before_validation{};  ///< of the one that is running or has failed
};

/// Until the result ends, matrix products go the way that the strategy was told of, where it knows several.
template <class R>
auto products_scope(State<R>& run) {
  if constexpr (requires { run.parts.strategy.matmul_scope(); }) return run.parts.strategy.matmul_scope();
  else return 0;
}

// What can neither be copied nor moved, made where it is to stay.

/// `std::optional<Scope> scope; scope.emplace(InPlace{[] { return Scope(...); }});`
template <class F>
struct InPlace {
  F make;
  operator decltype(std::declval<F&>()())() { return make(); }
};
template <class F>
InPlace(F) -> InPlace<F>;

// What was changed on trial is put back however the trial ends; where even that fails, it is said.

/// What rehearsed steps changed could not be undone. A search never treats it as "out of memory", even if memory was
/// the cause.
class NotPutBack : public Error {
 public:
  explicit NotPutBack(char const* why);
};

/// Runs `work()`, then `put_back()`, however the work has ended. Errors: those of the work, [fulgurite.tuner.put_back].
template <class Work, class PutBack>
void put_back_after(Work&& work, PutBack&& put_back) {
  auto const all = [&] {
    try {
      put_back();
    } catch (std::exception const& error) { throw NotPutBack(error.what()); } catch (...) {
      throw NotPutBack("what was thrown is no std::exception");
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

/// Where the system has asked for the program's end inside of a fit, between the batches of a pass without hooks.
/// Several ranks end together: with the next step that they exchange gradients for, or when they tear down. One that
/// ended alone would end the others without the file that they go on from.
void end_alone_if_asked(RunCore const& run, Callbacks callbacks);

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run.ipp>
#endif
