#pragma once
// What steps and hooks receive. A member that makes no sense in a phase does not exist in it.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/loop/clip_rules.hpp>
#include <fulgurite/loop/estimate.hpp>
#include <fulgurite/loop/not_here.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/policy/optimization.hpp>

namespace fulgurite {

/// The phases of a run. `setup`, `teardown`, `on_fit_*` and `configure_optimizers` run in Fit (or in the stage's own phase).
namespace phase {
struct Fit {
  static constexpr bool logs = false, trains = true, evaluates = false;
};
struct Train {
  static constexpr bool logs = true, trains = true, evaluates = false;
};
struct Validate {
  static constexpr bool logs = true, trains = true, evaluates = true;
};
struct Test {
  static constexpr bool logs = true, trains = false, evaluates = true;
};
/// on_train_end, on_validation_end, on_test_end: the rows are written, what would be logged now could go nowhere.
struct TrainEnd : Train {
  static constexpr bool logs = false;
};
struct ValidateEnd : Validate {
  static constexpr bool logs = false;
};
struct TestEnd : Test {
  static constexpr bool logs = false;
};
struct Predict {
  static constexpr bool logs = false, trains = false, evaluates = true;
};
}  // namespace phase

/// Per call: the weight of the value in the epoch's mean. What concerns the metric itself stands in its declaration.
struct LogOptions {
  long batch_size = 0;  ///< 0: inferred from the batch
};

/// Where a step or a hook stands in its run, and what it may ask for there: counters, the model, logging, stops, checkpoints. One pointer;
/// never kept beyond the call. `Phase` decides which members exist.
template <class R, class Phase>
class Context : public loop::NotHere {
 public:
  using Run = R;
  using Metrics = typename R::Metrics;
  using Backend = typename R::Backend;

  explicit constexpr Context(loop::State<R>& state) : state_(&state) {}

  long global_step() const { return state_->progress.global_step; }
  long skipped_steps() const { return state_->progress.skipped_steps; }
  int current_epoch() const { return state_->progress.epoch; }
  long batch_idx() const { return state_->facts.batch_idx; }
  long batch_size() const { return state_->facts.batch_size; }
  bool is_last_batch() const { return state_->facts.is_last_batch; }
  bool accumulating() const { return state_->facts.accumulating; }
  bool sanity_checking() const { return state_->facts.sanity_checking; }
  Stage stage() const { return state_->facts.stage; }
  std::size_t loader() const { return state_->facts.loader; }
  /// fast_dev_run is on: what would be saved, stopped or logged on behalf of a run is not.
  bool dev_run() const { return state_->options.fast_dev_run != 0; }

  typename R::Model& model() const { return *state_->model; }
  TrainerOptions const& options() const { return state_->options; }
  auto device() const { return state_->strategy.device(); }
  int rank() const { return state_->strategy.rank(); }

  /// Batches of a training epoch after limits; nullopt where the loader has no size.
  std::optional<long> num_training_batches() const { return state_->facts.train_batches; }
  /// Batches of the evaluation loader at hand, after limits.
  std::optional<long> num_eval_batches() const { return state_->facts.eval_batches; }
  /// Optimizer steps of the whole fit; nullopt where neither max_steps nor a sized loader and max_epochs tell.
  std::optional<long> estimated_steps() const { return loop::estimated_steps(*state_); }
  bool has_validation() const { return state_->facts.has_validation; }
  /// Validation runs exactly once, at the end of every epoch.
  bool validating_each_epoch_end() const {
    return has_validation() && options().val_check_interval.epoch_end() && options().check_val_every_n_epoch == 1;
  }
  double seconds_since_fit_start() const { return state_->seconds_since_fit_start(); }
  double seconds_now() const { return Seconds(options().now().time_since_epoch()).count(); }

