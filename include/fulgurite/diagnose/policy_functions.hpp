#pragma once
// What is wrong with the functions of an optimizer, a schedule or a strategy: a name that is almost one of them, one
// that is missing, one that cannot be called as the loops call it.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/names.hpp>
#include <fulgurite/core/constant.hpp>
#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::judge {

/// A name that has to be callable. `As` is the type that the loops call it on: a schedule is const where it is only
/// asked.
template <class Hook, class T, class As, class... Args>
consteval HookVerdict needed(HookId id) {
  if constexpr (!Hook::template named<T>) return {};
  else if constexpr (Hook::template accepts<As, Args...>) return {};
  else return {HookFault::parameters, id};
}
/// The same of what may be missing. It may also be there for some types alone, by a `requires` behind it, so only a
/// plain function counts; and a class with a member for what it keeps, such as `double momentum`, means no function.
template <class Hook, class T, class As, class... Args>
consteval HookVerdict optional_one(HookId id, bool is_function) {
  return is_function ? needed<Hook, T, As, Args...>(id) : HookVerdict{};
}
#define FULGURITE_NEEDED(NAME, AS, ...)                                                                                \
  needed<hook::FULGURITE_KIND::NAME, T, AS __VA_OPT__(, ) __VA_ARGS__>(FULGURITE_ID(NAME))
#define FULGURITE_OPTIONAL(NAME, AS, ...)                                                                              \
  optional_one<hook::FULGURITE_KIND::NAME, T, AS __VA_OPT__(, ) __VA_ARGS__>(FULGURITE_ID(NAME),                       \
                                                                             hook::FULGURITE_KIND::NAME::is_plain<T>)

/// A class of the user's own; LibTorch's optimizers have another interface, to which the backend adapts.
template <class T>
concept OwnClass = Probeable<T> && !requires(T& o) { o.param_groups(); };
/// It says that it is an optimizer: whoever clears gradients is one.
template <class T>
concept MeantAsOptimizer = OwnClass<T> && hook::of_optimizer::zero_grad::named<T>;

/// Who says which gradients were received can be told so again.
template <class T>
consteval HookVerdict put_back() {
  if constexpr (!hook::of_optimizer::received::accepts<T>) return {};
  else if constexpr (!hook::of_optimizer::set_received::named<T>)
    return {HookFault::missing, HookId::of_optimizer_set_received};
  else if constexpr (!hook::of_optimizer::set_received::accepts<T, decltype(std::declval<T&>().received())>)
    return {HookFault::parameters, HookId::of_optimizer_set_received};
  else return {};
}

#define FULGURITE_KIND of_optimizer
#define FULGURITE_ID(NAME) HookId::of_optimizer_##NAME
/// An optimizer of the user's own. Misspelt names come first: zero_grad may be one.
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
                 FULGURITE_OPTIONAL(gradients_finite, T), FULGURITE_OPTIONAL(received, T), put_back<T>());
  }
}
#undef FULGURITE_ID
#undef FULGURITE_KIND

// A schedule may keep a number or a text under such a name, which is then no function of the table.
#define FULGURITE_SCHEDULE_CALLS(NAME, ...)                                                                            \
  (hook::of_schedule::NAME::named<__VA_ARGS__> &&                                                                      \
   !requires { requires std::is_object_v<std::remove_reference_t<decltype(__VA_ARGS__::NAME)>>; })
#define FULGURITE_KIND of_schedule
#define FULGURITE_ID(NAME) HookId::of_schedule_##NAME
/// A schedule on an optimizer `O`, as loop/scheduler.hpp calls it.
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

