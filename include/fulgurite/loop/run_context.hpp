#pragma once
// What steps and hooks receive. A member that makes no sense in a phase does not exist in it.

#include <concepts>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context_values.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::loop {

// What a strategy or an optimizer says it cannot clip.

/// Of a strategy: `clips_by_norm`, `clips_by_value` = false; of an optimizer: `unscales_itself` = true. Asked before
/// training for Automatic{.clip}, and at each ctx.clip_gradients.
template <class R, class O>
void check_clip(Clip const& clip) {
  using S = typename R::Strategy;
  [[maybe_unused]] auto const refuse = [](char const* how, char const* instead) {
    throw Error("fulgurite.policy.clip",
                std::string("this strategy does not hold all gradients, so they cannot be limited by ") + how +
                    ": use " + instead + ", or leave clipping out");
  };
  if constexpr (FULGURITE_SAYS(S, bool, clips_by_norm))
    if (!S::clips_by_norm && clip.kind == Clip::Kind::norm) refuse("their norm", "ClipValue");
  if constexpr (FULGURITE_SAYS(S, bool, clips_by_value))
    if (!S::clips_by_value && clip.kind == Clip::Kind::value) refuse("value", "ClipNorm");
  if constexpr (FULGURITE_SAYS(O, bool, unscales_itself))
    if (O::unscales_itself && R::Precision::scales_loss && clip.kind != Clip::Kind::none)
      throw Error("fulgurite.optimizer.unscales_itself",
                  "this optimizer divides by the loss scale inside its step, so clipping before it would see scaled "
                  "gradients: leave clipping out, or use another optimizer");
}

}  // namespace fulgurite::loop

namespace fulgurite {

// What a context logs.

namespace loop {

/// An option of Lightning's `self.log` that is one of the metric's declaration here: no call can give it. `Which`
/// makes each a type of its own, so that none takes room.
template <int Which>
struct DeclaredOption {
  constexpr DeclaredOption() = default;
  template <class T>
  DeclaredOption(T const&) {
    constexpr bool belongs_here = std::same_as<T, DeclaredOption>;
    static_assert(belongs_here, FULGURITE_SENTENCE_METRIC_LOG_OPTIONS);
  }
};

}  // namespace loop

/// Per call: the weight of the value in the epoch's mean. What concerns the metric itself stands in its declaration:
/// the other options are refused.
struct LogOptions {
  [[no_unique_address]] loop::DeclaredOption<0> on_step = {};    ///< refused: an option of the metric's declaration
  [[no_unique_address]] loop::DeclaredOption<1> on_epoch = {};   ///< refused
  [[no_unique_address]] loop::DeclaredOption<2> prog_bar = {};   ///< refused
  [[no_unique_address]] loop::DeclaredOption<3> logger = {};     ///< refused
  [[no_unique_address]] loop::DeclaredOption<4> sync_dist = {};  ///< refused: the declaration's sync_on_step
  long batch_size = 0;                                           ///< 0: inferred from the batch
};

namespace loop {

[[noreturn]] void refuse_log_place(std::string_view name, bool by_step);
[[noreturn]] void refuse_no_rows(std::string_view name, long batch);
[[noreturn]] void refuse_no_size(std::string_view name);

}  // namespace loop

/// A Context, and what the program's types add to it: the model, its optimizers, its metrics. `Phase` decides which
/// members exist: those that make no sense in a phase are refused. Never kept beyond the call.
template <class R, class Phase>
class RunContext : public Context, public loop::NotHere {
 public:
  using Run = R;
  using Metrics = typename R::Metrics;
  using Backend = typename R::Backend;
  using Asks = loop::Question;

  /// Made by the loops.
  explicit constexpr RunContext(loop::State<R>& state) : Context(state, loop::metric_source<Phase>) {}

  /// These steps are tried out: nothing of them stays, but what you keep outside of weights, buffers and `state`.
  bool rehearsing() const { return state().searching.rehearsing; }
  /// The model that is trained or evaluated. A callback may change it in its hooks.
  typename R::Model& model() const { return *state().parts.model; }
  /// Where batches and weights are, in the tensor library's type (torch::Device).
  auto device() const { return state().parts.strategy.device(); }