  /// Stores the value; reduced over the epoch, reported as the metric's declaration says. No look-up, no allocation, no wait for
  /// a device.
  template <class M, class V>
    requires(Phase::logs)
  void log(M const&, V const& value, LogOptions how = {}) {
    constexpr std::size_t at = place<M>();
    constexpr bool constant = is_constant<M>;
    constexpr bool declared = !constant || at < Metrics::size;
    constexpr bool tensor = Backend::template is_value<V>;
    constexpr bool readable = !constant || !declared || tensor || std::is_arithmetic_v<V>;
    constexpr bool replayable = tensor || !std::is_arithmetic_v<V> || !R::Strategy::captures || !std::same_as<Phase, phase::Train>;
    static_assert(constant, "[fulgurite.metric.constant] ctx.log takes a metric of the model, not a text: declare `static constexpr "
                            "Metric<\"loss\"> loss{}` and log that");
    static_assert(declared, "[fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it there");
    static_assert(readable, "[fulgurite.metric.value] ctx.log takes a tensor of one element or a number: log its mean(), or the sum()");
    static_assert(replayable, "[fulgurite.capture.host_number] a captured step is replayed without running your code, so a number logged in "
                              "it would never change: log a tensor");
    if constexpr (at < Metrics::size) {
      if (state_->options.barebones) [[unlikely]]
        return state_->warn("fulgurite.options.barebones_log", "barebones keeps no metric: what is logged is lost, and can be left out");
      check_place(at);
      // Read at once where that waits for nothing: a parameter that is logged will have been updated before the slot is folded. A
      // captured step needs the tensor itself, to post it again.
      if constexpr (tensor) {
        if (!R::Strategy::captures && !Backend::reading_waits(value)) board().log_number(at, Backend::read(value), weight<M>(how), origin());
        else board().log_tensor(at, value, weight<M>(how), origin());
      }
      else if constexpr (std::is_arithmetic_v<V>) board().log_number(at, static_cast<double>(value), weight<M>(how), origin());
    }
  }

  template <class M, class V, bool Fine = Phase::logs>
    requires(!Phase::logs)
  void log(M const&, V const&, LogOptions = {}) {
    static_assert(Fine, "[fulgurite.context.no_log] ctx.log does not work here: log in a step, or in a hook of training, validation or test");
  }

  /// Several at once: `ctx.log_dict(Net::loss, loss, Net::accuracy, accuracy)`.
  template <class M, class V, class... Rest>
    requires(Phase::logs)
  void log_dict(M const& metric, V const& value, Rest const&... rest) {
    log(metric, value);
    if constexpr (sizeof...(Rest) != 0) log_dict(rest...);
  }

  /// The metric's value over the running epoch so far, else over the last finished one: the mean weighted by batch size (or the
  /// declared reduction); `metric.last()` asks for the latest value. May read a device: then it waits, and is worth counting.
  template <class M>
  std::optional<double> value(M const& metric) const {
    constexpr bool declared = place<M>() < Metrics::size;
    static_assert(declared, "[fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it there");
    return find(metric, [](auto& board) { board.collect(); });
  }
  /// The same without ever waiting: what the host knows already.
  template <class M>
  std::optional<double> known(M const& metric) const {
    constexpr bool declared = place<M>() < Metrics::size;
    static_assert(declared, "[fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it there");
    return find(metric, [](auto&) {});
  }
  template <class M>
  bool value_waits(M const&) const {
    bool waits = false;
    each_live_board([&](auto& running) { waits = waits || running[Metrics::template index_of<M>()].waiting != 0; });
    return waits;
  }

  /// f(metric, value the host knows already) for each declared metric, in order.
  template <class F>
  void each_metric(F&& f) const {
    Metrics::each([&](std::size_t, auto const& metric) { f(metric, known(metric)); });
  }

  /// The tuple of optimizers: `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() const
    requires(Phase::trains)
  {
    if (!state_->optimizers) [[unlikely]]
      throw Error("fulgurite.context.optimizers", "there are no optimizers yet: ask for them from on_fit_start on, inside fit");
    return state_->optimizers->optimizers;
  }
  /// The one optimizer of automatic optimization.
  auto& optimizer() const
    requires(Phase::trains && R::automatic)
  {
    return std::get<0>(optimizers());
  }
  /// f(position, optimizer) for each; nothing outside of fit.
  template <class F>
  void each_optimizer(F&& f) const {
    if (!state_->optimizers) return;
    std::apply([&, i = std::size_t{0}](auto&... o) mutable { (f(i++, o), ...); }, state_->optimizers->optimizers);
  }
  /// f(scheduler) for each optimizer that has a schedule.
  template <class F>
  void each_scheduler(F&& f) const {
    if (state_->optimizers) state_->optimizers->each_scheduler(f);
  }

