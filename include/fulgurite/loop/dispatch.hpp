#pragma once
// Dispatch of one event: callbacks are notified in firing order, then the model, then the strategy; and what follows an
// event: metrics of several ranks are combined, loggers receive rows, schedules move.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/fwd.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/callbacks.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/metric/board.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::action {

// The actions of the loops, with the names that Lightning's profilers give them.

using run_training_epoch = Plain<"run_training_epoch", RunPart::loop>;
using run_training_batch = Plain<"run_training_batch", RunPart::loop>;
/// A whole validation inside a fit. Lightning has no name for it.
using run_validation = Plain<"run_validation", RunPart::loop>;
using train_next = Plain<"[_TrainingEpochLoop].train_dataloader_next", RunPart::data>;

/// Reading a batch from a loader of validation_step, test_step or predict_step.
template <class Step>
struct EvaluationNext {
  static constexpr RunPart part = RunPart::data;
  static std::string name() {
    if constexpr (std::is_same_v<Step, hook::validation_step>) return "[_EvaluationLoop].val_next";
    else if constexpr (std::is_same_v<Step, hook::test_step>) return "[_EvaluationLoop].test_next";
    else return "[_PredictionLoop].predict_next";
  }
};

template <class R>
using batch_to_device = Of<"Strategy", typename R::Strategy, "batch_to_device", RunPart::transfer>;
template <class R>
using training_step = Of<"Strategy", typename R::Strategy, "training_step", RunPart::step>;
template <class R>
using backward = Of<"Strategy", typename R::Strategy, "backward", RunPart::backward>;
/// Several ranks exchange their gradients.
template <class R>
using exchange = Of<"Strategy", typename R::Strategy, "reduce_gradients", RunPart::exchange>;
template <class R, class Step>
using evaluation_step = HookOf<"Strategy", typename R::Strategy, Step, RunPart::evaluation>;

/// The update alone. In Lightning the time under this name includes the closure: training_step and backward.
template <class R>
using optimizer_step = HookOf<"LightningModule", typename R::Model, hook::optimizer_step, RunPart::update>;
template <class R>
using zero_grad = HookOf<"LightningModule", typename R::Model, hook::optimizer_zero_grad, RunPart::update>;
/// Clipping, and the check for non-finite gradients that it includes.
template <class R>
using clipping = HookOf<"LightningModule", typename R::Model, hook::configure_gradient_clipping, RunPart::update>;

}  // namespace fulgurite::action

namespace fulgurite::loop {

// An event as a table of its listeners. Events that do not occur with every batch are dispatched through it. For an
// event that failed half-way, it gives the names of the listeners that were notified.

/// A callback, the model or the strategy, if it has the hook of an event.
struct Listener {
  std::size_t who;  ///< the callback's position in firing order; the model comes after the callbacks, then the strategy
  bool listens;     ///< false: its hook takes the batch or its outputs, which no longer exist when a fit resumes
  Flow (*call)(void* who, void* const* arguments);  ///< takes the listener's address and those of the event's arguments
  ProfiledAction const& (*action)();                ///< what a profiler measures; null if it measures nothing here
};

/// An event and its listeners, in the order in which they are notified.
struct Event {
  std::string_view name;
  /// True if no listener may be notified twice: a fit that resumes does not repeat what the event reports.
  bool is_notified_once;
  std::span<Listener const> listeners;
};

/// The listeners of an event that are no callbacks.
struct ModelAndStrategy {
  void* model;
  void* strategy;
};
template <class R>
ModelAndStrategy model_and_strategy(State<R>& run) {
  return {run.parts.model, &run.parts.strategy};
}

/// A strategy may have a hook for any event except these two, whose names it uses to receive and release the model.
template <class Hook>
inline constexpr bool strategy_listens = !std::is_same_v<Hook, hook::setup> && !std::is_same_v<Hook, hook::teardown>;

template <class Hook>
inline constexpr bool notified_once =
    std::is_same_v<Hook, hook::on_train_epoch_start> || std::is_same_v<Hook, hook::on_train_batch_end> ||
    std::is_same_v<Hook, hook::on_validation_end> || std::is_same_v<Hook, hook::on_train_epoch_end>;

/// The address of an argument; of a context that of its Context base, so that one function serves all programs.
template <class T>
void* address_of(T& argument) {
  if constexpr (std::derived_from<T, Context>) return static_cast<Context*>(&argument);
  else return const_cast<void*>(static_cast<void const*>(&argument));
}
template <class T>
T& argument_at(void* address) {
  if constexpr (std::derived_from<T, Context>) return static_cast<T&>(*static_cast<Context*>(address));
  else return *static_cast<T*>(address);
}

/// Calls the hook of a listener.
template <class Hook, class T, class... Args>
Flow call_at(void* who, void* const* arguments) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    return answer_of<Hook>(*static_cast<T*>(who), argument_at<Args>(arguments[I])...);
  }(std::index_sequence_for<Args...>());
}

