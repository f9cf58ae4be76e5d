#pragma once
// What makes a strategy, a precision, an optimization, and the rules between them. Rules speak of traits, never of concrete policies.

#include <concepts>
#include <string_view>
#include <type_traits>

#include <fulgurite/concept/fault.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/known.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/policy/precision.hpp>

namespace fulgurite {

/// Declares where it computes and what it can do; `Backend` is everything the loops need of its tensor library.
template <class S>
concept StrategyLike = requires {
  typename S::Backend;
  typename S::Backend::Value;
  typename std::integral_constant<Known, S::on_gpu>;  // known while compiling, as those below
  typename std::bool_constant<S::is_distributed>;
  typename std::bool_constant<S::captures>;
};

/// Declares what happens to parameters, operators and the loss.
template <class P>
concept PrecisionLike = requires {
  typename std::integral_constant<Dtype, P::parameters>;
  typename std::integral_constant<Dtype, P::compute>;
  typename std::bool_constant<P::autocasts>;
  typename std::bool_constant<P::scales_loss>;
};

/// Declares who drives the optimizer; the trainer needs to know how.
template <class O>
concept OptimizationLike = requires { typename std::bool_constant<O::automatic>; } && (!O::automatic || requires(O& how) {
  { how.accumulate_grad_batches } -> std::convertible_to<int>;
  { how.clip } -> std::convertible_to<Clip>;
  { how.tbptt } -> std::convertible_to<int>;
});

/// What the loops ask of an optimizer, once the backend has adopted it.
template <class O>
concept OptimizerLike = requires(O& optimizer, double lr) {
  { O::needs_closure } -> std::convertible_to<bool>;
  { O::stable_gradients } -> std::convertible_to<bool>;
  optimizer.zero_grad();
  requires O::needs_closure || requires { optimizer.step(); };
  optimizer.parameters();
  { optimizer.groups() } -> std::convertible_to<std::size_t>;
  { optimizer.lr(std::size_t{}) } -> std::convertible_to<double>;
  optimizer.set_lr(std::size_t{}, lr);
};

/// Rules between policies. Each is one named type: what must hold; its sentence stands with the others in loop/refusals.hpp.
namespace rule {

/// A scaled loss needs a device on which float16 is fast and its overflow is noticed; at_run_time becomes an early exception.
struct fp16_needs_gpu {
  template <class S, class P>
  static constexpr bool holds = !P::scales_loss || S::on_gpu != Known::no;
};

/// An optimizer that evaluates its closure several times would see gradients of different scales.
struct closure_needs_unscaled {
  template <class P, bool NeedsClosure>
  static constexpr bool holds = !(P::scales_loss && NeedsClosure);
};

/// A replayed step writes into the same gradients each time.
struct capture_needs_stable_gradients {
  template <class S, bool Stable>
  static constexpr bool holds = !S::captures || Stable;
};

/// A step that runs the user's own optimizer calls cannot be recorded as one.
struct capture_needs_automatic {
  template <class S, class O>
  static constexpr bool holds = !S::captures || O::automatic;
};

/// A strategy may know precisions that it cannot compute in: `template <class P> static constexpr bool supports = ...`.
struct precision_support {
  template <class S, class P>
  static consteval bool holds() {
    if constexpr (requires { S::template supports<P>; }) return S::template supports<P>;
    else return true;
  }
};

}  // namespace rule

namespace judge {

/// What the loops call of every strategy, found by name as hooks are: most of it takes what only they know.
#define FULGURITE_STRATEGY_FUNCTIONS(ROW) \
  ROW(setup) ROW(teardown) ROW(device) ROW(is_on_gpu) ROW(move) ROW(gradients) ROW(backward) ROW(flush) ROW(rank)
struct StrategyDecoy {
#define FULGURITE_ROW(NAME) void NAME();
  FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW)
#undef FULGURITE_ROW
};
template <class S>
struct StrategyProbe : S, StrategyDecoy {};
template <class S>
consteval bool has_strategy_functions() {
#define FULGURITE_ROW(NAME) && !requires { &StrategyProbe<S>::NAME; }
  return true FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW);
#undef FULGURITE_ROW
}
#undef FULGURITE_STRATEGY_FUNCTIONS

/// From each policy alone to the rules between them.
template <class M, class S, class P, class O>
consteval Verdict policies() {
  if constexpr (!StrategyLike<S>) return Verdict{Fault::strategy}.by(strategy_at_fault);
  else if constexpr (std::is_final_v<S>) return Verdict{Fault::strategy_final}.by(strategy_at_fault);
  else if constexpr (!has_strategy_functions<S>()) return Verdict{Fault::strategy_functions}.by(strategy_at_fault);
  else if constexpr (says_too_late<S>()) return Verdict{Fault::trait}.by(strategy_at_fault);
  else if constexpr (!PrecisionLike<P>) return Verdict{Fault::precision}.by(precision_at_fault);
  else if constexpr (!OptimizationLike<O>) return Verdict{Fault::optimization}.by(optimization_at_fault);
  else if constexpr (needs_gpu<S>() && S::on_gpu == Known::no) return Verdict{Fault::strategy_needs_gpu}.by(strategy_at_fault);
  else if constexpr (!rule::precision_support::holds<S, P>()) return Verdict{Fault::precision_support}.by(strategy_at_fault);
  else if constexpr (!rule::fp16_needs_gpu::holds<S, P>) return Verdict{Fault::fp16_needs_gpu}.by(strategy_at_fault);
  else if constexpr (!rule::capture_needs_automatic::holds<S, O>) return Verdict{Fault::capture_needs_automatic}.by(strategy_at_fault);
  else return {};
}

}  // namespace judge
}  // namespace fulgurite
