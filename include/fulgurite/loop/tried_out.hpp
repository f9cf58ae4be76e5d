#pragma once
// What steps of training and batches of an evaluation have in common when they are tried out.

#include <filesystem>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Some callback of the pack asks for searches.
template <class Pack>
inline constexpr bool any_searches = false;
template <class... Cs>
inline constexpr bool any_searches<Pack<Cs...>> = (judge::searches<Cs>() || ...);

inline void check_steps(RehearsalPlan const& plan) {
  if (plan.steps < 1)
    refuse_option("fulgurite.tuner.steps", "a rehearsal's steps", plan.steps, "it has 1 step or more");
}

/// In the place of what writes a file.
inline constexpr auto refuse_to_write = [](std::filesystem::path const& file) {
  throw Error("fulgurite.tuner.saves", "save_checkpoint(" + file.string() +
                                           ") in steps that are tried out, of which nothing is written: ask "
                                           "ctx.rehearsing() first");
};

/// From here on nothing is written, until the run is put back.
template <class R>
void begin_trying_out(State<R>& run) {
  run.searching.rehearsing = true;
  run.loading.write = refuse_to_write;
}

/// A run ends: what was asked for too late is not done, and that is said.
template <class R>
void warn_of_unanswered(State<R>& run) {
  if (run.searching.due.empty() && run.searching.settings.empty()) return;
  run.warn("fulgurite.tuner.unanswered",
           "what ctx.request_search or ctx.request_setting asked for was not done, since no place for it followed: ask "
           "in setup, on_fit_start or on_train_epoch_start, of an epoch that is trained; in an evaluation in setup");
}

/// Nothing that was asked for in this run is done in another one.
template <class R>
void forget_searches(State<R>& run) {
  run.searching.due.clear();
  run.searching.settings.clear();
  run.searching.answers = false;
}

}  // namespace fulgurite::loop