/// True if the hook's parameter is Context, so that it is compiled once for all programs.
template <class Hook, class T, class... Args>
inline constexpr bool takes_plain_context =
    sizeof...(Args) == 1 && (std::derived_from<Args, Context> && ...) && Hook::template takes_context<T>;

template <class Hook, class Strategy>
inline constexpr bool strategy_is_listener = strategy_listens<Hook> && Hook::template named<Strategy>;

/// True if a callback, the model or the strategy has a function of the hook's name.
template <class Hook, class R, class P>
inline constexpr bool has_listener = P::template names<Hook> || Hook::template named<typename R::Model> ||
                                     strategy_is_listener<Hook, typename R::Strategy>;

/// In place of a run, for events that neither a model nor a strategy listens to. They are not timed one by one: a
/// profiler measures what is around them, such as the writing of a file.
struct CallbacksAlone {
  using Model = Nothing;
  using Strategy = Nothing;
};

/// The listeners of an event, found at compile time. `Called`: include the functions that call their hooks.
template <class Hook, bool Called, class R, class P, class... Args>
struct Listeners {
  template <class T, FixedString Role>
  static constexpr void add(Listener* all, std::size_t& size, std::size_t who) {
    if constexpr (Hook::template named<T>) {
      auto& one = all[size++] = {who, Listens<Hook, T, Args...>, nullptr, nullptr};
      if constexpr (Called && Listens<Hook, T, Args...>) {
        if constexpr (takes_plain_context<Hook, T, Args...>) one.call = &call_at<Hook, T, Context>;
        else one.call = &call_at<Hook, T, Args...>;
        if constexpr (P::profiles && !Profiler<T> && !std::is_same_v<R, CallbacksAlone>)
          one.action = &action::action_of<action::HookOf<Role, T, Hook>>;
      }
    }
  }

  static constexpr auto list = []<std::size_t... I>(std::index_sequence<I...>) {
    using Model = typename R::Model;
    using Strategy = typename R::Strategy;
    constexpr bool with_strategy = strategy_is_listener<Hook, Strategy>;
    std::array<Listener, (std::size_t{Hook::template named<typename P::template At<I>>} + ... +
                          (std::size_t{Hook::template named<Model>} + with_strategy))>
        all{};
    std::size_t n = 0;
    [[maybe_unused]] auto const add_callbacks = [&]([[maybe_unused]] bool behind_model) {
      ((behind_model == (hook::model_before_monitors<Hook> &&
                         order_of<typename P::template At<P::firing_order[I]>>() >= Order::monitor)
            ? add<typename P::template At<P::firing_order[I]>, "Callback">(all.data(), n, I)
            : void()),
       ...);
    };
    add_callbacks(false);
    add<Model, "LightningModule">(all.data(), n, P::size);
    if constexpr (hook::model_before_monitors<Hook>) add_callbacks(true);
    if constexpr (with_strategy) add<Strategy, "Strategy">(all.data(), n, P::size + 1);
    return all;
  }(std::make_index_sequence<P::size>());
  static constexpr Event event{Hook::name(), notified_once<Hook>, list};
};

