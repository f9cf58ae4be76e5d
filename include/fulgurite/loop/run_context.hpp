#pragma once
// The context of steps and hooks. A member that makes no sense in a phase does not exist in it.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite {
namespace loop {

// Members that only one kind of context has. In any other one, a call is a compile error that says where they exist.

/// The members of the context of a manual training_step, which hides these, and one that no context has.
struct NotHere {
  template <bool Fine = false, class... Args>
  void backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("backward", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void minimize(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("minimize", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("step", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  int toggle(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("toggle", "use Manual{} for several optimizers"));
    return 0;
  }
  /// Lightning's name for `backward`; no context has it.
  template <bool Fine = false, class... Args>
  void manual_backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_BACKWARD);
  }
};

/// True if M is the type of a metric that was declared as a constant.
template <class M>
inline constexpr bool is_metric_constant = requires { typename M::metric; };
/// The metric's position among the model's metrics; Metrics::size if the model does not declare it.
template <class Metrics, class M>
consteval std::size_t place_of() {
  if constexpr (is_metric_constant<M>) return Metrics::template index_of<M>();
  else return Metrics::size;
}

/// Throws if the strategy or the optimizer does not support the clipping. A strategy declares this by `clips_by_norm`
/// or `clips_by_value` = false, an optimizer by `unscales_itself` = true. For Automatic{.clip} checked before training.
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

// Options of ctx.log.

/// An option of Lightning's `self.log` that belongs to the metric's declaration here, so that no call can give it.
/// `Which` makes each member's type distinct, so that none needs storage.
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

/// Options of one ctx.log call: the weight of the value. Options of the metric itself belong to its declaration.
///
///     ctx.log(Net::loss, loss, {.batch_size = 8});
struct LogOptions {
  [[no_unique_address]] loop::DeclaredOption<0> on_step = {};   ///< refused: an option of the metric's declaration
  [[no_unique_address]] loop::DeclaredOption<1> on_epoch = {};  ///< likewise
  [[no_unique_address]] loop::DeclaredOption<2> prog_bar = {};  ///< likewise
  [[no_unique_address]] loop::DeclaredOption<3> logger = {};    ///< likewise
  /// Refused: the option sync_on_step of the metric's declaration.
  [[no_unique_address]] loop::DeclaredOption<4> sync_dist = {};
  long batch_size = 0;  ///< the weight of the value in the mean of the epoch; 0: the number of samples in the batch
};

/// What a hook with `auto& ctx` receives: a Context, and members that depend on the program's types: the model, its
/// optimizers, its metrics. `Phase` decides which members exist; using one in another phase is a compile error. Do not
/// keep a context beyond the call.
///
///     void on_train_epoch_end(auto& ctx) {
///       if (auto const loss = ctx.value(Net::loss)) ctx.log_dynamic("best", best_ = std::min(best_, *loss));
///     }
template <class R, class Phase>
class RunContext : public Context, public loop::NotHere {
 public:
  using Run = R;
  using Metrics = typename R::Metrics;
  using Backend = typename R::Backend;
  using Asks = loop::Question;

  /// For the loops.
  explicit constexpr RunContext(loop::State<R>& state) : Context(state, loop::metric_source<Phase>) {}

  /// True in a trial run: everything is restored after it, except what you keep outside of weights, buffers and
  /// `state`.
  bool rehearsing() const { return state().searching.rehearsing; }
  /// The model that is trained or evaluated. A callback may change it in its hooks.
  typename R::Model& model() const { return *state().parts.model; }
  /// The device of batches and weights, in the tensor library's type (torch::Device).
  auto device() const { return state().parts.strategy.device(); }

  // The processes that train one model together.

  /// Returns the numbers of all ranks, in the order of ranks. A collective: every rank must call it equally often, so
  /// never call it inside `if (ctx.rank() == 0)`, or in a step of an evaluation, whose number may differ between ranks.
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
    asked(Asks::optimizers);
    std::vector<Number> all;
    if constexpr (loop::shares<R>) {
      std::string bytes(sizeof mine, '\0');
      std::memcpy(bytes.data(), &mine, sizeof mine);
      for (auto const& one : state().parts.strategy.gather(std::move(bytes))) {
        std::memcpy(&mine, one.data(), std::min(one.size(), sizeof mine));
        all.push_back(mine);
      }
    } else {
      all.push_back(mine);
    }
    return all;
  }

  // Values of metrics.

