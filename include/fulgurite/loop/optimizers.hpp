#pragma once
// What the loops make of that which configure_optimizers returned: a tuple of optimizers, a tuple of schedulers.

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/loop/scheduled.hpp>
#include <fulgurite/loop/scheduler.hpp>

namespace fulgurite::loop {

/// One entry of what configure_optimizers returned: a bare optimizer, or a scheduled one.
template <class Backend, class T>
struct Entry {
  using Optimizer = std::remove_cvref_t<decltype(Backend::adopt(std::declval<T>()))>;
  using Schedule = NoSchedule;
  static Optimizer optimizer(T&& from) { return Backend::adopt(std::move(from)); }
  static Scheduler<Optimizer, NoSchedule> scheduler(T&) { return {NoSchedule{}, ScheduleOptions{}}; }
};
template <class Backend, class O, class S, bool Configured>
struct Entry<Backend, Scheduled<O, S, Configured>> {
  using Optimizer = std::remove_cvref_t<decltype(Backend::adopt(std::declval<O>()))>;
  using Schedule = S;
  static Optimizer optimizer(Scheduled<O, S, Configured>&& from) { return Backend::adopt(std::move(from.optimizer)); }
  static Scheduler<Optimizer, S> scheduler(Scheduled<O, S, Configured>& from) {
    return {std::move(from.schedule), std::move(from.options)};
  }
};

template <class T>
struct AsList {
  using type = OptimizerList<T>;
  static type make(T&& one) { return {std::tuple<T>(std::move(one))}; }
};
template <>
struct AsList<void> {
  using type = OptimizerList<>;  // A rule refuses configure_optimizers by name where it returns nothing.
};
template <class... Os>
struct AsList<OptimizerList<Os...>> {
  using type = OptimizerList<Os...>;
  static type make(type&& list) { return std::move(list); }
};

/// The optimizers and schedulers of a run; never moved, since schedulers point to optimizers.
template <class Backend, class List>
struct OptimizerSet;
template <class Backend, class... Os>
struct OptimizerSet<Backend, OptimizerList<Os...>> {
  static constexpr std::size_t count = sizeof...(Os);
  static constexpr bool needs_closure = (Entry<Backend, Os>::Optimizer::needs_closure || ...);
  std::tuple<Scheduler<typename Entry<Backend, Os>::Optimizer, typename Entry<Backend, Os>::Schedule>...> schedulers;
  std::tuple<typename Entry<Backend, Os>::Optimizer...> optimizers;

  explicit OptimizerSet(OptimizerList<Os...>&& list)
      : OptimizerSet(std::move(list), std::index_sequence_for<Os...>{}) {}
  OptimizerSet(OptimizerSet const&) = delete;
  OptimizerSet& operator=(OptimizerSet const&) = delete;

  /// f(scheduler) for those that have a schedule.
  template <class F>
  void each_scheduler(F&& f) {
    std::apply([&](auto&... s) { ((std::remove_reference_t<decltype(s)>::exists ? call(f, s) : void()), ...); },
               schedulers);
  }

 private:
  template <std::size_t... I>
  OptimizerSet(OptimizerList<Os...>&& list, std::index_sequence<I...>)
      : schedulers(Entry<Backend, Os>::scheduler(std::get<I>(list.all))...),
        optimizers(Entry<Backend, Os>::optimizer(std::move(std::get<I>(list.all)))...) {
    (std::get<I>(schedulers).attach(std::get<I>(optimizers)), ...);
  }
  template <class F, class S>
  static void call(F& f, S& scheduler) {
    if constexpr (S::exists) f(scheduler);
  }
};

}  // namespace fulgurite::loop