/// The address of the listener number `who`.
void* participant(RunCore const& run, ModelAndStrategy const& others, std::size_t who);

/// Notifies all listeners. If one throws, records who was notified, for an event that must not be repeated.
Flow notify_all(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments);
/// Records who was notified before an event failed, in that order. A stop that one of them requested still applies.
void note_notified(RunCore& run, Event const& event, DispatchState const& state);
/// Notifies the listeners that an event had not reached when it failed.
Flow notify_rest(RunCore& run, Event const& event, ModelAndStrategy others, void* const* arguments);

template <class Hook, class R, class Pack, class... Args>
Flow notify_remaining(State<R>& run, Pack&, Args&... args) {
  void* const arguments[] = {address_of(args)...};
  return notify_rest(run, Listeners<Hook, true, R, Pack, Args...>::event, model_and_strategy(run), arguments);
}

// Immediate dispatch of one event.

/// Events of a batch or a step are dispatched inline, and cost nothing if there is no listener.
template <class Hook>
inline constexpr bool is_of_a_batch = Hook::takes != Takes::nothing || std::is_same_v<Hook, hook::on_after_backward>;

/// Separate statements, since the order of evaluation of function arguments differs between compilers.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline void dispatch(DispatchState& state, State<R>& run, Pack& pack, Args&... args) {
  static_assert(!hook::model_before_monitors<Hook>, "Listeners alone knows this order");
  pack.template notify<Hook>(state, args...);
  if constexpr (Listens<Hook, typename R::Model, Args...>)
    pack.template notify_watched<Hook, "LightningModule">(state, *run.parts.model, args...);
  if constexpr (strategy_listens<Hook> && Listens<Hook, typename R::Strategy, Args...>)
    pack.template notify_watched<Hook, "Strategy">(state, run.parts.strategy, args...);
}

/// Notifies all listeners. If one throws, records who was notified of an event that must not be repeated.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline Flow notify([[maybe_unused]] State<R>& run, [[maybe_unused]] Pack& pack,
                                          [[maybe_unused]] Args&... args) {
  if constexpr (!has_listener<Hook, R, Pack>) {
    return Flow::proceed;
  } else if constexpr (!is_of_a_batch<Hook>) {
    void* const arguments[] = {address_of(args)...};
    return notify_all(run, Listeners<Hook, true, R, Pack, Args...>::event, model_and_strategy(run), arguments);
  } else {
    DispatchState state;
    if constexpr (notified_once<Hook>) {
      try {
        dispatch<Hook>(state, run, pack, args...);
      } catch (...) {
        note_notified(run, Listeners<Hook, false, R, Pack, Args...>::event, state);
        throw;
      }
    } else {
      dispatch<Hook>(state, run, pack, args...);
    }
    return state.most_severe;
  }
}

/// Calls a hook of one object alone, such as the data module, if it has that hook.
template <class Hook, class T, class... Args>
void notify_one([[maybe_unused]] T& object, Args&... args) {
  if constexpr (Listens<Hook, T, Args...>) invoke<Hook>(object, args...);
}

/// Dispatches one event to the data module (unless the model is its own), callbacks and the model.
template <class Hook, class R, class Pack, class Source, class Ctx>
void notify_with_module(State<R>& run, Pack& pack, Source& source, Ctx& ctx) {
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    notify_one<Hook>(source.module(), ctx);
  notify<Hook>(run, pack, ctx);
}

// Hooks that only callbacks have: around a checkpoint, and before a statistics pass.

struct ProgramEvents {
  Event before_save, after_save, before_statistics_pass;
};

