#pragma once
// The values of an evaluation: under whose names, and merged over its loaders.

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fulgurite/core/constant.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Values of an earlier run are no values of the one that begins.
template <class R>
void forget_results(State<R>& run) {
  run.measured.results = {};
  for (auto& results : run.measured.loader_results) results = {};
}

/// Merges the loaders' figures into the run's results: what watching a metric means.
template <class R>
void publish(State<R>& run) {
  for (std::size_t i = 0; i != State<R>::metrics; ++i) {
    auto const merged = run.measured.over_loaders(i);
    if (merged.count != 0) run.measured.results[i] = merged;
    run.measured.logged[i] += merged.count;
  }
}

/// It says `static constexpr std::string_view loader_name`; a data member of that name is something else.
template <class Loader>
concept NamedLoader = FULGURITE_SAYS_TEXT(Loader, loader_name);

/// A loader's own name (`named<"clean">(loader)`), else its position.
template <class Loader>
std::string loader_name(std::size_t position) {
  if constexpr (NamedLoader<Loader>) return std::string(Loader::loader_name);
  else return "dataloader_idx_" + std::to_string(position);
}
/// The names of a tuple of loaders.
template <class... Ls>
std::vector<std::string> loader_names(std::tuple<Ls...> const&) {
  std::size_t position = 0;
  return {loader_name<std::remove_cvref_t<Ls>>(position++)...};
}

}  // namespace fulgurite::loop