  /// Manual optimization: the tuple of schedulers, one for each optimizer, to be stepped by you.
  auto& lr_schedulers() const
    requires(std::same_as<Phase, phase::Train> && !R::automatic)
  {
    return state_->optimizers->schedulers;
  }

  /// Limits the gradients of one optimizer; what `configure_gradient_clipping` calls.
  template <class O>
    requires(std::same_as<Phase, phase::Train>)
  void clip_gradients(O& optimizer, Clip how) {
    loop::check_clip<R, O>(how);
    if (how.kind == Clip::Kind::norm) Backend::clip_norm(optimizer.parameters(), how.limit);
    else if (how.kind == Clip::Kind::value) Backend::clip_value(optimizer.parameters(), how.limit);
  }

  /// Training ends at the next optimizer step's boundary, once min_epochs and min_steps are met.
  void request_stop() const
    requires(Phase::trains)
  {
    state_->stop_requested = true;
  }
  bool stop_requested() const { return state_->stop_requested; }

  /// The loggers' x axis: batches of this run that ended with an optimizer step and its validation.
  long logged_steps() const { return state_->progress.logged_steps; }
  /// A row for the loggers that is no metric of the model (learning rates), delivered when the event at hand has been heard by all.
  void log_scalars(std::span<Scalar const> row) const {
    for (auto const& scalar : row) state_->posted.emplace_back(scalar.name, scalar.value);
  }

  /// A file to be written at the next safe point: after the event at hand has been heard by all. Inside an accumulation window
  /// it waits for the step, unless a validation asks: then the weights that it scored are written as they are.
  void request_checkpoint(CheckpointRequest request) const
    requires(Phase::trains)
  {
    if (state_->facts.stage != Stage::fit)
      throw Error("fulgurite.context.outside_fit", "a checkpoint of " + request.path.string() +
                                                       " was requested outside fit, where none is written: ask ctx.stage() first");
    state_->requests.push_back(std::move(request));
  }

  /// Batches per optimizer step from the next window on; best said in `on_train_epoch_start`.
  template <bool Fine = !judge::fixed_window<typename R::Strategy>()>
    requires(std::same_as<Phase, phase::Train> && R::automatic)
  void accumulate(int batches) const {
    static_assert(Fine, "[fulgurite.context.fixed_window] this strategy keeps one accumulation window for "
                                                                "a whole fit: use Automatic{.accumulate_grad_batches = k}");
    loop::check_window<R>("ctx.accumulate", batches);
    loop::check_slices<typename R::Model>(state_->optimization.tbptt, batches);
    state_->window = batches;
  }

  /// Batches per optimizer step, in the epoch at hand.
  int accumulate_grad_batches() const
    requires(Phase::trains)
  {
    return state_->window;
  }

  /// Before on_train_end the training data are passed once through training_step, with nothing but buffers changing: what BatchNorm
  /// needs after its weights were replaced.
  void request_statistics_pass() const
    requires(Phase::trains)
  {
    state_->statistics_requested = true;
  }

  std::filesystem::path const& log_dir() const { return state_->log_dir; }
  /// The first logger's folder; the first to say so wins.
  void set_log_dir(std::filesystem::path dir) const {
    if (state_->log_dir.empty()) state_->log_dir = std::move(dir);
  }
  Outcome& outcome() const { return state_->outcome; }

 protected:
  auto& board() const {
    if constexpr (Phase::evaluates) return state_->eval_boards[state_->facts.board];
    else return state_->train_board;
  }
  /// The boards whose running epoch `value` reads first: all loaders' together; none once an evaluation has been published.
  template <class F>
  void each_live_board(F&& f) const {
    if constexpr (!Phase::evaluates) f(state_->train_board);
    else if (state_->facts.validating)
      for (auto& evaluated : state_->eval_boards) f(evaluated);
  }

