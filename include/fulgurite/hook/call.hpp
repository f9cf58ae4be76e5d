#pragma once
// Which form of a hook an object takes, and the call in that form.

#include <concepts>
#include <type_traits>

#include <fulgurite/core/flow.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// Number of trailing arguments an event takes: the longest suffix of `(First..., ctx)` that it accepts, -1 when it
/// takes none.
template <class Hook, class T, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, C>) return 1;
  else if constexpr (Hook::template accepts<T>) return 0;
  else return -1;
}
template <class Hook, class T, class B, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, B, C>) return 2;
  else return arity<Hook, T, C>();
}
template <class Hook, class T, class A, class B, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, A, B, C>) return 3;
  else return arity<Hook, T, B, C>();
}

/// The object hears this event. Its name is asked first: nearly always the answer is no, and then nothing else is
/// instantiated.
template <class Hook, class T, class... Args>
concept Listens = Hook::template named<T> && arity<Hook, T, Args...>() >= 0;

/// It takes the outputs of a step too.
template <class Hook, class T, class... Args>
concept WantsOutputs = Hook::template named<T> && arity<Hook, T, Args...>() == 3;

/// Calls the event in the form that `T` takes; `Listens` holds.
template <class Hook, class T, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, C& ctx) {
  if constexpr (arity<Hook, T, C>() == 1) return Hook::call(object, ctx);
  else return Hook::call(object);
}
template <class Hook, class T, class B, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, B& first, C& ctx) {
  if constexpr (arity<Hook, T, B, C>() == 2) return Hook::call(object, first, ctx);
  else return invoke<Hook>(object, ctx);
}
template <class Hook, class T, class A, class B, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, A& outputs, B& batch, C& ctx) {
  if constexpr (arity<Hook, T, A, B, C>() == 3) return Hook::call(object, outputs, batch, ctx);
  else return invoke<Hook>(object, batch, ctx);
}

/// An override takes all its arguments, with or without `ctx`.
template <class Hook, class T, class C, class... A>
concept Overrides = Hook::template named<T> && (Hook::template accepts<T, A..., C> || Hook::template accepts<T, A...>);

/// Calls it; `Overrides` holds.
template <class Hook, class T, class C, class... A>
[[gnu::always_inline]] constexpr decltype(auto) call_override(T& object, C& ctx, A&... a) {
  if constexpr (Hook::template accepts<T, A..., C>) return Hook::call(object, a..., ctx);
  else return Hook::call(object, a...);
}

/// The call's answer, in the one vocabulary of the loops.
template <class Hook, class T, class... Args>
[[gnu::always_inline]] constexpr Flow answer_of(T& object, Args&... args) {
  using Result = decltype(invoke<Hook>(object, args...));
  if constexpr (std::is_void_v<Result>) {
    invoke<Hook>(object, args...);
    return Flow::proceed;
  } else {
    return as_flow(invoke<Hook>(object, args...));
  }
}

}  // namespace fulgurite
