#pragma once
// What make_trainer adds to what it is told, and the words that leave it out.

#include <type_traits>

namespace fulgurite {

/// Among the arguments of make_trainer: it has the callbacks that are named, and adds none. Say it in a test, a sweep,
/// a measurement. Each word below leaves out one of what is added.
struct NoDefaults {};

/// No progress bar.
struct NoProgressBar {};
/// No table of the model when a fit starts.
struct NoModelSummary {};
/// No log.
struct NoLogger {};
/// No file of the last epoch.
struct NoCheckpoints {};
/// No table of what validate and test have found.
struct NoResultsTable {};

/// The strategy of a trainer that is not told one: fulgurite/defaults.hpp defines it, for programs on LibTorch.
template <class Model>
struct DefaultStrategy;
/// The callbacks that are added to those in `Given`, among them words: fulgurite/defaults.hpp defines it.
template <class... Given>
struct DefaultCallbacks;

namespace policy {
template <class T>
inline constexpr bool is_word =
    std::is_same_v<T, NoDefaults> || std::is_same_v<T, NoProgressBar> || std::is_same_v<T, NoModelSummary> ||
    std::is_same_v<T, NoLogger> || std::is_same_v<T, NoCheckpoints> || std::is_same_v<T, NoResultsTable>;

/// Whether callbacks are added beside a strategy: where its backend, which is a tensor library, does not say
/// `static constexpr bool adds_defaults = false`. That of our tests says it, since nobody watches them.
template <class S>
consteval bool adds_defaults() {
  if constexpr (requires { requires !std::bool_constant<S::Backend::adds_defaults>::value; }) return false;
  else return true;
}
}  // namespace policy
}  // namespace fulgurite