  /// The metric's value in the running epoch so far, or else in the last finished one: the mean weighted by batch size,
  /// or the declared reduction or definition. `metric.last()` gives the latest value. May wait for the device, which
  /// costs time in a step.
  template <class M>
  std::optional<double> value(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (declared && one) return value_at(loop::place_of<Metrics, M>(), WatchedMetric(metric));
    else return {};
  }
  using Context::value;
  /// A metric's value over all processes, for decisions in a hook at an epoch's or a validation's end. A collective.
  template <class M>
  std::optional<double> shared_value(M const& metric) const {
    return watched_value(metric).value;
  }
  using Context::shared_value;
  /// A metric's value over all processes and its age, for monitors, which must not judge one value twice. A monitor
  /// keeps `logged` in its state and acts only on a newer value:
  ///
  ///     auto const seen = ctx.watched_value(metric);
  ///     if (!seen.is_newer_than(logged_)) return;
  ///     logged_ = seen.logged;
  template <class M>
  WatchedValue watched_value(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size, one = !of_several<M>();
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    static_assert(one, FULGURITE_SENTENCE_METRIC_SEVERAL);
    if constexpr (declared && one) return watched_at(loop::place_of<Metrics, M>(), WatchedMetric(metric));
    else return {};
  }
  using Context::watched_value;
  /// The metric's value as far as the host knows it; never waits for the device.
  template <class M>
  std::optional<double> known(M const& metric) const {
    constexpr bool declared = loop::place_of<Metrics, M>() < Metrics::size;
    static_assert(declared, FULGURITE_SENTENCE_METRIC_UNDECLARED);
    if constexpr (declared) return known_at(loop::place_of<Metrics, M>(), WatchedMetric(metric));
    else return {};
  }
  /// True if figures of a metric are still on a device, so that reading its value would wait.
  template <class M>
  bool value_waits(M const&) const {
    return waits_at(Metrics::template index_of<M>());
  }
  /// Calls f(metric, value) for each declared metric of one number, with the value that the host already knows.
  template <class F>
  void each_metric(F&& f) const {
    Metrics::each([&]<class M>(std::size_t, M const& metric) {
      if constexpr (!metric::counts_several<M>) f(metric, known(metric));
    });
  }

  // Logging.