  /// One metric has one meaning: values of steps and a value of the epoch, merged into one mean, would be neither.
  void check_place(std::size_t at) const {
    auto const& cell = board()[at];
    bool const by_step = origin() == Origin::train_epoch && asks_for_steps(at);
    if (!by_step && (cell.epoch.count == 0 || cell.origin == origin())) [[likely]] return;
    std::string name;
    Metrics::each([&](std::size_t i, auto const& metric) { name = i == at ? std::string(metric.name()) : name; });
    if (by_step)
      throw Error("fulgurite.metric.no_step", name + " is declared with .on_step = Report::yes and logged in a hook of the epoch, where there is no "
                                                     "step: leave on_step out, or log it in training_step");
    throw Error("fulgurite.metric.two_places", name + " is logged both in steps and in a hook of the epoch: declare a second metric for one of them");
  }

  static bool asks_for_steps(std::size_t at) {
    bool asks = false;
    Metrics::each([&](std::size_t i, auto const& metric) { asks = i == at ? metric.on_step == Report::yes : asks; });
    return asks;
  }

  Origin origin() const {
    if constexpr (Phase::evaluates) return Origin::evaluation;
    else return state_->facts.in_batch ? Origin::train_step : Origin::train_epoch;
  }

  template <class M>
  double weight(LogOptions how) const {
    if (how.batch_size > 0) return static_cast<double>(how.batch_size);
    if (!state_->facts.in_batch) return 1.0;
    if (state_->facts.left_out) return 1.0;
    if (state_->facts.batch_size == 0) [[unlikely]]
      throw Error("fulgurite.metric.batch_size", "the batch holds no tensor to take its size from: log " + std::string(M::name()) +
                                                     " with {.batch_size = ...}, or give the batch a batch_size() member");
    return static_cast<double>(state_->facts.batch_size);
  }

  template <class M>
  static constexpr bool is_constant = requires { typename M::metric; };
  /// Its position among the model's metrics; their number where it is none of them.
  template <class M>
  static consteval std::size_t place() {
    if constexpr (is_constant<M>) return Metrics::template index_of<M>();
    else return Metrics::size;
  }

  template <class M, class Prepare>
  std::optional<double> find(M const& metric, Prepare&& prepare) const {
    constexpr std::size_t at = place<M>();
    if constexpr (requires { metric.loader; }) {
      auto const& names = state_->loader_names;
      auto const l = static_cast<std::size_t>(std::find(names.begin(), names.end(), metric.loader) - names.begin());
      if (l == names.size()) return std::nullopt;
      if (Phase::evaluates && state_->facts.validating) {
        prepare(state_->eval_boards[l]);
        if (auto const& live = state_->eval_boards[l][at].epoch; live.count != 0) return live.reduced(reduction_of(at));
      }
      return state_->loader_results[l][at].reduced(reduction_of(at));
    } else if constexpr (at < Metrics::size) {
      Figures live;
      each_live_board([&](auto& running) {
        prepare(running);
        live.merge(running[at].epoch);
      });
      if (live.count == 0 && trains_on(at)) {
        prepare(state_->train_board);
        live = state_->train_board[at].epoch;
      }
      auto const& figures = live.count != 0 ? live : state_->results[at];
      if constexpr (!std::is_same_v<typename M::metric, M>)
        return figures.count ? std::optional(figures.last) : std::nullopt;
      else return figures.reduced(reduction_of(at));
    } else {
      return std::nullopt;
    }
  }

  /// In a validation inside fit: a metric that only training logs has its epoch so far there.
  bool trains_on(std::size_t at) const {
    if constexpr (!Phase::evaluates || !Phase::trains) return false;
    else {
      if (state_->facts.stage != Stage::fit) return false;
      for (auto const& evaluated : state_->eval_boards)
        if (evaluated[at].epoch.count != 0) return false;
      return state_->train_board[at].epoch.count != 0 || state_->train_board[at].waiting != 0;
    }
  }

  static constexpr Reduce reduction_of(std::size_t at) {
    Reduce by = Reduce::mean;
    Metrics::each([&](std::size_t i, auto const& metric) { by = i == at ? metric.reduce : by; });
    return by;
  }

  loop::State<R>* state_;
};

}  // namespace fulgurite
