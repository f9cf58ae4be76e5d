#pragma once
// The state of a run: functions that save or load its parts, depending on the archive. Files, rollback of replayed
// steps, and resuming all use them. See docs/checkpoint.md.

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

/// The callbacks, each under its key, so that files stay readable when a program gains a callback.
template <class R, class Archive>
void fold_callbacks(State<R>& run, Archive& archive) {
  if constexpr (Archive::loading) run.due.other_monitors.clear();
  auto const known = each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
    if (add_callback_before_validation(run, name, archive)) return;
    if (lacks(archive, name))
      return run.warn_each("fulgurite.resume.callback",
                           "the file holds no state of " + name + ", so this callback starts without one");
    auto const before = differences(archive).size();
    archive.child(name, callback);
    if (differences(archive).size() != before) run.due.other_monitors.push_back(name);
  });
  leave_out_others(archive);  // they are warned of below
  if constexpr (Archive::loading)
    for (auto const& name : archive.names())
      if (!known.contains(name)) {
        run.due.other_monitors.push_back(name);
        run.warn_each("fulgurite.resume.no_callback",
                      "the file holds a state of " + name + ", and the trainer has no such callback: it is left out");
      }
}

/// The state that belongs to the weights: the position of the run, and the model's own state.
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
/// The parts besides the model that exist before the optimizers do.
template <class R, class Archive>
void fold_parts(State<R>& run, Archive& archive) {
  fold_policies(run, archive);
  archive.child("callbacks", [&](auto& inner) { fold_callbacks(run, inner); });
}

template <class Archive, class... Os>
consteval bool all_remember(std::tuple<Os...> const*) {
  return (Stateful<Os, Archive> && ...);
}
/// True if the state of each optimizer can be saved.
template <class R, class Archive>
inline constexpr bool optimizers_remember =
    all_remember<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

template <class Archive, class... Os>
consteval bool all_resume(std::tuple<Os...> const*) {
  return ((Stateful<Os, Archive> || DeclaredStateless<Os>) && ...);
}
/// True if a fit can resume with each optimizer: its state can be saved, or it declares that it needs none.
template <class R, class Archive>
inline constexpr bool optimizers_resume =
    all_resume<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

/// True if a file of such a run can hold the state of its policies and optimizers.
template <class R, class Archive>
inline constexpr bool parts_remember = Remembers<typename R::Strategy> && Remembers<typename R::Precision> &&
                                       Remembers<typename R::Optimization> && optimizers_resume<R, Archive>;

/// The name of an optimizer in files: its class, with the namespace if the optimizer gives it by `kind()`, since
/// classes of the same name may have different states. A user's optimizer need not have a name.
template <class O>
std::string optimizer_kind() {
  if constexpr (requires { O::kind(); }) return std::string(O::kind());
  else if constexpr (requires { O::name(); }) return std::string(O::name());
  else return std::string(type_name<O>());
}

/// The optimizers that have a state, numbered, each under its name.
template <class Archive, class... Os>
void fold_each_optimizer(std::tuple<Os...>& optimizers, Archive& archive) {
  int number = 0;
  auto const fold = [&]<class O>(O& optimizer) {
    if constexpr (Stateful<O, Archive>) archive.child(std::to_string(number++) + " " + optimizer_kind<O>(), optimizer);
  };
  each_of(optimizers, fold);
}
/// What a run has after configure_optimizers: optimizers, schedulers, and the scaler of losses.
template <class R, class Archive>
void fold_optimizers(State<R>& run, Archive& archive) {
  auto& made = *run.parts.optimizers;
  archive.child("optimizers", [&](auto& inner) { fold_each_optimizer(made.optimizers, inner); });
  made.state(archive);
  if constexpr (R::Precision::scales_loss) archive.child("scaler", *run.parts.scaler);
}

// The parts of a run by name, for its files: if a file does not fit a program, the Error names the parts that differ.

/// The loaders of a fit, such as "train TensorLoader" and "validation 0 TensorLoader".
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

/// The names of the optimizers in the state; the optimizers need not exist yet.
template <class... Os>
std::vector<std::string> optimizer_names(std::tuple<Os...> const*) {
  std::vector<std::string> names;
  (names.push_back(std::to_string(names.size()) + " " + optimizer_kind<Os>()), ...);
  return names;
}

/// The schedules, each with the number of its optimizer.
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

/// The state key of a participant, as a list.
template <class C>
std::vector<std::string> keys(C const& participant) {
  return {state_key_of(participant)};
}

/// A strategy that only runs the steps of another strategy faster, with the same bits, has the other's name: their
/// files are the same.
template <class S>
std::vector<std::string> strategy_names(S const& strategy) {
  if constexpr (requires { typename S::AsWritten; }) {
    return keys(static_cast<typename S::AsWritten const&>(strategy));
  } else {
    return keys(strategy);
  }
}

/// Saves the list of parts. Loading skips it: an unfit part is found when its state is loaded.
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