  /// Logs a value: `ctx.log(Net::loss, loss)`. It is reduced over the epoch and reported as the metric's declaration
  /// says. Needs no look-up, no allocation and no wait for the device.
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
      // Read at once if that does not wait: a logged parameter will have been updated before the slot is folded. A
      // captured step needs the tensor itself, to log it again in each replay.
      if constexpr (tensor) {
        if (!R::Strategy::captures && !Backend::reading_waits(value))
          board().log_number(at, Backend::read(value), weight<M>(how), origin());
        else board().log_tensor(at, value, weight<M>(how), origin());
      } else if constexpr (std::is_arithmetic_v<V>)
        board().log_number(at, static_cast<double>(value), weight<M>(how), origin());
    }
  }

  /// Counts a batch for a metric that is declared with a definition, such as `Metric<"val/f1", metric::F1>`. Most
  /// definitions take (predictions, target): `ctx.update(Net::f1, logits, batch.target)`. Call it in a step, or in a
  /// hook of a batch, of training, validation or test; outside of a batch it throws [fulgurite.metric.no_batch]. Reads
  /// nothing on the host: the value is computed after the last batch. A captured step counts in each replay.
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

  /// Refused: predictions and a target are counted by ctx.update, and options have names.
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

  /// Logs several metrics: `ctx.log_dict(Net::loss, loss, Net::accuracy, accuracy)`.
  template <class M, class V, class... Rest>
    requires(Phase::logs)
  void log_dict(M const& metric, V const& value, Rest const&... rest) {
    log(metric, value);
    if constexpr (sizeof...(Rest) != 0) log_dict(rest...);
  }
  /// Writes a number to the loggers under a name that is known only at run time, such as that of a class or a layer:
  /// `ctx.log_dynamic("val/f1/" + label, f1)`. Callbacks, schedules and `ctx.value` cannot read it, and it is not
  /// reduced over an epoch. With several processes only rank 0's value is written; if a name is logged again before its
  /// row is written, the last value counts. To watch a value, declare a metric and use ctx.log. Call this in hooks
  /// rather than in steps, since it allocates; a captured step that calls it is refused. Throws
  /// [fulgurite.metric.dynamic_name] for a name that a declared metric has in the log, an empty name, "epoch" or
  /// "step".
  template <class V>
  void log_dynamic(std::string_view name, V value) const {
    constexpr bool number = std::is_arithmetic_v<V>;
    static_assert(number, FULGURITE_SENTENCE_METRIC_DYNAMIC_VALUE);
    if constexpr (number) {
      asked(Asks::log_dynamic);
      post_dynamic(name, static_cast<double>(value));
    }
  }
  /// Writes several numbers, named NAME.0, NAME.1 and so on: `ctx.log_dynamic("val/f1", meter.per_class(ctx))`.
  void log_dynamic(std::string_view name, std::vector<double> const& values) const {
    asked(Asks::log_dynamic);
    for (std::size_t i = 0; i != values.size(); ++i)
      post_dynamic((std::string(name) += '.') += std::to_string(i), values[i]);
  }

  // Optimizers, and requests to the run.

  /// The tuple of optimizers, from on_fit_start on: `auto& [g, d] = ctx.optimizers();`. Before that it throws
  /// [fulgurite.context.optimizers].
  auto& optimizers() const
    requires(Phase::trains)
  {
    if (asked(Asks::optimizers), !state().parts.optimizers) [[unlikely]]
      throw Error("fulgurite.context.optimizers",
                  "there are no optimizers yet: ask for them from on_fit_start on, inside fit");
    return state().parts.optimizers->optimizers;
  }
  /// The optimizer of automatic optimization.
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
  /// Calls f(position, optimizer) for each optimizer; does nothing before they exist (on_fit_start).
  template <class F>
  void each_optimizer(F&& f) const {
    if (asked(Asks::optimizers), !state().parts.optimizers) return;
    each_of(state().parts.optimizers->optimizers, [&, i = std::size_t{0}](auto& o) mutable { f(i++, o); });
  }
  /// Calls f(scheduler) for each scheduler.
  template <class F>
  void each_scheduler(F&& f) const {
    if (asked(Asks::optimizers), state().parts.optimizers) state().parts.optimizers->each_scheduler(f);
  }

  /// Manual optimization: the tuple of schedulers, which your training_step steps. It has one scheduler for each
  /// optimizer, or as many as the optimizer has schedules, one after the other.
  auto& lr_schedulers() const
    requires(std::same_as<Phase, phase::Train> && !R::automatic)
  {
    asked(Asks::schedulers);
    return state().parts.optimizers->schedulers;
  }

  /// Clips one optimizer's gradients, as `configure_gradient_clipping` does. For Clip::Kind::norm it returns the norm
  /// that they had.
  template <class O>
    requires(std::same_as<Phase, phase::Train>)
  auto clip_gradients(O& optimizer, Clip how) -> typename R::Value {
    loop::check_clip<R, O>(how);
    if (how.kind == Clip::Kind::norm) {
      // The norm is over all parts of a model that is split over several processes.
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

  /// See Context; exists in the phases that train.
  void request_stop(std::string_view why = {}) const
    requires(Phase::trains)
  {
    Context::request_stop(why);
  }
  /// See Context; exists in the phases that train.
  void request_stop_for_now(std::string_view why = {}) const
    requires(Phase::trains)
  {
    Context::request_stop_for_now(why);
  }
  /// See Context; exists in the phases that train.
  void set_stop_request(std::string const& who, bool wanted, std::string const& why = {}) const
    requires(Phase::trains)
  {
    Context::set_stop_request(who, wanted, why);
  }
  /// See Context; exists in the phases that train.
  void request_checkpoint(CheckpointRequest request) const
    requires(Phase::trains)
  {
    Context::request_checkpoint(std::move(request));
  }
  /// Requests a search. `search(rehearser)` is called at the next point between two epochs: after all listeners of
  /// `on_fit_start` or `on_train_epoch_start` were notified; in validate, test and predict, after those of `setup`. The
  /// changes of its trial runs are undone; what it sets itself (rates, members of the model) stays for the run. If no
  /// such point follows, a warning is given. Only callbacks with `static constexpr bool searches = true` may call this;
  /// if the trainer has none, it throws [fulgurite.context.no_search].
  void request_search(RunSearch<R> search) const {
    answered_searches();
    state().searching.template add<R>(state().searching.due, std::move(search));
  }
  /// For `on_fit_start` of the same callbacks: `set(rehearser)` is called after all listeners were notified, before any
  /// loader is requested, also in a fit that resumes. It applies what an earlier search found, and makes no trial runs.
  void request_setting(RunSearch<R> set) const {
    answered_searches();
    state().searching.template add<R>(state().searching.settings, std::move(set));
  }

  /// Sets the batches per optimizer step, from the next window on. Best called in `on_train_epoch_start`.
  template <bool Fine = !judge::fixed_window<typename R::Strategy>()>
    requires(std::same_as<Phase, phase::Train> && R::automatic)
  void accumulate(int batches) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_FIXED_WINDOW);
    asked(Asks::accumulate);
    loop::check_window("ctx.accumulate", batches, loop::Optimizers<R>::needs_closure);
    loop::check_slices(Recurrent<typename R::Model>, state().optimization.tbptt, batches);
    state().asked.window_length = batches;
  }

  /// See Context; exists in the phases that train.
  int accumulate_grad_batches() const
    requires(Phase::trains)
  {
    return Context::accumulate_grad_batches();
  }
  /// See Context; exists in the phases that train.
  void request_statistics_pass() const
    requires(Phase::trains)
  {
    Context::request_statistics_pass();
  }

 protected:
  loop::State<R>& state() const { return static_cast<loop::State<R>&>(*core_); }

 private:
  template <class M>
  static consteval bool of_several() {
    if constexpr (loop::is_metric_constant<M>) return metric::counts_several<typename M::metric>;
    else return false;
  }
  auto& board() const {
    if constexpr (Phase::evaluates) return state().measured.eval_boards[state().facts.board];
    else return state().measured.train_board;
  }
  /// True if logged values are not kept; warns of that.
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
    loop::check_dynamic_name(state(), name);
    for (auto& [posted, last] : state().due.posted)
      if (posted == name) return static_cast<void>(last = value);
    state().due.posted.push_back({std::string(name), value});
  }
  /// A metric must be logged either in steps or in hooks of the epoch: one mean over both would have no meaning.
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
