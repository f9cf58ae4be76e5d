#pragma once
// Types that stand in a message, or in the place of what a refused call would have returned.

#include <tuple>
#include <type_traits>

namespace fulgurite::refusal {

/// The arguments of a call that has the wrong number of them.
template <class... Args>
struct given;

/// A step and the batch that it cannot take.
template <class Model, class Batch>
struct takes;

/// Stands for what a refused call would have returned, and lets nothing else be reported.
struct Nothing {
  template <class T>
  operator T() const;
};
/// In the place of a result after a refusal, so that nothing else is said. Never called.
template <class T>
T& nothing();

/// The callbacks made from a class template, such as ModelCheckpoint.
template <template <class...> class T, class C>
inline constexpr bool made_from = false;
template <template <class...> class T, class... Args>
inline constexpr bool made_from<T, T<Args...>> = true;
/// The only type of those found, where there is one alone.
template <class... Found>
struct OneOf : std::type_identity<Nothing> {
  static constexpr bool found = false;
};
template <class Found>
struct OneOf<Found> : std::type_identity<Found> {
  static constexpr bool found = true;
};
template <template <class...> class T, class Found, class... Cs>
struct MadeFrom;
template <template <class...> class T, class... Found>
struct MadeFrom<T, std::tuple<Found...>> : OneOf<Found...> {};
template <template <class...> class T, class... Found, class C, class... Cs>
struct MadeFrom<T, std::tuple<Found...>, C, Cs...>
    : MadeFrom<T, std::conditional_t<made_from<T, C>, std::tuple<Found..., C>, std::tuple<Found...>>, Cs...> {};
/// The one of `Cs` that is made from the template; `found` says whether there is exactly one.
template <template <class...> class T, class... Cs>
using Only = MadeFrom<T, std::tuple<>, Cs...>;

}  // namespace fulgurite::refusal