  // The processes that train one model together.

  /// The numbers that each rank gives, in the order of ranks. Every rank has to come here, each as often as the others:
  /// never inside of an `if (ctx.rank() == 0)`, or in a step of an evaluation, of which ranks may have different
  /// numbers.
  std::vector<std::vector<double>> all_gather(std::span<double const> mine) const {
    asked(Asks::optimizers);
    std::vector<std::vector<double>> all;
    if constexpr (loop::shares<R>) {
      std::string bytes(mine.size_bytes(), '\0');
      if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
      for (auto const& one : state().parts.strategy.gather(std::move(bytes))) {
        auto& numbers = all.emplace_back(one.size() / sizeof(double));
        if (!one.empty()) std::memcpy(numbers.data(), one.data(), one.size());
      }
    } else {
      all.emplace_back(mine.begin(), mine.end());
    }
    return all;
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  std::vector<Number> all_gather(Number mine) const {
    auto const number = static_cast<double>(mine);
    std::vector<Number> all;
    for (auto const& one : all_gather(std::span<double const>(&number, 1)))
      all.push_back(static_cast<Number>(one.front()));
    return all;
  }

  // Values of metrics.

  /// The metric's value over the running epoch so far, else over the last finished one: the mean weighted by batch size
  /// (or the declared reduction, or definition); `metric.last()` asks for the latest value. May read a device: then it
  /// waits, and is worth counting.
  template <class M>
  std::optional<double> value(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (declared && one) return values().value(WatchedMetric(metric), loop::place_of<Metrics, M>());
    else return {};
  }
  using Context::value;
  /// The same as all processes together have it: for what decides something, in a hook of an epoch's or a validation's
  /// end. Every rank has to ask.
  template <class M>
  std::optional<double> shared_value(M const& metric) const {
    return watched_value(metric).value;
  }
  using Context::shared_value;
  /// The same with its age, for a monitor: a value that it has judged before is no second value. It keeps `logged` in
  /// its state and looks again when there is something new:
  ///     auto const seen = ctx.watched_value(metric);
  ///     if (!seen.is_newer_than(logged_)) return;
  ///     logged_ = seen.logged;
  template <class M>
  WatchedValue watched_value(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (declared && one) return values().watched_value(WatchedMetric(metric), loop::place_of<Metrics, M>());
    else return {};
  }
  using Context::watched_value;
  /// The same without ever waiting: what the host knows already.
  template <class M>
  std::optional<double> known(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size;
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    if constexpr (declared) return values().known(WatchedMetric(metric), loop::place_of<Metrics, M>());
    else return {};
  }
  /// Whether figures of a metric still wait on a device: to ask for its value would wait for them.
  template <class M>
  bool value_waits(M const&) const {
    return values().waits(Metrics::template index_of<M>());
  }
  /// f(metric, value the host knows already) for each declared metric of one number, in order.
  template <class F>
  void each_metric(F&& f) const {
    Metrics::each([&]<class M>(std::size_t, M const& metric) {
      if constexpr (!metric::counts_several<M>) f(metric, known(metric));
    });
  }

  // Logging.

  /// Stores the value; reduced over the epoch, reported as the metric's declaration says. No look-up, no allocation, no
  /// wait for a device.
  template <class M, class V>
    requires(Phase::logs)
  void log(M const&, V const& value, LogOptions how = {}) {
    constexpr std::size_t at = loop::place_of<Metrics, M>();
    constexpr bool constant = loop::is_metric_constant<M>;
    constexpr bool declared = !constant || at < Metrics::size;
    constexpr bool tensor = Backend::template is_value<V>;
    constexpr bool loggable = !is_counted<M>;
    constexpr bool readable = !constant || !declared || tensor || std::is_arithmetic_v<V>;
    constexpr bool replayable =
        tensor || !std::is_arithmetic_v<V> || !R::Strategy::captures || !std::same_as<Phase, phase::Train>;
    static_assert(constant, FULGURITE_SENTENCE_METRIC_CONSTANT);
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(loggable, FULGURITE_SENTENCE_METRIC_COUNTED);
    static_assert(readable, FULGURITE_SENTENCE_METRIC_VALUE);
    static_assert(replayable, FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER);
    if constexpr (at < Metrics::size) {
      if (is_lost()) return;
      check_place(at);
      // Read at once where that waits for nothing: a parameter that is logged will have been updated before the slot is
      // folded. A captured step needs the tensor itself, to post it again.
      if constexpr (tensor) {
        if (!R::Strategy::captures && !Backend::reading_waits(value))
          board().log_number(at, Backend::read(value), weight<M>(how), origin());
        else board().log_tensor(at, value, weight<M>(how), origin());
      } else if constexpr (std::is_arithmetic_v<V>)
        board().log_number(at, static_cast<double>(value), weight<M>(how), origin());
    }
  }

  /// Counts a batch for a metric that is declared with a definition, such as `Metric<"val/f1", metric::F1>`; most take
  /// (predictions, target). In a step, or a hook of a batch, of training, validation or test. Reads nothing on the
  /// host: the value is computed when the last batch is over. A captured step counts in each replay.
  template <class M, class... Args>
  void update(M const&, Args const&... args) {
    constexpr std::size_t at = loop::place_of<Metrics, M>();
    constexpr bool here = Phase::logs;
    constexpr bool declared = at < Metrics::size;
    constexpr bool counted = !declared || is_counted<M>;
    constexpr bool replayable =
        !(std::is_arithmetic_v<Args> || ...) || !R::Strategy::captures || !std::same_as<Phase, phase::Train>;
    static_assert(here, FULGURITE_SENTENCE_METRIC_UPDATE_HERE);
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(counted, FULGURITE_SENTENCE_METRIC_NO_DEFINITION);
    static_assert(replayable, FULGURITE_SENTENCE_CAPTURE_HOST_NUMBER_COUNTED);
    if constexpr (here && declared && counted && replayable) {
      if (is_lost()) return;
      if (!state().facts.in_batch)
        throw Error("fulgurite.metric.no_batch", "ctx.update counts " + std::string(M::name()) +
                                                     " outside of a batch, where no value would be made of it: call it "
                                                     "in the step, or in a hook of a batch");
      if constexpr (Phase::evaluates) board().counts.template get<at>().update(args...);
      else board().template count<at>(args...);
    }
  }

  /// Refused: predictions and a target are counted, and options have names.
  template <class M, class V, class Third, class... More>
    requires(Phase::logs && !(std::same_as<Third, LogOptions> && sizeof...(More) == 0))
  void log(M const&, V const&, Third const&, More const&...) {
    constexpr bool loggable = !is_counted<M>, options_alone = !loggable;
    static_assert(loggable, FULGURITE_SENTENCE_METRIC_COUNTED);
    static_assert(options_alone, FULGURITE_SENTENCE_METRIC_LOG_OPTIONS);
  }

  template <class M, class V, bool Fine = Phase::logs>
    requires(!Phase::logs)
  void log(M const&, V const&, LogOptions = {}) {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NO_LOG);
  }

