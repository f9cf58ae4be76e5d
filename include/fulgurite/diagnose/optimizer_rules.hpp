#pragma once
// Rules about what configure_optimizers returns: optimizers with or without schedules, and as many as the mode can
// drive.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <tuple>
#include <type_traits>

#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/optimizer_facts.hpp>
#include <fulgurite/diagnose/policy_functions.hpp>

namespace fulgurite::judge {

// clang-format off
template <class R>
struct OptimizerRules {
  using Rules = OptimizerRules;
  using M = typename R::Model;
  using S = typename R::Strategy;
  template <bool Says = false, class = void>
  static consteval auto judge() {
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
      FULGURITE_RULE("[fulgurite.schedule.manual] Manual steps no schedule, so interval and frequency have no effect: "
                     "write scheduled(optimizer, schedule) and step it through ctx.lr_schedulers()",
                     accepts<M>, R::automatic || !any_configured<List>)
      FULGURITE_RULE("[fulgurite.model.one_optimizer] automatic optimization drives exactly one optimizer: return "
                     "one, or use Manual{}",
                     accepts<M>, !R::automatic || loop::Optimizers<R>::count == 1)
      // It would see gradients of different scales.
      FULGURITE_RULE("[fulgurite.policy.closure_needs_unscaled] an optimizer that evaluates the loss several times a "
                     "step cannot work with a scaled loss: use Float32 or Bf16Mixed",
                     accepts<M>, !R::Precision::scales_loss || !loop::Optimizers<R>::needs_closure)
      // It looks at the loss to decide how often, and each process has another one.
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
      // A replayed step writes into the same gradients each time.
      FULGURITE_RULE("[fulgurite.capture.stable_gradients] a captured step needs gradients that stay where they are: "
                     "use an optimizer with stable_gradients, such as fulgurite::optim::Adam",
                     accepts<M>, !S::captures || all_gradients_stable<R>())
      return Fine{};
    }
  }
};
// clang-format on

}  // namespace fulgurite::judge
