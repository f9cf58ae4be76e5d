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

#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/before_validation.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/state_keys.hpp>

namespace fulgurite::loop {

/// The callbacks, each under its key, so that a program may gain one and still read its files.
template <class R, class Pack, class Archive>
void fold_callbacks(State<R>& run, Pack& pack, Archive& archive) {
  if constexpr (Archive::loading) run.due.other_monitors.clear();
  [[maybe_unused]] auto const known = each_remembering<Archive>(pack, [&](auto& callback, std::string const& name) {
    if (add_callback_before_validation(run, name, archive)) return;
    if (lacks(archive, name))
      return run.warn_each("fulgurite.resume.callback",
                           "the file holds no state of " + name + ", so this callback starts anew");
    auto const before = differences(archive).size();
    archive.child(name, callback);
    if (differences(archive).size() != before) run.due.other_monitors.push_back(name);
  });
  leave_out_others(archive);  // said here
  if constexpr (requires { archive.names(); })
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

/// The parts beside the model that are there before the optimizers are.
template <class R, class Pack, class Archive>
void fold_parts(State<R>& run, Pack& pack, Archive& archive) {
  if constexpr (Stateful<typename R::Strategy, Archive>) archive.child("strategy", run.parts.strategy);
  if constexpr (Stateful<typename R::Precision, Archive>) archive.child("precision", run.parts.precision);
  if constexpr (Stateful<typename R::Optimization, Archive>) archive.child("optimization", run.asked.optimization);
  archive.child("callbacks", [&](auto& inner) { fold_callbacks(run, pack, inner); });
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

}  // namespace fulgurite::loop
