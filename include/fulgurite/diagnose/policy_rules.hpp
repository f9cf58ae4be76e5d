#pragma once
// Rules about each policy alone and between them. They speak of traits, never of concrete policies.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <type_traits>

#include <fulgurite/concept/policy.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/foreign_hooks.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/hook/policy_hooks.hpp>

namespace fulgurite::judge {

/// The first of the functions that every strategy has, or every one of several processes, and this one lacks, by name:
/// most of them take what only the loops know.
template <class S>
consteval HookVerdict strategy_lacks() {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if constexpr (!hook::of_strategy::NAME::named<S>) return {HookFault::missing, HookId::of_strategy_##NAME};
  FULGURITE_STRATEGY_FUNCTIONS(FULGURITE_ROW)
  if constexpr (S::is_distributed) { FULGURITE_DISTRIBUTED_FUNCTIONS(FULGURITE_ROW) }
#undef FULGURITE_ROW
  return {};
}

// clang-format off
/// A trait that a run would know, and a rule cannot.
template <class Subject, bool SaysInTime>
struct TraitRules {
  using Rules = TraitRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while "
                   "compiling, and here it is a variable: write `static constexpr bool`",
                   accepts<Subject>, SaysInTime)
    return Fine{};
  }
};

/// From each policy alone to the rules between them.
template <class S, class P, class O>
struct PolicyRules {
  using Rules = PolicyRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.policy.strategy] make_trainer's second argument is no strategy: pass one such as "
                   "SingleDevice{cpu}; your own declares Backend and the constants on_gpu, is_distributed, captures",
                   accepts<S>, StrategyLike<S>)
    FULGURITE_RULE("[fulgurite.policy.final] the hooks of a final class cannot be seen: remove `final` from the "
                   "strategy",
                   accepts<S>, !std::is_final_v<S>)
    FULGURITE_HOOKS(S, strategy_lacks<S>())
    FULGURITE_RULES(TraitRules<S, !strategy_says_too_late<S>() && !supports_too_late<S, P>()>::judge())
    FULGURITE_RULE("[fulgurite.policy.precision] make_trainer's third argument is no precision: pass one such as "
                   "Float32{}; your own declares the constants parameters, compute, autocasts, scales_loss",
                   accepts<P>, PrecisionLike<P>)
    FULGURITE_RULE("[fulgurite.policy.precision_function] nothing is called on a precision, whose constants say all, "
                   "and this one has a function that is called, or nearly so, as a hook: move it to the model or a "
                   "callback, or to a strategy of your own",
                   accepts<P>, !has_any_function<P>())
    FULGURITE_RULE("[fulgurite.policy.optimization] make_trainer's fourth argument is no optimization: pass "
                   "Automatic{} or Manual{}",
                   accepts<O>, OptimizationLike<O>)
    FULGURITE_RULE("[fulgurite.policy.strategy_needs_gpu] this strategy runs on GPUs alone: give it a CUDA device, or "
                   "use SingleDevice{cpu}",
                   accepts<S>, !needs_gpu<S>() || S::on_gpu != Known::no)
    // `template <class P> static constexpr bool supports = ...` in the strategy.
    FULGURITE_RULE("[fulgurite.policy.precision_support] this strategy cannot compute in that precision: use one that "
                   "it supports, such as Float32{}",
                   accepts<S>, supports<S, P>())
    // Float16 is fast, and its overflow noticed, on GPUs alone; at_run_time becomes an early exception.
    FULGURITE_RULE("[fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or "
                   "a CUDA device",
                   accepts<S>, !P::scales_loss || S::on_gpu != Known::no)
    FULGURITE_RULE("[fulgurite.pipeline.automatic] this strategy takes the model apart, so forward and backward take "
                   "turns and no step drives them by hand: use Automatic{}, or another strategy",
                   accepts<S>, !splits_model<S>() || O::automatic)
    // A step that runs the user's own optimizer calls cannot be recorded as one.
    FULGURITE_RULE("[fulgurite.capture.automatic] only automatic optimization can be captured: use Automatic{}, or "
                   "the strategy without Captured",
                   accepts<S>, !S::captures || O::automatic)
    return Fine{};
  }
};
// clang-format on

}  // namespace fulgurite::judge
