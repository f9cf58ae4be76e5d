#pragma once
// Checkpoints are requested by callbacks and written here, at safe points: after an event has been heard by all, between steps.

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// What belongs to the weights: where in the run they were, and what the model keeps beside them.
template <class R, class Archive>
void fold_weights_state(State<R>& run, Archive& archive) {
  archive.child("progress", run.progress);
  if constexpr (Stateful<typename R::Model, Archive>) archive.child("model", *run.model);
}

/// The state of a run is the fold over its parts: saves or loads, by what the archive is.
template <class R, class Pack, class Archive>
void fold_state(State<R>& run, Pack& pack, Archive& archive) {
  fold_weights_state(run, archive);
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
void write_checkpoint(State<R>& run, Pack& pack, std::filesystem::path const& path, bool weights_only = false) {
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
    R::Backend::save(path, *run.model, [&](auto& archive) {
      if (weights_only) fold_weights_state(run, archive);
      else fold_state(run, pack, archive);
    });
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

/// `link` leads to `file` from now on, wherever their folder is moved; there is no moment without it.
inline void link_to(std::filesystem::path const& file, std::filesystem::path const& link) {
  auto const target = std::filesystem::absolute(file).lexically_relative(std::filesystem::absolute(link).parent_path());
  auto fresh = link;
  fresh += ".new";
  std::error_code error;
  std::filesystem::remove(fresh, error);
  std::filesystem::create_symlink(target, fresh, error);
  if (!error) std::filesystem::rename(fresh, link, error);
  if (error)
    throw Error("fulgurite.file.write", "cannot make " + link.string() + " a link to " + file.string() + ": " + error.message() +
                                            "; where there are no links, save a copy instead");
}

/// Writes what was requested, then removes what it displaces.
template <class R, class Pack>
void write_now(State<R>& run, Pack& pack) {
  auto const requests = std::exchange(run.requests, {});
  if (run.strategy.rank() != 0) return;
  for (auto const& request : requests) {
    write_checkpoint(run, pack, request.path, request.save_weights_only);
    for (auto const& copy : request.also) write_checkpoint(run, pack, copy, request.save_weights_only);
    if (!request.link.empty()) link_to(request.path, request.link);
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
