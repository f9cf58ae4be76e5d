#pragma once
// An epoch that a limit or a stop has ended before its data: what the run was before hooks heard of that end. Its files
// hold this, too, so that a fit that goes on inside the epoch goes on as if it had never ended.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/each_of.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

/// A callback of the pack keeps files; one changes weights at an epoch's end.
template <class Pack>
inline constexpr bool any_keeps_files = false;
template <class... Cs>
inline constexpr bool any_keeps_files<Pack<Cs...>> = (judge::keeps_checkpoints<Cs>() || ...);
template <class Pack>
inline constexpr bool any_moves_weights = false;
template <class... Cs>
inline constexpr bool any_moves_weights<Pack<Cs...>> = (judge::moves_weights<Cs>() || ...);

/// Whether files hold weights of that time, too. A process that has a part of them alone cannot say what they were.
template <class R, class Pack>
inline constexpr bool keeps_moved_weights =
    any_moves_weights<Pack> && !splits_model<R> && !judge::shards_parameters<typename R::Strategy>();

template <class R, class Archive>
void fold_weights(State<R>& run, Archive& archive) {
  using Backend = typename R::Backend;
  auto const weights = Backend::weights(*run.parts.model);
  std::vector<decltype(Backend::saved(weights.front()))> saved;
  for (auto const& weight : weights) saved.push_back(Backend::saved(weight));
  archive("weights", saved);
  if constexpr (Archive::loading) {
    auto const count = std::min(weights.size(), saved.size());
    for (std::size_t i = 0; i != count; ++i) Backend::require_fit(weights[i], saved[i]);
    Backend::restore(std::span(weights).first(count), std::span(std::as_const(saved)).first(count));
  }
}

/// What hooks of an epoch's end can reach, but for weights and moments, which they leave alone unless a callback says
/// that it moves weights. One that keeps files is not in it: they are on the disk, and its ranking is of them.
template <class R, class Pack, class Archive>
void fold_before_cut(State<R>& run, Pack& pack, Archive& archive) {
  archive.child("before_cut", [&](auto& inner) {
    if constexpr (Stateful<typename R::Model, Archive> && !splits_model<R>) inner.child("model", *run.parts.model);
    inner.child("callbacks", [&](auto& all) {
      each_remembering<Archive>(pack, [&]<class C>(C& callback, std::string const& name) {
        if constexpr (!judge::keeps_checkpoints<C>())
          if (!lacks(all, name)) all.child(name, callback);
      });
      leave_out_others(all);
    });
    run.parts.optimizers->state(inner);
    inner.child("results", [&](auto& all) { fold_results(run, all); });
    fold_window_length(run, inner);
    inner("statistics_pass", run.due.statistics_pass);
    // The program that goes on may have other callbacks than the one that wrote the file.
    auto const is_there = [&](char const* name) { return !Archive::loading || !lacks(inner, name); };
    if (!any_keeps_files<Pack> && is_there("outcome")) inner("outcome", run.made.outcome);
    if constexpr (keeps_moved_weights<R, Pack>)
      if (is_there("weights")) fold_weights(run, inner);
  });
}

/// Where an epoch is cut short, before hooks hear of its end.
template <class R, class Pack>
void keep_before_cut(State<R>& run, Pack& pack) {
  auto stop = run.due.stop;
  stop.asked = stop.asked || stop.waits;
  run.due.stop_before_cut = stop.lasting();
  if constexpr (requires { typename R::Backend::RunFile::Memory; }) {
    run.carried.cut_random.emplace(R::Backend::rng_state());
    run.before_cut.emplace().save([&](auto& archive) { fold_before_cut(run, pack, archive); });
  }
}

/// Training goes on after it: with the next epoch, or inside that one.
template <class R>
void forget_cut(State<R>& run) {
  run.before_cut.reset();
  run.carried.cut_random.reset();
}

/// Random numbers are each rank's own.
template <class R, class Archive>
void fold_cut_random(State<R>& run, Archive& archive) {
  auto& random = run.carried.cut_random;
  if constexpr (Archive::loading) {
    random.reset();
    if (!lacks(archive, "cut_random")) random.emplace(R::Backend::rng_state());
  }
  if (random) archive.child("cut_random", *random);
}

/// A file's part of it.
template <class R, class Archive>
void fold_kept_cut(State<R>& run, Archive& archive) {
  fold_cut_random(run, archive);
  if constexpr (!Archive::loading) {
    if (run.before_cut) run.before_cut->add_to(archive);
  } else {
    run.before_cut.reset();
    if (!lacks(archive, "before_cut")) run.before_cut.emplace().take("before_cut", archive);
  }
}

/// For a run that was set back inside such an epoch: undoes what hooks did at its end. The weights in training are
/// those of that time already.
template <class R, class Pack>
void go_back_before_cut(State<R>& run, Pack& pack) {
  if (!run.before_cut) return;
  run.before_cut->load([&](auto& archive) { fold_before_cut(run, pack, archive); });
  if (run.carried.cut_random) run.carried.cut_random->restore();
  forget_cut(run);
}

}  // namespace fulgurite::loop
