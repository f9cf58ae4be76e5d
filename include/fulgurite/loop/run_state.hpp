#pragma once
// The state of a run: the fold over its parts, which saves or loads by what the archive is. Files, the way back of
// replayed steps and resuming are the same fold. See docs/checkpoint.md.

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/callbacks.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// The callbacks, each under its key, so that a program may gain one and still read its files.
template <class R, class Archive>
void fold_callbacks(State<R>& run, Archive& archive) {
  if constexpr (Archive::loading) run.due.other_monitors.clear();
  auto const known = each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
    if (add_callback_before_validation(run, name, archive)) return;
    if (lacks(archive, name))
      return run.warn_each("fulgurite.resume.callback",
                           "the file holds no state of " + name + ", so this callback starts anew");
    auto const before = differences(archive).size();
    archive.child(name, callback);
    if (differences(archive).size() != before) run.due.other_monitors.push_back(name);
  });
  leave_out_others(archive);  // said here
  if constexpr (Archive::loading)
    for (auto const& name : archive.names())
      if (!known.contains(name)) {
        run.due.other_monitors.push_back(name);
        run.warn_each("fulgurite.resume.no_callback",
                      "the file holds a state of " + name + ", and the trainer has no such callback: it is left out");
      }
}

/// What belongs to the weights: where in the run they were, and what the model keeps beside them.
template <class R, class Archive>
void fold_weights_state(State<R>& run, Archive& archive) {
  archive.child("progress", run.progress);
  if constexpr (Stateful<typename R::Model, Archive>)
    if (!add_before_validation(run, "model", archive)) archive.child("model", *run.parts.model);
}

template <class R, class Archive>
void fold_policies(State<R>& run, Archive& archive) {
  if constexpr (Stateful<typename R::Strategy, Archive>) archive.child("strategy", run.parts.strategy);
  if constexpr (Stateful<typename R::Precision, Archive>) archive.child("precision", run.parts.precision);
  if constexpr (Stateful<typename R::Optimization, Archive>) archive.child("optimization", run.optimization);
}
/// The parts beside the model that are there before the optimizers are.
template <class R, class Archive>
void fold_parts(State<R>& run, Archive& archive) {
  fold_policies(run, archive);
  archive.child("callbacks", [&](auto& inner) { fold_callbacks(run, inner); });
}

template <class Archive, class... Os>
consteval bool all_remember(std::tuple<Os...> const*) {
  return (Stateful<Os, Archive> && ...);
}
/// Whether the state of each optimizer can be kept.
template <class R, class Archive>
inline constexpr bool optimizers_remember =
    all_remember<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

template <class Archive, class... Os>
consteval bool all_resume(std::tuple<Os...> const*) {
  return ((Stateful<Os, Archive> || DeclaredStateless<Os>) && ...);
}
/// Whether a fit can go on with each optimizer: its state can be kept, or it says that it needs none.
template <class R, class Archive>
inline constexpr bool optimizers_resume =
    all_resume<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

/// Whether a file of such a run can hold what its policies and optimizers keep.
template <class R, class Archive>
inline constexpr bool parts_remember = Remembers<typename R::Strategy> && Remembers<typename R::Precision> &&
                                       Remembers<typename R::Optimization> && optimizers_resume<R, Archive>;

/// What files call an optimizer: its class, with its namespace where it has said that by `kind()`, since classes of one
/// name keep different states. One of the user's own need not have a name.
template <class O>
std::string optimizer_kind() {
  if constexpr (requires { O::kind(); }) return std::string(O::kind());
  else if constexpr (requires { O::name(); }) return std::string(O::name());
  else return std::string(type_name<O>());
}

/// The optimizers that keep a state, numbered, each under its name.
template <class Archive, class... Os>
void fold_each_optimizer(std::tuple<Os...>& optimizers, Archive& archive) {
  int number = 0;
  auto const fold = [&]<class O>(O& optimizer) {
    if constexpr (Stateful<O, Archive>) archive.child(std::to_string(number++) + " " + optimizer_kind<O>(), optimizer);
  };
  each_of(optimizers, fold);
}
/// They, what moves their rates, and the scaler of losses: what a run has from configure_optimizers on.
template <class R, class Archive>
void fold_optimizers(State<R>& run, Archive& archive) {
  auto& made = *run.parts.optimizers;
  archive.child("optimizers", [&](auto& inner) { fold_each_optimizer(made.optimizers, inner); });
  made.state(archive);
  if constexpr (R::Precision::scales_loss) archive.child("scaler", *run.parts.scaler);
}

// What a run was put together from, by name, for its files: where one does not fit a program, the Error says in which
// of these parts they differ.

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
template <class R, class Archive>
void fold_assembly(State<R>& run, Archive& archive) {
  if constexpr (Archive::loading) {
    if (!lacks(archive, "assembly")) archive.child("assembly", [](auto& inner) { leave_out_others(inner); });
  } else {
    archive.child("assembly", [&](auto& inner) {
      auto const optimizers = optimizer_names(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));
      auto const schedules =
          schedule_names<Optimizers<R>>(static_cast<typename Optimizers<R>::Schedulers const*>(nullptr));
      std::vector<std::string> callbacks;
      each_remembering(run.callbacks, [&](AnyCallback const&, std::string const& name) { callbacks.push_back(name); });
      inner("strategy", strategy_names(run.parts.strategy))("precision", keys(run.parts.precision))(
          "optimization", keys(run.optimization))("optimizers", optimizers)("schedules", schedules)("callbacks",
                                                                                                    callbacks);
      inner("loaders", run.loading.loaders == nullptr ? std::vector<std::string>() : run.loading.loaders());
    });
  }
}

}  // namespace fulgurite::loop
