#pragma once
// One event of a run: the callbacks hear it in firing order, then the model, then the strategy.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/fwd.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

// An event that failed on its way: who has heard it is noted, so that a fit that goes on tells the others alone.

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

/// Statements of their own: the order of evaluation of arguments differs between compilers.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline void tell_all_of(HeardSoFar& told, State<R>& run, Pack& pack, Args&... args) {
  pack.template fire<Hook>(told, *run.parts.model, args...);
  if constexpr (strategy_hears<Hook> && Listens<Hook, typename R::Strategy, Args...>)
    pack.template tell_watched<Hook, "Strategy">(told, run.parts.strategy, args...);
}

/// Where one throws it is noted who had heard of an event that nobody shall hear of twice; nothing is counted before.
template <class Hook, class R, class Pack, class... Args>
[[gnu::always_inline]] inline Flow tell(State<R>& run, Pack& pack, Args&... args) {
  HeardSoFar told;
  if constexpr (heard_once<Hook>) {
    try {
      tell_all_of<Hook>(told, run, pack, args...);
    } catch (...) {
      note_heard<Hook, Args...>(run, pack, told);
      throw;
    }
  } else {
    tell_all_of<Hook>(told, run, pack, args...);
  }
  return told.gravest;
}

}  // namespace fulgurite::loop

namespace fulgurite {

// Telling of what surrounds every run: to the data module, callbacks and the model; to loggers, how it has ended.

/// How a run ended, as loggers hear it.
enum class Status : std::uint8_t { success, failed };

namespace loop {

/// An event of the data module, if it has it.
template <class Hook, class Module, class... Args>
void tell_module(Module& module, Args&... args) {
  if constexpr (Listens<Hook, Module, Args...>) invoke<Hook>(module, args...);
}

/// One hook of data module (unless the model is its own), callbacks, model.
template <class Hook, class R, class Pack, class Source, class Ctx>
void tell_all(State<R>& run, Pack& pack, Source& source, Ctx& ctx) {
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    tell_module<Hook>(source.module(), ctx);
  tell<Hook>(run, pack, ctx);
}

template <class Pack>
void finalize_loggers(Pack& pack, Status status) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.finalize(status); }) callback.finalize(status);
  });
}

}  // namespace loop
}  // namespace fulgurite

namespace fulgurite::loop {

// The hyper-parameters of a run: what its model and its data module declare.

/// Empty where neither declares any.
template <class R, class Source>
std::vector<Hyperparameter> declared_hyperparameters(State<R>& run, Source& source) {
  using Module = std::remove_cvref_t<decltype(source.module())>;
  if constexpr (std::is_same_v<Module, typename R::Model>) return hyperparameters(*run.parts.model);
  else return hyperparameters(*run.parts.model, source.module());
}

// Tells the loggers how a run was made.

/// What the model and the data module declare goes to each logger that has `log_hyperparams`; where they declare
/// nothing, none hears of it. Called when fit has started, before its first batch.
template <class R, class Pack, class Source>
void log_hyperparameters(State<R>& run, Pack& pack, Source& source) {
  auto const all = declared_hyperparameters(run, source);
  if (all.empty() || run.parts.strategy.rank() != 0 || run.asked.options.fast_dev_run != 0 ||
      run.asked.options.barebones)
    return;
  std::span<Hyperparameter const> const values(all);
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_hyperparams(values); }) callback.log_hyperparams(values);
  });
}

// Tells the loggers which program runs.

/// Each logger that has `log_program` is handed the trainer's type and what was asked of it, of which it makes the text
/// that stands beside a run's rows. Called when fit has started, before its first batch.
template <class R, class... Cs>
void log_program(State<R>& run, Pack<Cs...>& pack) {
  auto const& options = run.asked.options;
  if (run.parts.strategy.rank() != 0 || options.fast_dev_run != 0 || options.barebones) return;
  using Whole =
      Trainer<typename R::Model, typename R::Strategy, typename R::Precision, typename R::Optimization, Cs...>;
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.log_program(std::type_identity<Whole>(), run); })
      callback.log_program(std::type_identity<Whole>(), run);
  });
}

}  // namespace fulgurite::loop
