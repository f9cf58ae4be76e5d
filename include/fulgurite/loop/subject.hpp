#pragma once
// Whom a refusal is about: the type that stands in the message.

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <fulgurite/concept/fault.hpp>

namespace fulgurite::refusal {

/// Compilers print what a static_assert asks for, so the type at fault stands in the message: `accepts<Net, false>`.
template <class Subject, bool Fine>
inline constexpr bool accepts = Fine;

/// A step and the batch that it cannot take.
template <class Model, class Batch>
struct takes;

/// The participant that a verdict names: callbacks are counted from 1.
template <int Who, class M, class S, class P, class O, class... Cs>
struct Participant : std::tuple_element<static_cast<std::size_t>(Who), std::tuple<M, Cs...>> {};
template <class M, class S, class P, class O, class... Cs>
struct Participant<strategy_at_fault, M, S, P, O, Cs...> : std::type_identity<S> {};
template <class M, class S, class P, class O, class... Cs>
struct Participant<precision_at_fault, M, S, P, O, Cs...> : std::type_identity<P> {};
template <class M, class S, class P, class O, class... Cs>
struct Participant<optimization_at_fault, M, S, P, O, Cs...> : std::type_identity<O> {};

}  // namespace fulgurite::refusal
