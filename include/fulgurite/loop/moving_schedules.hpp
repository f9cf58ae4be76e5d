#pragma once
// When schedules move in automatic optimization: after steps and epochs, or when the metric that they follow is known.

#include <string>
#include <tuple>
#include <type_traits>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/context.hpp>

namespace fulgurite::loop {

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
