#pragma once
// What is wrong with the hooks of a trainer's participants, except those that receive a batch.

#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/dispatch.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/safe_points.hpp>
#include <fulgurite/metric/board.hpp>

namespace fulgurite::judge {

// A function that the library calls on one kind of participant would never be called on another, which is an error.
// Names that users also give to functions of their own are only refused in the form that the library calls, if at all.

// `FULGURITE_FAULT` is the fault for this kind of participant.
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (hook::NAME::is_function<T>) return {FULGURITE_FAULT, HookId::NAME};

/// Finds a logger's function in the form that loggers are called in; a class that logs by itself may have another
/// function of that name.
template <class T>
consteval HookVerdict writes_rows(HookFault fault) {
  using hook::finalize;
  using hook::log_hyperparams;
  using hook::log_metrics;
  if constexpr (log_metrics::is_plain<T>)
    if (log_metrics::accepts<T, std::span<Scalar const> const, long>) return {fault, HookId::log_metrics};
  if constexpr (log_hyperparams::is_plain<T>)
    if (log_hyperparams::accepts<T, std::span<Hyperparameter const> const>) return {fault, HookId::log_hyperparams};
  if constexpr (finalize::is_plain<T>)
    if (finalize::accepts<T, Status>) return {fault, HookId::finalize};
  return {};
}

#define FULGURITE_FAULT HookFault::not_of_callback
/// `account` is not checked, since the name has many other meanings.
template <class T>
consteval HookVerdict foreign_to_callback() {
  if constexpr (!hook::NoneForeignToCallback<hook::Probe<T>>) {  // checks single names only if there is one
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
    FULGURITE_DATA_HOOKS(FULGURITE_ROW)
    FULGURITE_ROW(pre_backward)
    FULGURITE_ROW(post_backward)
    FULGURITE_ROW(process_dataloader)
    FULGURITE_ROW(no_sync)
  }
  return {};
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_model
/// A model may have the functions that a strategy has around a step, since its own step may call them.
template <class T>
consteval HookVerdict foreign_to_model() {
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  return writes_rows<T>(FULGURITE_FAULT);
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_data
/// A data module that is also a model declares `using OverridesModel = ...`. `process_dataloader` is not checked, since
/// the module's own factories may call it.
template <class T>
consteval HookVerdict foreign_to_data() {
  if constexpr (requires { typename T::OverridesModel; }) return {};
  else {
#define FULGURITE_EVENT(NAME, ...)                                                                                     \
  if constexpr (!std::is_same_v<hook::NAME, hook::setup> && !std::is_same_v<hook::NAME, hook::teardown> &&             \
                !std::is_same_v<hook::NAME, hook::on_exception> && hook::NAME::named<T>)                               \
    return {HookFault::not_of_data, HookId::NAME};
    FULGURITE_EVENTS(FULGURITE_EVENT)
#undef FULGURITE_EVENT
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
    FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
    FULGURITE_ROW(pre_backward)
    FULGURITE_ROW(post_backward)
    FULGURITE_ROW(no_sync)
    return writes_rows<T>(FULGURITE_FAULT);
  }
}
#undef FULGURITE_FAULT

#define FULGURITE_FAULT HookFault::not_of_strategy
/// `backward` is one of a strategy's own functions.
template <class T>
consteval HookVerdict foreign_to_strategy() {
#define FULGURITE_OVERRIDE(NAME, ...)                                                                                  \
  if constexpr (!std::is_same_v<hook::NAME, hook::backward> && hook::NAME::is_function<T>)                             \
    return {HookFault::not_of_strategy, HookId::NAME};
  FULGURITE_OVERRIDES(FULGURITE_OVERRIDE)
#undef FULGURITE_OVERRIDE
  FULGURITE_STEPS(FULGURITE_ROW)
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  return writes_rows<T>(FULGURITE_FAULT);
}
#undef FULGURITE_FAULT
#undef FULGURITE_ROW

/// Finds a function with a hook's name, or almost a hook's name, in a class on which nothing is called.
template <class P>
consteval bool has_any_function() {
  if constexpr (!Probeable<P>) return false;
  else if constexpr (hook::NoneAtAll<hook::Probe<P>> && near_miss::Clean<near_miss::Probe<P>>) return false;
  else {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (hook::NAME::is_function<P>) return true;
    FULGURITE_EVENTS(FULGURITE_ROW)
    FULGURITE_OVERRIDES(FULGURITE_ROW)
    FULGURITE_DATA_HOOKS(FULGURITE_ROW)
    FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
    FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
    FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
    FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW
    return bool(misspelt<P>());
  }
}

/// The first verdict with a fault; an empty one if there is none.
constexpr HookVerdict worst(HookVerdict a) { return a ? a : HookVerdict{}; }
template <class... Vs>
constexpr HookVerdict worst(HookVerdict a, Vs... rest) {
  return a ? a : worst(rest...);
}

/// The phase of a hook's context.
template <Where Place>
struct PhaseAt : std::type_identity<phase::Fit> {};
template <>
struct PhaseAt<Where::train> : std::type_identity<phase::Train> {};
template <>
struct PhaseAt<Where::train_end> : std::type_identity<phase::TrainEnd> {};
template <>
struct PhaseAt<Where::validate> : std::type_identity<phase::Validate> {};
template <>
struct PhaseAt<Where::validate_end> : std::type_identity<phase::ValidateEnd> {};
template <>
struct PhaseAt<Where::test> : std::type_identity<phase::Test> {};
template <>
struct PhaseAt<Where::test_end> : std::type_identity<phase::TestEnd> {};
template <>
struct PhaseAt<Where::predict> : std::type_identity<phase::Predict> {};
/// The context that a hook receives.
template <class R, class Hook>
using ContextOf = RunContext<R, typename PhaseAt<Hook::where>::type>;

/// Checks events that receive only ctx, and the model's overrides that do. For those that take more, checks only that
/// Manual would call them.
template <class R, class T>
consteval HookVerdict plain_hooks() {
  constexpr bool is_strategy = std::is_same_v<T, typename R::Strategy>;
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!hook::NAME::named<T> || (is_strategy && !loop::strategy_listens<hook::NAME>)) {                       \
  } else if constexpr (hook::NAME::takes == Takes::nothing) {                                                          \
    constexpr auto fault = hook::event_fault<hook::NAME, T, R::automatic, ContextOf<R, hook::NAME>>();                 \
    if (fault != HookFault::none) return {fault, HookId::NAME};                                                        \
  } else if constexpr (!R::automatic && !hook::NAME::in_manual) {                                                      \
    return {HookFault::never_called, HookId::NAME};                                                                    \
  }
  FULGURITE_EVENTS(FULGURITE_ROW)
  if constexpr (std::is_same_v<T, typename R::Model>) { FULGURITE_OVERRIDES(FULGURITE_ROW) }
#undef FULGURITE_ROW
  return {};
}

/// Checks loader factories and prepare_data, which are called without arguments.
template <class T>
consteval HookVerdict data_calls() {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (hook::NAME::takes == Takes::nothing && hook::NAME::named<T> && !hook::NAME::accepts<T>)                          \
    return {HookFault::parameters, HookId::NAME};
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}

/// Reports a name that exists and cannot be called with these arguments.
template <class Hook, class T, class... Args>
consteval HookVerdict uncallable(HookId id) {
  if constexpr (!Hook::template named<T>) return {};
  else if constexpr (Hook::template accepts<T, Args...>) return {};
  else return {HookFault::parameters, id};
}
/// Checks a logger's functions with the arguments that dispatch.hpp and safe_points.hpp pass.
template <class T>
consteval HookVerdict logger_calls() {
  return worst(uncallable<hook::log_metrics, T, std::span<Scalar const> const, long>(HookId::log_metrics),
               uncallable<hook::log_hyperparams, T, std::span<Hyperparameter const> const>(HookId::log_hyperparams),
               uncallable<hook::finalize, T, Status>(HookId::finalize));
}
/// Checks the functions of callbacks only, as loop/dispatch.hpp and loop/callbacks.hpp call them.
template <class R, class T>
consteval HookVerdict callback_calls() {
  return worst(uncallable<hook::before_save, T, RunContext<R, phase::Fit>>(HookId::before_save),
               uncallable<hook::after_save, T, RunContext<R, phase::Fit>>(HookId::after_save),
               uncallable<hook::before_statistics_pass, T, RunContext<R, phase::Train>>(HookId::before_statistics_pass),
               uncallable<hook::limits_time, T>(HookId::limits_time),
               uncallable<hook::profile_action, T, ProfiledAction const>(HookId::profile_action),
               uncallable<hook::end_if_asked, T>(HookId::end_if_asked));
}
/// Checks a function that is called only if it exists and fits. A hidden member of such a name may not be a function,
/// so only a public one counts that is neither overloaded nor a template.
template <class Hook, class T, class... Args>
consteval HookVerdict unfit(HookId id) {
  if constexpr (!Hook::template is_plain<T>) return {};
  else if constexpr (Hook::template accepts<T, Args...>) return {};
  else return {HookFault::parameters, id};
}
/// Checks what a callback may provide about files, and a logger about its folders, as loop/callbacks.hpp calls it.
template <class T>
consteval HookVerdict file_calls() {
  if constexpr (constexpr auto near = misspelt_of_callback<T>(); bool(near)) return near;
  else if constexpr (hook::state_key::is_plain<T> && !loop::SaysKey<T>)
    return {HookFault::parameters, HookId::state_key};
  else if constexpr (hook::last_checkpoints::is_plain<T> && !loop::NamesLast<T>)
    return {HookFault::parameters, HookId::last_checkpoints};
  else if constexpr (hook::hpc_checkpoints::is_plain<T> && !loop::NamesHpc<T>)
    return {HookFault::parameters, HookId::hpc_checkpoints};
  else if constexpr (hook::best_model_path::is_plain<T> && !loop::NamesBest<T>)
    return {HookFault::parameters, HookId::best_model_path};
  else
    return worst(unfit<hook::resumes_hpc, T>(HookId::resumes_hpc),
                 unfit<hook::do_not_continue, T>(HookId::do_not_continue),
                 unfit<hook::continue_in, T, std::filesystem::path const>(HookId::continue_in),
                 unfit<hook::earlier_runs, T, TrainerOptions const>(HookId::earlier_runs));
}
/// Reports a `hyperparameters(list)` that could be called if it were const: loggers and files pass constants. A
/// function with another meaning does not take a list.
template <class T>
consteval HookVerdict settings_calls() {
  using Settings = hook::hyperparameters;
  if constexpr (Settings::accepts<T const, HyperparameterList>) return {};
  else if constexpr (Settings::accepts<T, HyperparameterList>) return {HookFault::parameters, HookId::hyperparameters};
  else if constexpr (requires(T& object) { object.hparams; }) {
    using Own = std::remove_reference_t<decltype((std::declval<T&>().hparams))>;
    if (Settings::accepts<Own, HyperparameterList> && !Settings::accepts<Own const, HyperparameterList>)
      return {HookFault::parameters, HookId::hyperparameters};
    return {};
  } else return {};
}
/// Checks what a strategy may have, except functions that receive a loss or a loader.
template <class S>
consteval HookVerdict strategy_calls() {
  return worst(uncallable<hook::no_sync, S, bool>(HookId::no_sync),
               uncallable<hook::account, S const>(HookId::account));
}
/// Checks that the strategy's hooks around backward, and its backward, can be called with the loss.
template <class S, class Loss>
consteval HookVerdict seam_calls() {
  using Seed = decltype(S::Backend::seed(std::declval<Loss&>(), 1.0));
  return worst(uncallable<hook::pre_backward, S, Loss>(HookId::pre_backward),
               uncallable<hook::post_backward, S, Loss>(HookId::post_backward),
               uncallable<hook::of_strategy::backward, S, Loss, Seed>(HookId::of_strategy_backward));
}

/// True if the model inherits privately from a base class that the backend must see.
template <class Backend, class M>
consteval bool hides_base() {
  if constexpr (requires { Backend::template hides_base<M>; }) return Backend::template hides_base<M>;
  else return false;
}

/// True if the model derives from the backend's class of modules in a script's language.
template <class Backend, class M>
consteval bool is_script() {
  if constexpr (requires { Backend::template is_script<M>; }) return Backend::template is_script<M>;
  else return false;
}

/// Everything besides training_step that loop/automatic.hpp calls inside the strategy's capture.
#define FULGURITE_INSIDE_THE_SEAM(ROW)                                                                                 \
  ROW(on_before_zero_grad)                                                                                             \
  ROW(optimizer_zero_grad)                                                                                             \
  ROW(on_before_backward)                                                                                              \
  ROW(backward)                                                                                                        \
  ROW(on_after_backward)

/// The first hook of T that replays would skip.
template <class T>
consteval HookVerdict replayed() {
  if (acts_on_tensors<T>()) return {};
#define FULGURITE_ROW(NAME)                                                                                            \
  if (hook::NAME::named<T>) return {HookFault::captured, HookId::NAME};
  FULGURITE_INSIDE_THE_SEAM(FULGURITE_ROW)
#undef FULGURITE_ROW
  return {};
}
#undef FULGURITE_INSIDE_THE_SEAM

}  // namespace fulgurite::judge