  /// Several at once: `ctx.log_dict(Net::loss, loss, Net::accuracy, accuracy)`.
  template <class M, class V, class... Rest>
    requires(Phase::logs)
  void log_dict(M const& metric, V const& value, Rest const&... rest) {
    log(metric, value);
    if constexpr (sizeof...(Rest) != 0) log_dict(rest...);
  }
  /// A row for the loggers under a name that is known at run time only, such as a class or a layer: `ctx.log_dynamic(
  /// "val/f1/" + label, f1)`. No callback, schedule or `ctx.value` reads it, it is not reduced over an epoch, and of
  /// several processes rank 0's counts; before its row is written the last value of a name counts. What is to be
  /// watched is declared, and logged by ctx.log. In a hook rather than in a step, since it allocates; a captured step
  /// that calls it is refused.
  template <class V>
  void log_dynamic(std::string_view name, V value) const {
    constexpr bool number = std::is_arithmetic_v<V>;
    static_assert(number, FULGURITE_SENTENCE_METRIC_DYNAMIC_VALUE);
    if constexpr (number) {
      asked(Asks::log_dynamic);
      post_dynamic(name, static_cast<double>(value));
    }
  }
  /// The same of several, which are called NAME.0, NAME.1 and so on: `ctx.log_dynamic("val/f1", meter.per_class(ctx))`.
  void log_dynamic(std::string_view name, std::vector<double> const& values) const {
    asked(Asks::log_dynamic);
    for (std::size_t i = 0; i != values.size(); ++i)
      post_dynamic((std::string(name) += '.') += std::to_string(i), values[i]);
  }