/// What one of several processes has to have, and what one that is alone may have: what the loops hand over for good
/// is asked for as it is called, since `std::string&&` may stand there.
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
/// What the trainer's types are enough to ask of a strategy; what receives a loss or a batch is asked where that is
/// known. Of `gradients` it is asked only whether it is there: its result is deduced, so that asking how it can be
/// called would compile it, and training_step with it.
template <class R, class T = typename R::Strategy>
consteval HookVerdict strategy_functions() {
  if constexpr (constexpr auto near = misspelt_of_strategy<T>(); bool(near)) return near;
  else {
    using M = typename R::Model;
    using P = typename R::Precision;
    using All = decltype(loop::Optimizers<R>::optimizers);
    using O = std::tuple_element_t<0, All>;
    return worst(FULGURITE_NEEDED(setup, T, M, P), FULGURITE_NEEDED(teardown, T, M), FULGURITE_NEEDED(device, T),
                 FULGURITE_NEEDED(is_on_gpu, T), FULGURITE_NEEDED(flush, T, O, double), FULGURITE_NEEDED(rank, T),
                 FULGURITE_OF_SEVERAL(world), FULGURITE_OF_SEVERAL(local_rank), FULGURITE_OF_SEVERAL(agree, bool),
                 FULGURITE_OF_SEVERAL(reduce, double, Reduce),
                 FULGURITE_OF_SEVERAL(reduce_in_place, std::span<double>, std::span<Reduce const>),
                 FULGURITE_OF_SEVERAL(reduce_gradients, std::span<double>, All&),
                 FULGURITE_OF_SEVERAL(broadcast, std::string), FULGURITE_OF_SEVERAL(gather, std::string),
                 FULGURITE_OF_SEVERAL(barrier, std::string_view), FULGURITE_OPTIONAL(matmul_scope, T),
                 FULGURITE_OPTIONAL(share_state, T, All), FULGURITE_OPTIONAL(whole_state, T, All),
                 FULGURITE_OPTIONAL(share_statistics, T, M));
  }
}
#undef FULGURITE_OF_SEVERAL
#undef FULGURITE_ID
#undef FULGURITE_KIND
#undef FULGURITE_NEEDED
#undef FULGURITE_OPTIONAL

/// What configure_optimizers returned, entry by entry: the first optimizer that is unfit, and whose it is.
template <class T>
struct OptimizerOf : std::type_identity<T> {};
template <class O, class S, bool Configured>
struct OptimizerOf<Scheduled<O, S, Configured>> : OptimizerOf<O> {};
/// The first optimizer that has a function which cannot be called as the loops call it.
template <class... Os>
consteval auto optimizers_unfit(std::type_identity<OptimizerList<Os...>>) {
  return first(about<optimizer_functions<typename OptimizerOf<Os>::type>(), typename OptimizerOf<Os>::type>()...);
}
/// The schedules among them, on their optimizers.
template <class Backend, class T>
consteval auto schedule_unfit(std::type_identity<T>) {
  return Fine{};
}
template <class Backend, class O, class S, bool Configured>
consteval auto schedule_unfit(std::type_identity<Scheduled<O, S, Configured>>) {
  return first(schedule_unfit<Backend>(std::type_identity<O>{}),
               about<schedule_functions<S, typename loop::Entry<Backend, O>::Optimizer>(), S>());
}
/// The first schedule that has such a function.
template <class Backend, class... Os>
consteval auto schedules_unfit(std::type_identity<OptimizerList<Os...>>) {
  return first(schedule_unfit<Backend>(std::type_identity<Os>{})...);
}

/// A name that is nothing without the constant that says so.
template <class T>
inline constexpr bool says_constants = true;
template <MeantAsOptimizer T>
inline constexpr bool says_constants<T> =
    FULGURITE_SAYS(T, bool, needs_closure) && FULGURITE_SAYS(T, bool, stable_gradients);
/// All optimizers say the constants that their functions need.
template <class List>
inline constexpr bool all_say_constants = true;
template <class... Os>
inline constexpr bool all_say_constants<OptimizerList<Os...>> = (says_constants<typename OptimizerOf<Os>::type> && ...);
/// A schedule has the function of one that sets rates, and does not say `sets_rates`.
template <class T>
inline constexpr bool sets_rates_unsaid = false;
template <class O, class S, bool Configured>
inline constexpr bool sets_rates_unsaid<Scheduled<O, S, Configured>> = sets_rates_unsaid<O>;
template <class O, class S, bool Configured>
  requires(Probeable<S> && !RateSetter<S>)
inline constexpr bool sets_rates_unsaid<Scheduled<O, S, Configured>> =
    sets_rates_unsaid<O> || FULGURITE_SCHEDULE_CALLS(move, S) || FULGURITE_SCHEDULE_CALLS(observe, S);
#undef FULGURITE_SCHEDULE_CALLS
/// The same of one of the optimizers that were returned.
template <class List>
inline constexpr bool any_sets_rates_unsaid = false;
template <class... Os>
inline constexpr bool any_sets_rates_unsaid<OptimizerList<Os...>> = (sets_rates_unsaid<Os> || ...);

}  // namespace fulgurite::judge
