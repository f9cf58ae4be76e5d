#pragma once
// What makes a strategy, a precision, an optimization, an optimizer.

#include <concepts>
#include <type_traits>

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
concept OptimizationLike =
    requires { typename std::bool_constant<O::automatic>; } && (!O::automatic || requires(O& how) {
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
  requires bool(O::needs_closure) || requires { optimizer.step(); };
  optimizer.parameters();
  { optimizer.groups() } -> std::convertible_to<std::size_t>;
  { optimizer.lr(std::size_t{}) } -> std::convertible_to<double>;
  optimizer.set_lr(std::size_t{}, lr);
};

}  // namespace fulgurite
