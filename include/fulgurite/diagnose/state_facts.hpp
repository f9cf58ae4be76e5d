#pragma once
// What rules ask of parts whose state a checkpoint must hold.

#include <filesystem>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::judge {

/// It leaves files from which a fit can go on.
template <class C>
concept LeavesFiles = loop::NamesLast<C> || loop::NamesHpc<C>;
/// A trainer with such a callback writes files.
template <class... Cs>
inline constexpr bool any_leaves_files = (LeavesFiles<Cs> || ...);

/// A function of the number of moves that is called as a constant changes nothing of its own.
template <class S>
concept FixedSchedule = !RateSetter<S> && requires(S const& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};
/// The schedule can be saved, or needs no state.
template <class T>
inline constexpr bool schedule_remembers = true;
template <class O, class S, bool Configured>
inline constexpr bool schedule_remembers<Scheduled<O, S, Configured>> =
    schedule_remembers<O> && (Remembers<S> || FixedSchedule<S>);
/// The same of all schedules that were returned.
template <class List>
inline constexpr bool all_schedules_remember = true;
template <class... Os>
inline constexpr bool all_schedules_remember<OptimizerList<Os...>> = (schedule_remembers<Os> && ...);

}  // namespace fulgurite::judge
