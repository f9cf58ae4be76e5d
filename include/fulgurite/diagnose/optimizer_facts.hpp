#pragma once
// What rules ask of the answer of configure_optimizers.

#include <concepts>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/callback.hpp>
#include <fulgurite/concept/policy.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/optimizers.hpp>

namespace fulgurite::judge {

/// What an entry of configure_optimizers' answer consists of.
template <class T>
struct Parts {
  using Optimizer = T;
  static constexpr bool scheduled_well = true, whole_factor = false;
};
/// The factor of a schedule is a whole number or a truth, in which 1 / (1 + n) is 0.
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
/// What the tensor library can take as an optimizer.
template <class Backend, class T>
concept Optimizes = std::is_same_v<T, NoOptimizer> || requires(T& optimizer) {
  requires OptimizerLike<std::remove_cvref_t<decltype(Backend::adopt(std::move(optimizer)))>>;
};

/// The metric that a schedule follows is one of the model's.
template <class Metrics, class T>
inline constexpr bool follows_declared = true;
template <class Metrics, class O, class S, bool Configured>
inline constexpr bool follows_declared<Metrics, Scheduled<O, S, Configured>> = follows_declared<Metrics, O>;
template <class Metrics, class O, class S, bool Configured>
  requires requires { typename S::Watches; }
inline constexpr bool follows_declared<Metrics, Scheduled<O, S, Configured>> =
    follows_declared<Metrics, O> && watches_declared<Metrics, S>();
/// A schedule names its metric by a text, where a constant of the model is wanted.
template <class T>
inline constexpr bool follows_text = false;
template <class O, class S, bool Configured>
inline constexpr bool follows_text<Scheduled<O, S, Configured>> = follows_text<O> || watches_a_text<S>();
/// The same of one of the optimizers that were returned.
template <class List>
inline constexpr bool any_follows_text = false;
template <class... Os>
inline constexpr bool any_follows_text<OptimizerList<Os...>> = (follows_text<Os> || ...);
/// A schedule follows a metric that has several numbers.
template <class T>
inline constexpr bool follows_several = false;
template <class O, class S, bool Configured>
inline constexpr bool follows_several<Scheduled<O, S, Configured>> = follows_several<O> || watches_several<S>();
/// The same of one of the optimizers that were returned.
template <class List>
inline constexpr bool any_follows_several = false;
template <class... Os>
inline constexpr bool any_follows_several<OptimizerList<Os...>> = (follows_several<Os> || ...);
/// All schedules that follow a metric follow one of the model's.
template <class Metrics, class List>
inline constexpr bool all_follow_declared = false;
template <class Metrics, class... Os>
inline constexpr bool all_follow_declared<Metrics, OptimizerList<Os...>> = (follows_declared<Metrics, Os> && ...);

/// All that was returned are optimizers, and there is one at least.
template <class Backend, class List>
inline constexpr bool all_optimize = false;
template <class Backend, class... Os>
inline constexpr bool all_optimize<Backend, OptimizerList<Os...>> =
    sizeof...(Os) != 0 && (Optimizes<Backend, typename Parts<Os>::Optimizer> && ...);
/// Every schedule is one that an optimizer can have.
template <class List>
inline constexpr bool all_scheduled_well = false;
template <class... Os>
inline constexpr bool all_scheduled_well<OptimizerList<Os...>> = (Parts<Os>::scheduled_well && ...);
/// Any of their schedules has.
template <class List>
inline constexpr bool any_whole_factor = false;
template <class... Os>
inline constexpr bool any_whole_factor<OptimizerList<Os...>> = (Parts<Os>::whole_factor || ...);

/// `parameters()` of an optimizer lists tensors of the strategy's library, which clipping and checks of gradients read.
template <class Backend, class O>
concept ListsTensors = requires(std::remove_reference_t<decltype(std::declval<O&>().parameters())>& list) {
  requires std::derived_from<std::remove_cvref_t<decltype(*std::begin(list))>, typename Backend::Value>;
};
/// The same of all optimizers that were returned.
template <class Backend, class List>
inline constexpr bool all_list_tensors = false;
template <class Backend, class... Os>
inline constexpr bool all_list_tensors<Backend, OptimizerList<Os...>> =
    (ListsTensors<Backend, typename loop::Entry<Backend, Os>::Optimizer> && ...);

/// A schedule that moves a momentum is on an optimizer that has one.
template <class Backend, class T>
inline constexpr bool has_momentum_for = true;
template <class Backend, class O, class S, bool Configured>
inline constexpr bool has_momentum_for<Backend, Scheduled<O, S, Configured>> =
    has_momentum_for<Backend, O> && (!MovesMomentum<S> || HasMomentum<typename loop::Entry<Backend, O>::Optimizer>);
/// The same of all optimizers that were returned.
template <class Backend, class List>
inline constexpr bool all_have_momentum = false;
template <class Backend, class... Os>
inline constexpr bool all_have_momentum<Backend, OptimizerList<Os...>> = (has_momentum_for<Backend, Os> && ...);

/// Interval and frequency were given to a schedule.
template <class T>
inline constexpr bool is_configured = false;
template <class O, class S, bool Configured>
inline constexpr bool is_configured<Scheduled<O, S, Configured>> = Configured || is_configured<O>;
/// The same of one of the schedules that were returned.
template <class List>
inline constexpr bool any_configured = false;
template <class... Os>
inline constexpr bool any_configured<OptimizerList<Os...>> = (is_configured<Os> || ...);

/// What configure_optimizers returns.
template <class R>
using Returned = std::remove_cvref_t<decltype(loop::configure_optimizers<R>(std::declval<typename R::Model&>(),
                                                                            std::declval<Context<R, phase::Fit>&>()))>;

/// What it returns is moved into the run.
template <class R>
inline constexpr bool returns_by_value =
    std::is_same_v<Returned<R>, decltype(loop::configure_optimizers<R>(std::declval<typename R::Model&>(),
                                                                       std::declval<Context<R, phase::Fit>&>()))>;

/// It can be called.
template <class R>
consteval HookVerdict optimizers_asked() {
  using M = typename R::Model;
  if constexpr (hook::configure_optimizers::accepts<M, Context<R, phase::Fit>> ||
                hook::configure_optimizers::accepts<M>)
    return {};
  else return {HookFault::parameters, HookId::configure_optimizers};
}
/// It returns by value what can be driven.
template <class R>
consteval bool returns_optimizers() {
  if constexpr (std::is_void_v<Returned<R>>) return false;
  else return returns_by_value<R> && all_optimize<typename R::Backend, typename loop::AsList<Returned<R>>::type>;
}
/// The gradients of all optimizers stay at one place in memory.
template <class Os>
inline constexpr bool all_stable = false;
template <class... Os>
inline constexpr bool all_stable<std::tuple<Os...>> = (Os::stable_gradients && ...);
/// The same of the optimizers of a run.
template <class R>
consteval bool all_gradients_stable() {
  return all_stable<decltype(loop::Optimizers<R>::optimizers)>;
}
/// Each process can keep its own part of the state of all optimizers.
template <class Os>
inline constexpr bool all_in_parts = false;
template <class... Os>
inline constexpr bool all_in_parts<std::tuple<Os...>> = (state_in_parts<Os>() && ...);
/// The same of the optimizers of a run.
template <class R>
consteval bool all_states_in_parts() {
  return all_in_parts<decltype(loop::Optimizers<R>::optimizers)>;
}

/// The strategy can bring the parts of all these optimizers together.
template <class S, class... Os>
consteval bool gathers_all(std::tuple<Os...> const*) {
  return (gathers<S, Os>() && ...);
}
/// Whether the strategy can bring together what each process keeps of the optimizers.
template <class R>
consteval bool all_gathered() {
  using All = decltype(loop::Optimizers<R>::optimizers);
  return gathers_all<typename R::Strategy>(static_cast<All const*>(nullptr));
}

}  // namespace fulgurite::judge
