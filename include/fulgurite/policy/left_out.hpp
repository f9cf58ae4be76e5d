#pragma once
// What make_trainer adds where it is not told everything, and the words that leave a part of it out.

#include <type_traits>

namespace fulgurite {

/// Adds the defaults where strategy, precision and optimization are all named: the progress bar, the summary, the CSV
/// log, the file of the last epoch and the table of results. Where one of the three is left out, or a word below leaves
/// a part of them out, they are added anyway.
struct Defaults {};

/// Among the arguments of make_trainer: no progress bar.
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
    std::is_same_v<T, Defaults> || std::is_same_v<T, NoProgressBar> || std::is_same_v<T, NoModelSummary> ||
    std::is_same_v<T, NoLogger> || std::is_same_v<T, NoCheckpoints> || std::is_same_v<T, NoResultsTable>;
}  // namespace policy
}  // namespace fulgurite