  // Optimizers, and what a run is asked for.

  /// The tuple of optimizers: `auto& [g, d] = ctx.optimizers();`
  auto& optimizers() const
    requires(Phase::trains)
  {
    if (asked(Asks::optimizers), !state().parts.optimizers) [[unlikely]]
      throw Error("fulgurite.context.optimizers",
                  "there are no optimizers yet: ask for them from on_fit_start on, inside fit");
    return state().parts.optimizers->optimizers;
  }
  /// The one optimizer of automatic optimization.
  auto& optimizer() const
    requires(Phase::trains && R::automatic)
  {
    return std::get<0>(optimizers());
  }
  template <bool Fine = false>
  auto& optimizer() const
    requires(Phase::trains && !R::automatic)
  {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NOT_ONE_OPTIMIZER);
    return std::get<0>(optimizers());
  }
  /// f(position, optimizer) for each; nothing outside of fit.
  template <class F>
  void each_optimizer(F&& f) const {
    if (asked(Asks::optimizers), !state().parts.optimizers) return;
    each_of(state().parts.optimizers->optimizers, [&, i = std::size_t{0}](auto& o) mutable { f(i++, o); });
  }
  /// f(scheduler) for each optimizer that has a schedule.
  template <class F>
  void each_scheduler(F&& f) const {
    if (asked(Asks::optimizers), state().parts.optimizers) state().parts.optimizers->each_scheduler(f);
  }

  /// Manual optimization: the tuple of schedulers, to be stepped by you: one for each optimizer, or as many as it has
  /// schedules, one after the other.
  auto& lr_schedulers() const
    requires(std::same_as<Phase, phase::Train> && !R::automatic)
  {
    return state().parts.optimizers->schedulers;
  }

  /// Limits the gradients of one optimizer; what `configure_gradient_clipping` calls. Returns their norm before, where
  /// they are clipped by it.
  template <class O>
    requires(std::same_as<Phase, phase::Train>)
  auto clip_gradients(O& optimizer, Clip how) -> typename R::Value {
    loop::check_clip<R, O>(how);
    if (how.kind == Clip::Kind::norm) {
      // Over all parts of a model that several processes have.
      if constexpr (loop::splits_model<R>) return state().parts.strategy.clip_norm(optimizer.parameters(), how.limit);
      else return Backend::clip_norm(optimizer.parameters(), how.limit);
    }
    if (how.kind == Clip::Kind::value) Backend::clip_value(optimizer.parameters(), how.limit);
    return {};
  }

