#pragma once
// Hooks written in place: LambdaCallback{on<hook::on_train_start>([](auto& ctx) { ... })}.

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// Gives one function the name of one event. Of what is no event (an override, a step) nothing is called: the trainer
/// refuses it.
template <class Event, class F>
struct On {
  static constexpr bool hears_no_event = true;
  F function;
};

#define FULGURITE_ROW(NAME, ...)                                                                                       \
  template <class F>                                                                                                   \
  struct On<hook::NAME, F> {                                                                                           \
    F function;                                                                                                        \
    template <class... A>                                                                                              \
      requires std::invocable<F&, A&...>                                                                               \
    decltype(auto) NAME(A&... arguments) {                                                                             \
      return function(arguments...);                                                                                   \
    }                                                                                                                  \
  };
FULGURITE_EVENTS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// A function for one event, in any form that the event has: `on<hook::on_train_batch_end>([](auto& batch, auto& ctx) {
/// ... })`.
template <class Event, class F>
On<Event, F> on(F function) {
  return {std::move(function)};
}

namespace lambda {
template <class>
struct EventOf;
template <class Event, class F>
struct EventOf<On<Event, F>> {
  using type = Event;
};
template <class On, class... Ons>
inline constexpr bool heard_once =
    (std::size_t{std::is_same_v<typename EventOf<On>::type, typename EventOf<Ons>::type>} + ...) == 1;
}  // namespace lambda

/// A callback that is made of functions, each for another event, where a struct would be too much: prints, counters,
/// probes. What the functions capture is not saved.
template <class... Ons>
struct LambdaCallback : Ons... {
  using Stateless = ByChoice;
  // The trainer refuses both.
  static constexpr bool hears_no_event = (requires { Ons::hears_no_event; } || ...);
  static constexpr bool hears_twice = !(lambda::heard_once<Ons, Ons...> && ...);
  explicit LambdaCallback(Ons... functions) : Ons(std::move(functions))... {}
};

}  // namespace fulgurite
