#pragma once
// Rules about the result of configure_optimizers: optimizers with or without schedules, as many as the mode can drive.

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::judge {

/// The parts of an entry in configure_optimizers' result.
template <class T>
struct Parts {
  using Optimizer = T;
  static constexpr bool scheduled_well = true, whole_factor = false;
};
/// True if a schedule's factor is an integer or a bool, with which 1 / (1 + n) would be 0.
template <class S>
inline constexpr bool has_whole_factor = false;
template <class S>
  requires requires(S& schedule, long moves) { schedule(moves); }
inline constexpr bool has_whole_factor<S> =
    std::is_integral_v<std::remove_cvref_t<decltype(std::declval<S&>()(std::declval<long>()))>>;
template <class O, class S, bool Configured>
struct Parts<Scheduled<O, S, Configured>> {
  using Optimizer = typename Parts<O>::Optimizer;
  static constexpr bool scheduled_well = Parts<O>::scheduled_well && ScheduleLike<S>,
                        whole_factor = Parts<O>::whole_factor || has_whole_factor<S>;
};
/// A type that the tensor library can use as an optimizer.
template <class Backend, class T>
concept Optimizes = std::is_same_v<T, NoOptimizer> || requires(T& optimizer) {
  requires OptimizerLike<std::remove_cvref_t<decltype(Backend::adopt(std::move(optimizer)))>>;
};

/// True if the metric that a schedule follows is declared in the model.
template <class Metrics, class T>
inline constexpr bool follows_declared = true;
template <class Metrics, class O, class S, bool Configured>
inline constexpr bool follows_declared<Metrics, Scheduled<O, S, Configured>> = follows_declared<Metrics, O>;
template <class Metrics, class O, class S, bool Configured>
  requires requires { typename S::Watches; }
inline constexpr bool follows_declared<Metrics, Scheduled<O, S, Configured>> =
    follows_declared<Metrics, O> && watches_declared<Metrics, S>();
/// True if a schedule names its metric by a text instead of a constant of the model.
template <class T>
inline constexpr bool follows_text = false;
template <class O, class S, bool Configured>
inline constexpr bool follows_text<Scheduled<O, S, Configured>> = follows_text<O> || watches_a_text<S>();
/// True if a schedule follows a metric that has several numbers.
template <class T>
inline constexpr bool follows_several = false;
template <class O, class S, bool Configured>
inline constexpr bool follows_several<Scheduled<O, S, Configured>> = follows_several<O> || watches_several<S>();

/// `parameters()` of an optimizer lists tensors of the strategy's library, which clipping and checks of gradients read.
template <class Backend, class O>
concept ListsTensors = requires(std::remove_reference_t<decltype(std::declval<O&>().parameters())>& list) {
  requires std::derived_from<std::remove_cvref_t<decltype(*std::begin(list))>, typename Backend::Value>;
};

/// True if a schedule that changes a momentum is on an optimizer that has one.
template <class Backend, class T>
inline constexpr bool has_momentum_for = true;
template <class Backend, class O, class S, bool Configured>
inline constexpr bool has_momentum_for<Backend, Scheduled<O, S, Configured>> =
    has_momentum_for<Backend, O> && (!MovesMomentum<S> || HasMomentum<typename loop::Entry<Backend, O>::Optimizer>);

/// False if a schedule declares by `can_move<O>` that it cannot move this optimizer.
template <class Backend, class T>
inline constexpr bool is_moved = true;
template <class Backend, class O, class S, bool Configured>
inline constexpr bool is_moved<Backend, Scheduled<O, S, Configured>> =
    is_moved<Backend, O> && !requires { requires !S::template can_move<typename loop::Entry<Backend, O>::Optimizer>; };

/// True if a schedule was given an interval and frequency.
template <class T>
inline constexpr bool is_configured = false;
template <class O, class S, bool Configured>
inline constexpr bool is_configured<Scheduled<O, S, Configured>> = Configured || is_configured<O>;

// What holds of the result of configure_optimizers, whose entries are `Os`.
// clang-format off
#define FULGURITE_OF_ENTRIES(NAME, ...)                                                                                \
  template <class List> inline constexpr bool NAME = false;                                                            \
  template <class... Os> inline constexpr bool NAME<OptimizerList<Os...>> = (__VA_ARGS__);
#define FULGURITE_OF_ENTRIES_BY(NAME, GIVEN, ...)                                                                      \
  template <class GIVEN, class List> inline constexpr bool NAME = false;                                               \
  template <class GIVEN, class... Os> inline constexpr bool NAME<GIVEN, OptimizerList<Os...>> = (__VA_ARGS__);
FULGURITE_OF_ENTRIES(any_follows_text, follows_text<Os> || ...)
FULGURITE_OF_ENTRIES(any_follows_several, follows_several<Os> || ...)
FULGURITE_OF_ENTRIES_BY(all_follow_declared, Metrics, follows_declared<Metrics, Os> && ...)
FULGURITE_OF_ENTRIES_BY(all_optimize, Backend,
                        sizeof...(Os) != 0 && (Optimizes<Backend, typename Parts<Os>::Optimizer> && ...))
FULGURITE_OF_ENTRIES(all_scheduled_well, Parts<Os>::scheduled_well && ...)
FULGURITE_OF_ENTRIES(any_whole_factor, Parts<Os>::whole_factor || ...)
FULGURITE_OF_ENTRIES_BY(all_list_tensors, Backend,
                        ListsTensors<Backend, typename loop::Entry<Backend, Os>::Optimizer> && ...)
FULGURITE_OF_ENTRIES_BY(all_have_momentum, Backend, has_momentum_for<Backend, Os> && ...)
FULGURITE_OF_ENTRIES_BY(all_are_moved, Backend, is_moved<Backend, Os> && ...)
FULGURITE_OF_ENTRIES(any_configured, is_configured<Os> || ...)
// clang-format on

/// The type that configure_optimizers returns.
template <class R>
using Returned = std::remove_cvref_t<decltype(loop::configure_optimizers<R>(
    std::declval<typename R::Model&>(), std::declval<RunContext<R, phase::Fit>&>()))>;

/// True if the result is a value, which can be moved into the run.
template <class R>
inline constexpr bool returns_by_value =
    std::is_same_v<Returned<R>, decltype(loop::configure_optimizers<R>(std::declval<typename R::Model&>(),
                                                                       std::declval<RunContext<R, phase::Fit>&>()))>;

/// Checks that configure_optimizers can be called.
template <class R>
consteval HookVerdict optimizers_asked() {
  using M = typename R::Model;
  if constexpr (hook::configure_optimizers::accepts<M, RunContext<R, phase::Fit>> ||
                hook::configure_optimizers::accepts<M>)
    return {};
  else return {HookFault::parameters, HookId::configure_optimizers};
}
/// True if it returns, by value, something that can be driven.
template <class R>
consteval bool returns_optimizers() {
  if constexpr (std::is_void_v<Returned<R>>) return false;
  else return returns_by_value<R> && all_optimize<typename R::Backend, typename loop::AsList<Returned<R>>::type>;
}
/// True if the gradients of all optimizers stay at a fixed place in memory.
FULGURITE_OF_ARGUMENTS(all_stable, std::tuple, (Ts::stable_gradients && ...));
/// The same for the optimizers of a run.
template <class R>
consteval bool all_gradients_stable() {
  return all_stable<decltype(loop::Optimizers<R>::optimizers)>;
}
/// True if each process can keep its own part of the state of all optimizers.
FULGURITE_OF_ARGUMENTS(all_in_parts, std::tuple, state_in_parts<Ts>() && ...);
/// The same for the optimizers of a run.
template <class R>
consteval bool all_states_in_parts() {
  return all_in_parts<decltype(loop::Optimizers<R>::optimizers)>;
}

/// True if the strategy can gather the parts of all these optimizers.
template <class S, class... Os>
consteval bool gathers_all(std::tuple<Os...> const*) {
  return (gathers<S, Os>() && ...);
}
/// True if the strategy can gather the parts of the optimizers of a run.
template <class R>
consteval bool all_gathered() {
  using All = decltype(loop::Optimizers<R>::optimizers);
  return gathers_all<typename R::Strategy>(static_cast<All const*>(nullptr));
}

// Conditions on parts of a trainer whose state a checkpoint must hold.

/// The callback writes files from which a fit can resume.
template <class C>
concept LeavesFiles = loop::NamesLast<C> || loop::NamesHpc<C>;
/// True if one of the trainer's callbacks writes such files.
template <class... Cs>
inline constexpr bool any_leaves_files = (LeavesFiles<Cs> || ...);

/// A schedule that can be called as a constant computes its factor from the number of moves alone, and has no state.
template <class S>
concept FixedSchedule = !RateSetter<S> && requires(S const& schedule, long moves) {
  { schedule(moves) } -> std::convertible_to<double>;
};
/// True if the schedule can be saved, or has no state.
template <class T>
inline constexpr bool schedule_remembers = true;
template <class O, class S, bool Configured>
inline constexpr bool schedule_remembers<Scheduled<O, S, Configured>> =
    schedule_remembers<O> && (Remembers<S> || FixedSchedule<S>);
FULGURITE_OF_ENTRIES(all_schedules_remember, (schedule_remembers<Os> && ...))

// Rules about trainers that write checkpoints: every part with state must be able to save it.

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

// clang-format off
/// A strategy, a precision or an optimization policy.
template <class T>
struct PolicyStateRules {
  FULGURITE_JUDGE(PolicyStateRules) {
    FULGURITE_RULE("[fulgurite.policy.state] this policy has members that the trainer's checkpoints would forget: add "
                   "`void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`",
                   accepts<T>, Remembers<T>)
    return Fine{};
  }
};

/// The result of configure_optimizers.
template <class R>
struct OptimizerStateRules {
  using M = typename R::Model;
  FULGURITE_JUDGE(OptimizerStateRules) {
    FULGURITE_RULE("[fulgurite.resume.optimizer] an optimizer has no state(archive), so no fit could resume from the "
                   "trainer's checkpoints: save its moments there, or write `using Stateless = fulgurite::ByChoice`",
                   accepts<M>, loop::optimizers_resume<R>)
    FULGURITE_RULE("[fulgurite.schedule.state] a schedule changes when it is asked, and the trainer's checkpoints "
                   "would forget that: add `void state(auto& archive)`, or make its operator() const",
                   accepts<M>, all_schedules_remember<typename loop::AsList<Returned<R>>::type>)
    return Fine{};
  }
};

/// A loader that a fit trains or validates on.
template <class L>
struct LoaderStateRules {
  FULGURITE_JUDGE(LoaderStateRules) {
    FULGURITE_RULE("[fulgurite.data.state] the trainer's checkpoints would forget where this loader was: add "
                   "`resume_at(long batch)` or `state(auto& archive)`; or `using Stateless = fulgurite::ByChoice`, and "
                   "it is read from its beginning",
                   accepts<L>, loop::WrapsLoaders<L> || loop::loader_remembers<L>)
    FULGURITE_RULE("[fulgurite.data.state_of_part] the trainer's checkpoints would forget where one of these combined "
                   "loaders was: add `resume_at(long batch)` to it; or `using Stateless = fulgurite::ByChoice`, and it "
                   "is read from its beginning",
                   accepts<L>, loop::loader_remembers<L>)
    return Fine{};
  }
};
// clang-format on

/// Checks the parts of a trainer that writes a file on request.
template <class R>
consteval auto remembered_in_files() {
  FULGURITE_RULES(first(PolicyStateRules<typename R::Strategy>::judge(),
                        PolicyStateRules<typename R::Precision>::judge(),
                        PolicyStateRules<typename R::Optimization>::judge()))
  return OptimizerStateRules<R>::judge();
}
/// The same for a trainer with a callback that writes checkpoints.
template <class R, class... Cs>
consteval auto remembered() {
  if constexpr (!any_leaves_files<Cs...>) return Fine{};
  else return remembered_in_files<R>();
}
/// The same for the training loader.
template <class L, class... Cs>
consteval auto place_remembered() {
  if constexpr (!any_leaves_files<Cs...>) return Fine{};
  else return LoaderStateRules<L>::judge();
}

/// The same for a validation loader of a fit; the loaders of other calls are read once, and need no state.
template <bool InFit, class L, class... Cs>
consteval auto place_remembered_in() {
  if constexpr (!InFit) return Fine{};
  else return place_remembered<L, Cs...>();
}

/// Checks a name that must be callable. `As` is the type that the loops call it on: a schedule is const if the call
/// only reads it.
template <class Hook, class T, class As, class... Args>
consteval HookVerdict needed(HookId id) {
  if constexpr (!Hook::template named<T>) return {};
  else if constexpr (Hook::template accepts<As, Args...>) return {};
  else return {HookFault::parameters, id};
}
/// Checks a name that is optional. A `requires` after it may limit it to some types, so only a plain function counts; a
/// data member of that name, such as `double momentum`, is not meant as one.
template <class Hook, class T, class As, class... Args>
consteval HookVerdict optional_one(HookId id, bool is_function) {
  return is_function ? needed<Hook, T, As, Args...>(id) : HookVerdict{};
}
#define FULGURITE_NEEDED(NAME, AS, ...)                                                                                \
  needed<hook::FULGURITE_KIND::NAME, T, AS __VA_OPT__(, ) __VA_ARGS__>(FULGURITE_ID(NAME))
#define FULGURITE_OPTIONAL(NAME, AS, ...)                                                                              \
  optional_one<hook::FULGURITE_KIND::NAME, T, AS __VA_OPT__(, ) __VA_ARGS__>(FULGURITE_ID(NAME),                       \
                                                                             hook::FULGURITE_KIND::NAME::is_plain<T>)

/// A class of the user; LibTorch's optimizers have another interface, which the backend adapts.
template <class T>
concept OwnClass = Probeable<T> && !requires(T& o) { o.param_groups(); };
/// A class that is meant as an optimizer, since it has zero_grad.
template <class T>
concept MeantAsOptimizer = OwnClass<T> && hook::of_optimizer::zero_grad::named<T>;

/// A class that reports which gradients were received must have `set_received`, too, which restores this.
template <class T>
consteval HookVerdict restores_received() {
  if constexpr (!hook::of_optimizer::received::accepts<T>) return {};
  else if constexpr (!hook::of_optimizer::set_received::named<T>)
    return {HookFault::missing, HookId::of_optimizer_set_received};
  else if constexpr (!hook::of_optimizer::set_received::accepts<T, decltype(std::declval<T&>().received())>)
    return {HookFault::parameters, HookId::of_optimizer_set_received};
  else return {};
}

#define FULGURITE_KIND of_optimizer
#define FULGURITE_ID(NAME) HookId::of_optimizer_##NAME
/// Checks a user's own optimizer. Misspelt names come first, since zero_grad may be one.
template <class T>
consteval HookVerdict optimizer_functions() {
  if constexpr (!OwnClass<T>) return {};
  else if constexpr (constexpr auto near = misspelt_of_optimizer<T>(); bool(near)) return near;
  else if constexpr (!MeantAsOptimizer<T>) return {};
  else {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!hook::of_optimizer::NAME::template named<T>) return {HookFault::missing, HookId::of_optimizer_##NAME};
    FULGURITE_OPTIMIZER_FUNCTIONS(FULGURITE_ROW)
#undef FULGURITE_ROW
    constexpr bool with_closure = [] {
      if constexpr (FULGURITE_SAYS(T, bool, needs_closure)) return T::needs_closure;
      else return false;
    }();
    return worst(FULGURITE_NEEDED(zero_grad, T), with_closure ? HookVerdict{} : FULGURITE_NEEDED(step, T),
                 FULGURITE_NEEDED(parameters, T), FULGURITE_NEEDED(groups, T), FULGURITE_NEEDED(lr, T, std::size_t),
                 FULGURITE_NEEDED(set_lr, T, std::size_t, double), FULGURITE_OPTIONAL(momentum, T, std::size_t),
                 FULGURITE_OPTIONAL(set_momentum, T, std::size_t, double),
                 FULGURITE_OPTIONAL(weight_decay, T, std::size_t), FULGURITE_OPTIONAL(group_name, T, std::size_t),
                 FULGURITE_OPTIONAL(gradients_finite, T), FULGURITE_OPTIONAL(received, T), restores_received<T>());
  }
}
#undef FULGURITE_ID
#undef FULGURITE_KIND

// A schedule may have a number or a text of such a name, which is not a function of the table.
#define FULGURITE_SCHEDULE_CALLS(NAME, ...)                                                                            \
  (hook::of_schedule::NAME::named<__VA_ARGS__> &&                                                                      \
   !requires { requires std::is_object_v<std::remove_reference_t<decltype(__VA_ARGS__::NAME)>>; })
#define FULGURITE_KIND of_schedule
#define FULGURITE_ID(NAME) HookId::of_schedule_##NAME
/// Checks a schedule on an optimizer `O`, as loop/scheduler.hpp calls it.
template <class T, class O>
consteval HookVerdict schedule_functions() {
  if constexpr (!Probeable<T>) return {};
  else if constexpr (constexpr auto near = misspelt_of_schedule<T>(); bool(near)) return near;
  else {
    using Kept = T const;
    if constexpr (RateSetter<T>) {
      constexpr bool watches = FULGURITE_SCHEDULE_CALLS(metric, T) || FULGURITE_SCHEDULE_CALLS(observe, T);
      if constexpr (watches) {
        if constexpr (!hook::of_schedule::metric::named<T>) return {HookFault::missing, HookId::of_schedule_metric};
        if constexpr (!hook::of_schedule::strict::named<T>) return {HookFault::missing, HookId::of_schedule_strict};
        if constexpr (!hook::of_schedule::observe::named<T>) return {HookFault::missing, HookId::of_schedule_observe};
      } else if constexpr (!hook::of_schedule::move::named<T>) return {HookFault::missing, HookId::of_schedule_move};
      if constexpr (constexpr auto found = worst(FULGURITE_NEEDED(metric, Kept), FULGURITE_NEEDED(strict, Kept),
                                                 FULGURITE_NEEDED(observe, T, double, O), FULGURITE_NEEDED(move, T, O));
                    bool(found))
        return found;
    }
    return worst(FULGURITE_OPTIONAL(attach, T, O), FULGURITE_OPTIONAL(momentum, Kept, long),
                 FULGURITE_OPTIONAL(moves_momentum, Kept), FULGURITE_OPTIONAL(check, Kept));
  }
}
#undef FULGURITE_ID
#undef FULGURITE_KIND

/// Checks a function that a distributed strategy must have, and another may have. Arguments that the loops move from
/// are checked as rvalues, since the function may take `std::string&&`.
template <class Hook, class T, class... Args>
consteval HookVerdict of_several(HookId id) {
  if constexpr (!(T::is_distributed ? Hook::template named<T> : Hook::template is_plain<T>)) return {};
  else if constexpr (Hook::template accepts_given<T, Args...>) return {};
  else return {HookFault::parameters, id};
}
#define FULGURITE_KIND of_strategy
#define FULGURITE_ID(NAME) HookId::of_strategy_##NAME
#define FULGURITE_OF_SEVERAL(NAME, ...)                                                                                \
  of_several<hook::of_strategy::NAME, T __VA_OPT__(, ) __VA_ARGS__>(HookId::of_strategy_##NAME)
/// Checks a strategy as far as the trainer's types suffice; functions that receive a loss or a batch are checked once
/// that type is known. `gradients` only has to exist: its result is deduced, so checking the call would compile it, and
/// training_step with it.
template <class R, class T = typename R::Strategy>
consteval HookVerdict strategy_functions() {
  if constexpr (constexpr auto near = misspelt_of_strategy<T>(); bool(near)) return near;
  else {
    using M = typename R::Model;
    using P = typename R::Precision;
    using All = decltype(loop::Optimizers<R>::optimizers);
    using O = std::tuple_element_t<0, All>;
    return worst(FULGURITE_NEEDED(setup, T, M, P), FULGURITE_NEEDED(teardown, T, M), FULGURITE_NEEDED(device, T),
                 FULGURITE_NEEDED(is_on_gpu, T), FULGURITE_NEEDED(flush, T, O, double), FULGURITE_NEEDED(rank, T const),
                 of_several<hook::of_strategy::world, std::conditional_t<T::is_distributed, T const, T>>(
                     HookId::of_strategy_world),
                 FULGURITE_OF_SEVERAL(local_rank), FULGURITE_OF_SEVERAL(agree, bool),
                 FULGURITE_OF_SEVERAL(reduce, double, Reduce),
                 FULGURITE_OF_SEVERAL(reduce_in_place, std::span<double>, std::span<Reduce const>),
                 FULGURITE_OF_SEVERAL(reduce_gradients, std::span<double>, All&),
                 FULGURITE_OF_SEVERAL(broadcast, std::string), FULGURITE_OF_SEVERAL(gather, std::string),
                 FULGURITE_OF_SEVERAL(barrier, std::string_view), FULGURITE_NEEDED(matmul_scope, T),
                 FULGURITE_NEEDED(share_state, T, All), FULGURITE_NEEDED(whole_state, T, All),
                 FULGURITE_NEEDED(share_statistics, T, M), FULGURITE_OF_SEVERAL(abort, char const*));
  }
}
#undef FULGURITE_OF_SEVERAL
#undef FULGURITE_ID
#undef FULGURITE_KIND
#undef FULGURITE_NEEDED
#undef FULGURITE_OPTIONAL

/// The optimizer in an entry of configure_optimizers' result.
template <class T>
struct OptimizerOf : std::type_identity<T> {};
template <class O, class S, bool Configured>
struct OptimizerOf<Scheduled<O, S, Configured>> : OptimizerOf<O> {};
/// The verdict on the first optimizer with a function that cannot be called as the loops call it.
template <class... Os>
consteval auto optimizers_unfit(std::type_identity<OptimizerList<Os...>>) {
  return first(about<optimizer_functions<typename OptimizerOf<Os>::type>(), typename OptimizerOf<Os>::type>()...);
}
/// The verdict on an entry's schedule, with its optimizer.
template <class Backend, class T>
consteval auto schedule_unfit(std::type_identity<T>) {
  return Fine{};
}
template <class Backend, class O, class S, bool Configured>
consteval auto schedule_unfit(std::type_identity<Scheduled<O, S, Configured>>) {
  return first(schedule_unfit<Backend>(std::type_identity<O>{}),
               about<schedule_functions<S, typename loop::Entry<Backend, O>::Optimizer>(), S>());
}
/// The verdict on the first schedule with such a function.
template <class Backend, class... Os>
consteval auto schedules_unfit(std::type_identity<OptimizerList<Os...>>) {
  return first(schedule_unfit<Backend>(std::type_identity<Os>{})...);
}

/// False if a class that is meant as an optimizer does not declare `needs_closure` and `stable_gradients`.
template <class T>
inline constexpr bool says_constants = true;
template <MeantAsOptimizer T>
inline constexpr bool says_constants<T> =
    FULGURITE_SAYS(T, bool, needs_closure) && FULGURITE_SAYS(T, bool, stable_gradients);
/// True if a schedule has a function of schedules that set rates, and does not declare `sets_rates`.
template <class T>
inline constexpr bool sets_rates_unsaid = false;
template <class O, class S, bool Configured>
inline constexpr bool sets_rates_unsaid<Scheduled<O, S, Configured>> = sets_rates_unsaid<O>;
template <class O, class S, bool Configured>
  requires(Probeable<S> && !RateSetter<S>)
inline constexpr bool sets_rates_unsaid<Scheduled<O, S, Configured>> =
    sets_rates_unsaid<O> || FULGURITE_SCHEDULE_CALLS(move, S) || FULGURITE_SCHEDULE_CALLS(observe, S);
#undef FULGURITE_SCHEDULE_CALLS
FULGURITE_OF_ENTRIES(all_say_constants, (says_constants<typename OptimizerOf<Os>::type> && ...))
FULGURITE_OF_ENTRIES(any_sets_rates_unsaid, sets_rates_unsaid<Os> || ...)
#undef FULGURITE_OF_ENTRIES
#undef FULGURITE_OF_ENTRIES_BY

// clang-format off
template <class R>
struct OptimizerRules {
  using M = typename R::Model;
  using S = typename R::Strategy;
  FULGURITE_JUDGE(OptimizerRules) {
    FULGURITE_HOOKS(M, optimizers_asked<R>())
    FULGURITE_RULES(optimizers_unfit(std::type_identity<typename loop::AsList<Returned<R>>::type>{}))
    FULGURITE_RULE("[fulgurite.optimizer.constants] an optimizer of your own says how it is driven: write `static "
                   "constexpr bool needs_closure = false, stable_gradients = false` in it, or what holds of it",
                   accepts<M>, all_say_constants<typename loop::AsList<Returned<R>>::type>)
    FULGURITE_RULE("[fulgurite.model.optimizer_type] configure_optimizers must return by value an optimizer, "
                   "scheduled(optimizer, schedule), or optimizers(a, b)",
                   accepts<M>, returns_optimizers<R>())
    {
      using List = typename loop::AsList<Returned<R>>::type;
      FULGURITE_RULE("[fulgurite.model.schedule] the second argument of scheduled() is no schedule: pass one such as "
                     "schedule::Cosine{100}, or a function from a number of steps (or epochs) to a factor",
                     accepts<M>, all_scheduled_well<List>)
      FULGURITE_RULE("[fulgurite.optimizer.parameters] parameters() of an optimizer must return a list of the tensors "
                     "that it steps, such as std::vector<torch::Tensor>: clipping and checks of gradients read it",
                     accepts<M>, all_list_tensors<typename R::Backend, List>)
      FULGURITE_RULE("[fulgurite.schedule.whole_factor] this schedule returns a whole number, in which 1 / (1 + n) is "
                     "0: return a double, as 1.0 / (1.0 + n)",
                     accepts<M>, !any_whole_factor<List>)
      FULGURITE_RULE("[fulgurite.schedule.sets_rates] this schedule has move or observe, which are asked only of one "
                     "that sets the rates itself: add `static constexpr bool sets_rates = true`, or leave them out",
                     accepts<M>, !any_sets_rates_unsaid<List>)
      FULGURITE_RULES(schedules_unfit<typename R::Backend>(std::type_identity<List>{}))
      FULGURITE_RULES(TextRules<M, any_follows_text<List>>::judge())
      FULGURITE_RULE("[fulgurite.schedule.undeclared] a schedule follows a metric that the model does not declare: "
                     "add it to the model's `using Metrics = MetricList<...>`",
                     accepts<M>, all_follow_declared<typename R::Metrics, List>)
      FULGURITE_RULE("[fulgurite.metric.several] a schedule follows one number, and this metric's definition computes "
                     "several: declare a metric for the one that counts",
                     accepts<M>, !any_follows_several<List>)
      FULGURITE_RULE("[fulgurite.schedule.momentum] this schedule moves the momentum, too, and the optimizer has "
                     "none: write schedule::rate_only(schedule), or take another optimizer",
                     accepts<M>, all_have_momentum<typename R::Backend, List>)
      FULGURITE_RULE("[fulgurite.schedule.of_libtorch] torch_schedule and torch_plateau move an optimizer of LibTorch, "
                     "and this is none: take torch::optim::Adam, or a schedule of the library, such as "
                     "schedule::Step{10}",
                     accepts<M>, all_are_moved<typename R::Backend, List>)
      FULGURITE_RULE("[fulgurite.schedule.manual] Manual steps no schedule, so interval and frequency have no effect: "
                     "write scheduled(optimizer, schedule) and step it through ctx.lr_schedulers()",
                     accepts<M>, R::automatic || !any_configured<List>)
      FULGURITE_RULE("[fulgurite.model.one_optimizer] automatic optimization drives exactly one optimizer: return "
                     "one, or use Manual{}",
                     accepts<M>, !R::automatic || loop::Optimizers<R>::count == 1)
      // The optimizer would see gradients of different scales.
      FULGURITE_RULE("[fulgurite.policy.closure_needs_unscaled] an optimizer that evaluates the loss several times a "
                     "step cannot work with a scaled loss: use Float32 or Bf16Mixed",
                     accepts<M>, !R::Precision::scales_loss || !loop::Optimizers<R>::needs_closure)
      // The optimizer decides by the loss how often to evaluate it, and each process has a different loss.
      FULGURITE_RULE("[fulgurite.optimizer.closure_distributed] an optimizer that evaluates the loss several times a "
                     "step would do so differently in each process: take another optimizer, or train in one process",
                     accepts<M>, !S::is_distributed || !loop::Optimizers<R>::needs_closure)
      FULGURITE_RULE("[fulgurite.optimizer.state_in_parts] with this strategy each process keeps a part of the "
                     "optimizer's state, which this optimizer cannot part: use one of fulgurite::optim, such as "
                     "optim::AdamW, or DistributedDataParallel",
                     accepts<M>, !shards_state<S>() || all_states_in_parts<R>())
      FULGURITE_RULE("[fulgurite.pipeline.optimizer] each process has its part of what the optimizer keeps, and of "
                     "this one the parts cannot be brought together: use one of fulgurite::optim, such as "
                     "optim::AdamW",
                     accepts<M>, !splits_model<S>() || all_gathered<R>())
      // A replayed step always writes to the same gradients.
      FULGURITE_RULE("[fulgurite.capture.stable_gradients] a captured step needs gradients that stay where they are: "
                     "use an optimizer with stable_gradients, such as fulgurite::optim::Adam",
                     accepts<M>, !S::captures || all_gradients_stable<R>())
      return Fine{};
    }
  }
};
// clang-format on

}  // namespace fulgurite::judge