  template <class... Os, bool Fine = false>
    requires(std::same_as<Phase, phase::Train>)
  auto clip_gradients(std::tuple<Os...>&, Clip) -> typename R::Value {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_NOT_ONE_OPTIMIZER);
    return {};
  }

  /// Context's, in the phases that train.
  void request_stop(std::string_view why = {}) const
    requires(Phase::trains)
  {
    Context::request_stop(why);
  }
  /// Context's, in the phases that train.
  void request_stop_for_now(std::string_view why = {}) const
    requires(Phase::trains)
  {
    Context::request_stop_for_now(why);
  }
  /// Context's, in the phases that train.
  void set_stop_request(std::string const& who, bool wanted, std::string const& why = {}) const
    requires(Phase::trains)
  {
    Context::set_stop_request(who, wanted, why);
  }
  /// Context's, in the phases that train.
  void request_checkpoint(CheckpointRequest request) const
    requires(Phase::trains)
  {
    Context::request_checkpoint(std::move(request));
  }
  /// Steps to be tried out at the next place between two epochs: when all have heard `on_fit_start`, or
  /// `on_train_epoch_start`, at the latest; in validate, test and predict when all have heard `setup`. There
  /// `search(rehearser)` is called; what it rehearses is put back, what it sets (rates, members of the model) is what
  /// the run goes on with. A warning where no such place follows. For callbacks that say `static constexpr bool
  /// searches = true`; an Error where there is none.
  void request_search(RunSearch<R> search) const {
    answered_searches();
    if (!state().searching.rehearsing) state().searching.due.push_back(std::move(search));
  }
  /// In `on_fit_start`, by the same callbacks: `set(rehearser)` is called when all have heard it, before any loader is
  /// asked for, and also where the fit goes on from a file. It sets what was found before, and tries nothing out.
  void request_setting(RunSearch<R> set) const {
    answered_searches();
    if (!state().searching.rehearsing) state().searching.settings.push_back(std::move(set));
  }

  /// Batches per optimizer step from the next window on; best said in `on_train_epoch_start`.
  template <bool Fine = !judge::fixed_window<typename R::Strategy>()>
    requires(std::same_as<Phase, phase::Train> && R::automatic)
  void accumulate(int batches) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_FIXED_WINDOW);
    asked(Asks::accumulate);
    loop::check_window<R>("ctx.accumulate", batches);
    loop::check_slices<typename R::Model>(state().optimization.tbptt, batches);
    state().asked.window_length = batches;
  }

  /// Context's, in the phases that train.
  int accumulate_grad_batches() const
    requires(Phase::trains)
  {
    return Context::accumulate_grad_batches();
  }
  /// Context's, in the phases that train.
  void request_statistics_pass() const
    requires(Phase::trains)
  {
    Context::request_statistics_pass();
  }

 protected:
  loop::State<R>& state() const { return static_cast<loop::State<R>&>(*core_); }

 private:
  loop::MetricValues values() const { return {state(), source_}; }
  template <class M>
  static consteval bool of_several() {
    if constexpr (loop::is_metric_constant<M>) return metric::counts_several<typename M::metric>;
    else return false;
  }
  auto& board() const {
    if constexpr (Phase::evaluates) return state().measured.eval_boards[state().facts.board];
    else return state().measured.train_board;
  }
  /// Whether nothing that is logged is kept, which is said.
  [[gnu::always_inline]] bool is_lost() const {
    if (!state().asked.options.barebones) [[likely]]
      return false;
    say_lost();
    return true;
  }

  [[gnu::noinline, gnu::cold]] void say_lost() const {
    state().warn("fulgurite.options.barebones_log",
                 "barebones keeps no metric: what is logged is lost, and can be left out");
  }
  void post_dynamic(std::string_view name, double value) const {
    if (is_lost()) return;
    if (!state().asked.logs)
      return state().warn("fulgurite.metric.no_logger",
                          "ctx.log_dynamic writes to the loggers alone, and there is none: what is logged is lost; add "
                          "CSVLogger{}, or leave the call out");
    bool declared = false;
    Metrics::each([&](std::size_t, auto const& metric) { declared = declared || is_reported_as(metric.name(), name); });
    if (declared || name.empty() || name == "epoch" || name == "step")
      throw Error("fulgurite.metric.dynamic_name",
                  "ctx.log_dynamic was given the name '" + std::string(name) + "', which " +
                      (declared ? "the model declares as a metric: log that by ctx.log"
                                : "is none, or a column of every row: give the number a name of its own"));
    for (auto& [posted, last] : state().due.posted)
      if (posted == name) return static_cast<void>(last = value);
    state().due.posted.emplace_back(name, value);
  }
  /// A metric has rows under its name, and under this name and a word.
  static bool is_reported_as(std::string_view metric, std::string_view name) {
    if (!name.starts_with(metric)) return false;
    auto const rest = name.substr(metric.size());
    return rest.empty() || rest == "_step" || rest == "_epoch" || rest.starts_with("/dataloader_idx_");
  }
  /// One metric has one meaning: values of steps and a value of the epoch, merged into one mean, would be neither.
  void check_place(std::size_t at) const {
    auto const& cell = board()[at];
    bool const by_step = origin() == Origin::train_epoch && Metrics::by_step[at];
    if (!by_step && (cell.epoch.count == 0 || cell.origin == origin())) [[likely]]
      return;
    loop::refuse_log_place(Metrics::names[at], by_step);
  }

  Origin origin() const {
    if constexpr (Phase::evaluates) return Origin::evaluation;
    else return state().facts.in_batch ? Origin::train_step : Origin::train_epoch;
  }

  template <class M>
  double weight(LogOptions how) const {
    if (how.batch_size > 0) return static_cast<double>(how.batch_size);
    if (!state().facts.in_batch) return 1.0;
    if (state().facts.left_out) return 1.0;
    if (state().facts.batch_size == 0 && state().facts.no_rows) [[unlikely]]
      loop::refuse_no_rows(M::name(), batch_idx());
    if (state().facts.batch_size == 0) [[unlikely]]
      loop::refuse_no_size(M::name());
    return static_cast<double>(state().facts.batch_size);
  }
  void answered_searches() const {
    if (!state().searching.answers)
      throw Error("fulgurite.context.no_search",
                  "a search was requested, and no callback of this trainer says that it asks for any: give one "
                  "`static constexpr bool searches = true`, and ask inside of a run");
  }
};

}  // namespace fulgurite

