#pragma once
// An event that failed on its way: who has heard it is noted, so that a fit that goes on tells the others alone.

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

/// A strategy may have any event but these two: they are the names under which it takes and releases the model.
template <class Hook>
inline constexpr bool strategy_hears = !std::is_same_v<Hook, hook::setup> && !std::is_same_v<Hook, hook::teardown>;

/// Events after which a fit goes on without doing again what they tell of.
template <class Hook>
inline constexpr bool heard_once =
    std::is_same_v<Hook, hook::on_train_epoch_start> || std::is_same_v<Hook, hook::on_train_batch_end> ||
    std::is_same_v<Hook, hook::on_validation_end> || std::is_same_v<Hook, hook::on_train_epoch_end>;

/// The names of all callbacks, in their order, as notes of who has heard an event use them.
template <class Pack>
[[gnu::noinline, gnu::cold]] std::vector<std::string> names_of_callbacks(Pack& pack) {
  std::vector<std::string> all;
  NumberedNames names;
  pack.each([&](auto& callback) { all.push_back(names.name(state_key_of(callback))); });
  return all;
}

/// f(participant, name) for callbacks, model and strategy, in the order in which they hear of an event.
template <class Hook, class R, class Pack, class F>
void each_participant(State<R>& run, Pack& pack, F&& f) {
  bool model_is_next = true;
  auto const model = [&] {
    if (model_is_next) f(*run.parts.model, "the model");
    model_is_next = false;
  };
  auto const names = names_of_callbacks(pack);
  auto name = names.begin();
  pack.each([&](auto& callback) {
    using C = std::remove_cvref_t<decltype(callback)>;
    if constexpr (hook::model_before_monitors<Hook> && order_of<C>() >= Order::monitor) model();
    f(callback, *name++);
  });
  model();
  if constexpr (strategy_hears<Hook>) f(run.parts.strategy, "the strategy");
}

/// Notes who heard the event before it failed. What those asked for (a stop) still applies.
template <class Hook, class... Args, class R, class Pack>
[[gnu::noinline, gnu::cold]] void note_heard(State<R>& run, Pack& pack, HeardSoFar const& told) {
  if (run.facts.stage != Stage::fit || run.facts.sanity_checking) return;
  if (told.gravest == Flow::stop) wish_stop(run);
  run.due.heard = {.event = std::string(Hook::name())};
  int left = told.participants;
  each_participant<Hook>(run, pack, [&]<class T>(T&, std::string_view name) {
    if constexpr (Listens<Hook, T, Args...>)
      if (left-- > 0) run.due.heard.by.emplace_back(name);
  });
}

/// Tells those that have not heard of an event when it failed.
template <class Hook, class R, class Pack, class... Args>
[[gnu::noinline, gnu::cold]] Flow tell_others(State<R>& run, Pack& pack, Args&... args) {
  auto& heard = run.due.heard;
  Flow gravest = Flow::proceed;
  try {
    each_participant<Hook>(run, pack, [&]<class T>(T& participant, std::string_view name) {
      if constexpr (Listens<Hook, T, Args...>) {
        if (heard.contains(name)) return;
        heard.by.emplace_back(name);  // a file that it writes goes on after it
        try {
          gravest = graver(gravest, answer_of<Hook>(participant, args...));
        } catch (...) {
          heard.by.pop_back();
          throw;
        }
      } else if constexpr (Hook::template named<T>) {
        if (heard.contains(name)) return;
        run.warn_each("fulgurite.resume.untold", std::string(name) + " takes of " + heard.event +
                                                     " what was gone when the run was stopped, and is not told: "
                                                     "take it as (ctx), or as (batch, ctx)");
      }
    });
  } catch (...) {
    if (gravest == Flow::stop) wish_stop(run);
    throw;
  }
  heard = {};
  return gravest;
}

}  // namespace fulgurite::loop
