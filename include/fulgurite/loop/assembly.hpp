#pragma once
// What a run was put together from, by name, for its files: where one does not fit a program, the Error says in which
// of these parts they differ.

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

/// The loaders of a fit, as "train TensorLoader" and "validation 0 TensorLoader".
template <class Source>
std::vector<std::string> loader_names() {
  std::vector<std::string> names;
  auto const add = [&]<class L>(std::string what, std::type_identity<L>) {
    names.push_back((what += ' ') += type_name<std::remove_cvref_t<L>>());
  };
  if constexpr (Source::trains) add("train", std::type_identity<decltype(std::declval<Source&>().train())>());
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    auto each = [&, i = 0]<class... Ls>(std::type_identity<std::tuple<Ls...>>) mutable {
      (add("validation " + std::to_string(i++), std::type_identity<Ls>()), ...);
    };
    each(std::type_identity<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>());
  }
  return names;
}

/// The optimizers, which need not be there yet, by the names that they have in the state.
template <class... Os>
std::vector<std::string> optimizer_names(std::tuple<Os...> const*) {
  std::vector<std::string> names;
  (names.push_back(std::to_string(names.size()) + " " + optimizer_kind<Os>()), ...);
  return names;
}

/// Their schedules, each with the number of its optimizer.
template <class Set, class... Ss>
std::vector<std::string> schedule_names(std::tuple<Ss...> const*) {
  std::vector<std::string> names;
  auto add = [&, i = std::size_t{0}]<class S>(std::type_identity<S>) mutable {
    auto key = Set::key(i++);
    if constexpr (S::exists) names.push_back((key += ' ') += S::kind());
  };
  (add(std::type_identity<Ss>()), ...);
  return names;
}

/// What a participant is kept under, as a list.
template <class C>
std::vector<std::string> keys(C const& participant) {
  return {state_key_of(participant)};
}

/// A strategy that only runs the steps of another in a faster way, with the same bits, has the other's name: their
/// files are the same.
template <class S>
std::vector<std::string> strategy_names(S const& strategy) {
  if constexpr (requires { typename S::AsWritten; }) {
    return keys(static_cast<typename S::AsWritten const&>(strategy));
  } else {
    return keys(strategy);
  }
}

/// Saves the list. Loading passes over it: what has to fit is told by what is loaded.
template <class R, class Pack, class Archive>
void fold_assembly(State<R>& run, Pack& pack, Archive& archive) {
  if constexpr (Archive::loading) {
    if (!lacks(archive, "assembly")) archive.child("assembly", [](auto& inner) { leave_out_others(inner); });
  } else {
    archive.child("assembly", [&](auto& inner) {
      auto const optimizers = optimizer_names(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));
      auto const schedules =
          schedule_names<Optimizers<R>>(static_cast<typename Optimizers<R>::Schedulers const*>(nullptr));
      std::vector<std::string> callbacks;
      each_remembering<Archive>(pack, [&](auto&, std::string const& name) { callbacks.push_back(name); });
      inner("strategy", strategy_names(run.parts.strategy))("precision", keys(run.parts.precision))(
          "optimization", keys(run.asked.optimization))("optimizers", optimizers)("schedules", schedules)("callbacks",
                                                                                                          callbacks);
      inner("loaders", run.loading.loaders == nullptr ? std::vector<std::string>() : run.loading.loaders());
    });
  }
}

}  // namespace fulgurite::loop