/// The table of these events for a pack.
template <class R, class P>
inline constexpr ProgramEvents program_events{
    Listeners<hook::before_save, true, CallbacksAlone, P, RunContext<R, phase::Fit>>::event,
    Listeners<hook::after_save, true, CallbacksAlone, P, RunContext<R, phase::Fit>>::event,
    Listeners<hook::before_statistics_pass, true, CallbacksAlone, P, RunContext<R, phase::Train>>::event};

/// Sets the callbacks at the start of a run. They must not move as long as the run may be asked for a file.
template <class R, class... Cs>
void set_callbacks(State<R>& run, Pack<Cs...>& pack) {
  run.set_callbacks(callbacks_of(pack), program_events<R, Pack<Cs...>>);
  run.own_actions.given_to(pack);
}

/// The hyper-parameters that the run's model and its data module declare.
template <class R, class Source>
HyperparameterList declared_hyperparameters(State<R>& run, Source& source) {
  HyperparameterList list;
  list.of(*run.parts.model);
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    list.of(source.module());
  return list;
}

/// Passes them to each logger that has `log_hyperparams`. Called after on_fit_start, before the first batch.
void log_hyperparameters(RunCore const& run, std::span<Hyperparameter const> all);

/// The arguments of a trainer, for loggers.
template <class O>
struct AskedOfTrainer {
  TrainerOptions const& options;
  O const& optimization;
};

/// Passes the trainer's type and its arguments to each logger that has `log_program`. The logger makes a text of them
/// and writes it beside the run's rows. Called after on_fit_start, before the first batch.
template <class R, class... Cs>
void log_program(State<R>& run, Pack<Cs...>& pack) {
  auto const& options = run.asked.options;
  if (run.parts.strategy.rank() != 0 || options.fast_dev_run != 0 || options.barebones) return;
  using Whole =
      Trainer<typename R::Model, typename R::Strategy, typename R::Precision, typename R::Optimization, Cs...>;
  AskedOfTrainer<typename R::Optimization> const asked{options, run.optimization};
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_program(std::type_identity<Whole>(), asked); })
      callback.log_program(std::type_identity<Whole>(), asked);
  });
}

// Rows for the loggers.

/// Whether some metric is reported per step where it is logged there.
template <class Metrics>
consteval bool any_per_step(Origin origin) {
  return std::ranges::any_of(declared_metrics<Metrics>, [&](auto const& metric) { return per_step(metric, origin); });
}

/// A row of values, as a class whose functions are not compiled in each program.
struct MetricRow : std::vector<MetricValue> {
  MetricRow();
  FULGURITE_MOVES(MetricRow);
};

/// The value of each metric of a board that is reported per epoch.
MetricRow epoch_row(RunCore& run, BoardNumber board);

/// The latest value of each metric of a board that is reported per step and was logged since the last such row.
MetricRow step_row(RunCore& run, BoardNumber board);

/// Warns at the end of an epoch that had fewer steps than log_every_n_steps, if values of its steps were logged.
void warn_of_few_rows(RunCore& run);

/// The row of one of several loaders: its names end with the loader's.
std::vector<MetricValue> named(std::vector<MetricValue> row, std::string const& suffix);
void append(std::vector<MetricValue>& row, std::vector<MetricValue> const& more);

/// Passes rows that waited for a check of their steps to the loggers.
void deliver_held(RunCore& run);

/// Passes a row to the loggers among the callbacks: those that have `log_metrics`.
void log_row(RunCore& run, std::vector<MetricValue> const& values, long step, bool with_epoch = true);

/// True if some callback is a logger; else no rows are made.
FULGURITE_OF_ARGUMENTS(has_logger, Pack, hook::log_metrics::named<Ts> || ...);

/// The x value for values of a whole epoch or of the end of training: that of the last step.
long last_step(RunCore const& run);

/// Passes the values that callbacks posted to the loggers, with x = `step`.
void log_posted(RunCore& run, long step);

