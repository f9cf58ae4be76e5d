#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all, between steps.

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// The state of a run is the fold over its parts: saves or loads, by what the archive is.
template <class R, class Pack, class Archive>
void fold_state(State<R>& run, Pack& pack, Archive& archive) {
  archive.child("progress", run.progress);
  if constexpr (Stateful<typename R::Model, Archive>) archive.child("model", *run.model);  // what it keeps beside its weights
  if constexpr (R::Precision::scales_loss) archive.child("scaler", *run.scaler);
  if constexpr (Stateful<typename R::Strategy, Archive>) archive.child("strategy", run.strategy);
  run.optimizers->each_scheduler([&, i = 0](auto& scheduler) mutable { archive.child("scheduler." + std::to_string(i++), scheduler); });
  pack.each([&, i = 0](auto& callback) mutable {
    std::string const key = "callback." + std::to_string(i++);
    if constexpr (Stateful<std::remove_reference_t<decltype(callback)>, Archive>) archive.child(key, callback);
  });
}

/// Writes one file now: weights and the state of the run. A callback may show the file other weights than those in training: its
/// `before_save(ctx)` and `after_save(ctx)` are called around it, also where it cannot be written.
template <class R, class Pack>
void write_checkpoint(State<R>& run, Pack& pack, std::filesystem::path const& path) {
  Context<R, phase::Fit> ctx(run);
  auto const restore = [&] {
    pack.each([&](auto& callback) {
      if constexpr (requires { callback.after_save(ctx); }) callback.after_save(ctx);
    });
  };
  try {
    pack.each([&](auto& callback) {
      if constexpr (requires { callback.before_save(ctx); }) callback.before_save(ctx);
    });
    R::Backend::save(path, *run.model, [&](auto& archive) { fold_state(run, pack, archive); });
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

/// Writes what was requested, then removes what it displaces.
template <class R, class Pack>
void write_now(State<R>& run, Pack& pack) {
  auto const requests = std::exchange(run.requests, {});
  if (run.strategy.rank() != 0) return;
  for (auto const& request : requests) {
    write_checkpoint(run, pack, request.path);
    for (auto const& copy : request.also) write_checkpoint(run, pack, copy);
  }
  for (auto request = requests.begin(); request != requests.end(); ++request)
    for (auto const& displaced : request->remove) {
      // What this request or a later one has written is not what it displaces.
      bool const renewed = std::any_of(request, requests.end(), [&](CheckpointRequest const& later) {
        return later.path == displaced || std::find(later.also.begin(), later.also.end(), displaced) != later.also.end();
      });
      std::error_code ignored;  // a file that somebody else removed is gone, as wanted
      if (!renewed) std::filesystem::remove(displaced, ignored);
    }
}

/// Called when an event has been heard by all. Inside an accumulation window requests wait for its step.
template <class R, class Pack>
[[gnu::always_inline]] inline void write_requests(State<R>& run, Pack& pack) {
  if (run.requests.empty() || run.facts.accumulating) [[likely]] return;
  write_now(run, pack);
}

}  // namespace fulgurite::loop