namespace fulgurite::loop {

// When schedules move in automatic optimization: after steps and epochs, or when the metric that they follow is known.

/// The scheduler's schedule follows a metric: it is told values instead of being counted on.
template <class S>
concept Observing = requires { requires S::observes; };

template <class Tuple>
inline constexpr bool any_observing = false;
template <class... Ss>
inline constexpr bool any_observing<std::tuple<Ss...>> = (Observing<Ss> || ...);
template <class R>
inline constexpr bool observes_any = any_observing<decltype(Optimizers<R>::schedulers)>;

/// A schedule moves when a step, or an epoch, of the run is done; an overriding model moves it itself.
template <class R, class Ctx>
void tick_schedulers(State<R>& run, Ctx& ctx, Interval interval) {
  long const after = interval == Interval::step ? run.progress.global_step : run.progress.epoch + 1;
  run.parts.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (!Observing<S>) {
      if (scheduler.interval() != interval || !scheduler.due(after - 1, after)) return;
      if constexpr (hook::lr_scheduler_step::named<typename R::Model>)
        call_override<hook::lr_scheduler_step>(*run.parts.model, ctx, scheduler);
      else scheduler.step();
    }
  });
}

/// The same of schedules that follow a metric: after the validation of a step, or when all has been said at the end of
/// an epoch, where the metric was logged since they last moved. A batch of a recurrent model has several steps:
/// `before` and `after` count those of the run, or its epochs.
template <class R, class Ctx>
void observe_schedulers(State<R>& run, Ctx& ctx, Interval interval, long before, long after) {
  run.parts.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (Observing<S>) {
      if (scheduler.interval() != interval || !scheduler.due(before, after)) return;
      auto const seen = ctx.watched_value(scheduler.metric());
      if (!seen.value) {
        auto const name = std::string(std::remove_cvref_t<decltype(scheduler.metric())>::name());
        if (scheduler.strict())
          throw Error("fulgurite.schedule.metric",
                      "a schedule follows '" + name + "', which nobody has logged by the end of epoch " +
                          std::to_string(ctx.current_epoch()) +
                          ": log it, or move the schedule when it is known ({.frequency = ...})");
        run.warn("fulgurite.schedule.metric",
                 "a schedule follows '" + name + "', which has no value yet: it does not move");
      } else if (scheduler.takes(seen)) {
        if constexpr (hook::lr_scheduler_step::named<typename R::Model>)
          call_override<hook::lr_scheduler_step>(*run.parts.model, ctx, scheduler);
        else scheduler.step(*seen.value);
      }
    }
  });
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run_context.ipp>
#endif