/// Called after all listeners of an event were notified: does so if there are such values.
template <class R, class Pack>
[[gnu::always_inline]] inline void deliver_posted(State<R>& run, Pack&, long step) {
  if constexpr (has_logger<Pack>)
    if (!run.due.posted.empty()) [[unlikely]]
      log_posted(run, step);
}

// Metrics over several ranks: logged values are combined at the ends of epochs and evaluations.

/// Replaces the training epoch's figures by those of all ranks. `origin`: those logged in steps, or those logged in
/// hooks of the epoch. A collective, also for ranks that have logged nothing.
void share_epoch(RunCore& run, Origin origin);

/// Replaces the figures of an evaluation by those of all ranks. Counted values already are the same on each rank.
void share_evaluation(RunCore& run);

/// Replaces a step's values by those of all ranks before its row is logged, for metrics with sync_on_step.
void share_step_values(RunCore& run);
/// Copies what the last rank has logged in this epoch to all ranks, so that rank 0 can log it.
void share_last_rank(RunCore& run);
template <class R>
void share_step(State<R>& run) {
  if constexpr (splits_model<R>) {
    if constexpr (State<R>::metrics != 0) share_last_rank(run);
  } else if constexpr (shares<R>) {
    if constexpr (std::ranges::any_of(declared_metrics<typename R::Metrics>, &DeclaredMetric::sync_on_step))
      share_step_values(run);
  }
}

/// True if there were too few samples for a value to be defined, such as samples of only one class.
bool is_too_few(Error const& error);

/// The value of a meter over all ranks; nullopt if no rank has updated it. A collective.
template <class R, class Meter>
auto counted_value(State<R>& run, Meter& meter) -> std::optional<decltype(meter.compute())> {
  if constexpr (shares<R>)
    if (!run.shared.alone) return meter.value(run.parts.strategy);
  if (meter.updates() == 0) return std::nullopt;
  return meter.compute();
}

// When schedules move in automatic optimization: after steps and epochs, or when the value of their metric is known.

/// True if a scheduler's schedule follows a metric: it moves by the metric's values instead of counts.
FULGURITE_OF_ARGUMENTS(any_observing, std::tuple, Ts::observes || ...);
template <class R>
inline constexpr bool observes_any = any_observing<decltype(Optimizers<R>::schedulers)>;

/// Moves the schedules of a finished step or epoch. A model that overrides lr_scheduler_step moves them itself.
template <class R, class Ctx>
void tick_schedulers(State<R>& run, Ctx& ctx, Interval interval) {
  long const after = interval == Interval::step ? run.progress.global_step : run.progress.epoch + 1;
  run.parts.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (!S::observes) {
      if (scheduler.interval() != interval || !scheduler.due(after - 1, after)) return;
      if constexpr (hook::lr_scheduler_step::named<typename R::Model>)
        call_override<hook::lr_scheduler_step>(*run.parts.model, ctx, scheduler);
      else scheduler.step();
    }
  });
}

/// Moves the schedules that follow a metric, if the metric was logged since they last moved: after the validation of a
/// step, or at the end of an epoch after everything was logged. `before` and `after` count the run's steps, or its
/// epochs; they may differ by more than one, since a batch of a recurrent model has several steps.
template <class R, class Ctx>
void observe_schedulers(State<R>& run, Ctx& ctx, Interval interval, long before, long after) {
  run.parts.optimizers->each_scheduler([&]<class S>(S& scheduler) {
    if constexpr (S::observes) {
      if (scheduler.interval() != interval || !scheduler.due(before, after)) return;
      auto const seen = ctx.watched_value(scheduler.metric());
      if (!seen.value) {
        auto const name = std::string(std::remove_cvref_t<decltype(scheduler.metric())>::name());
        if (scheduler.strict())
          throw Error("fulgurite.schedule.metric",
                      "a schedule follows '" + name + "', which was not logged by the end of epoch " +
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
#include <fulgurite/loop/dispatch.ipp>
#endif
