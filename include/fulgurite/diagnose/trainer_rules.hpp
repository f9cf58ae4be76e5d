#pragma once
// The verdict on a whole trainer: everything that does not depend on the batch.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <type_traits>

#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/callback_rules.hpp>
#include <fulgurite/diagnose/foreign_hooks.hpp>
#include <fulgurite/diagnose/model_rules.hpp>
#include <fulgurite/diagnose/optimizer_rules.hpp>
#include <fulgurite/diagnose/policy_functions.hpp>
#include <fulgurite/diagnose/policy_rules.hpp>
#include <fulgurite/diagnose/state_rules.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/recurrent.hpp>

namespace fulgurite::judge {

// clang-format off
/// A base class that the backend must see, and that the model inherits privately.
template <class R>
struct BaseRules {
  using Rules = BaseRules;
  using M = typename R::Model;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.model.private_base] the model inherits torch::nn::Module privately, so its parameters "
                   "are out of reach: write `: public torch::nn::Module`, or `struct`",
                   accepts<M>, !hides_base<typename R::Backend, M>())
    FULGURITE_RULE("[fulgurite.pipeline.stages] this strategy runs a part of the model in each process, and the model "
                   "does not name its parts: add `auto& stages()` that returns its torch::nn::Sequential, Chain, or "
                   "tuple of modules, and call through_stages(*this, x) in its steps",
                   accepts<M>, !splits_model<typename R::Strategy>() || splits<typename R::Strategy, M>())
    return Fine{};
  }
};

/// What a strategy that captures would replay: tensor operations, and none of the calls that led to them.
template <class R, class... Cs>
struct CaptureRules {
  using Rules = CaptureRules;
  using M = typename R::Model;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.capture.hidden] a captured step cannot take the state that slices of a batch hand on: "
                   "use the strategy without Captured, or remove `using Hidden`",
                   accepts<M>, !Recurrent<M>)
    FULGURITE_RULES(first(about<replayed<M>(), M>(), about<replayed<Cs>(), Cs>()...))
    // It receives the loss already multiplied, by a number that the scaler has read.
    FULGURITE_RULE("[fulgurite.capture.scale] the model's own backward receives the loss times a scale that changes, "
                   "and a captured step would keep the first: use Float32 or Bf16Mixed, or leave backward out",
                   accepts<M>, !R::Precision::scales_loss || !hook::backward::named<M>)
    return Fine{};
  }
};

/// What belongs to truncated back-propagation stands together, and a strategy that splits the model finds where.
template <class R>
struct RecurrenceRules {
  using Rules = RecurrenceRules;
  using M = typename R::Model;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.model.hidden_manual] Manual does not cut batches along time, so `using Hidden` has no "
                   "effect: slice them in training_step and remove it, or use Automatic{.tbptt = k}",
                   accepts<M>, !Recurrent<M> || R::automatic)
    // Each slice is a step, in which the processes meet.
    FULGURITE_RULE("[fulgurite.model.hidden_distributed] the batches of several processes may be of different length, "
                   "and a model with Hidden steps once for each slice of one: train in one process, or remove `using "
                   "Hidden`",
                   accepts<M>, !Recurrent<M> || !R::Strategy::is_distributed)
    FULGURITE_RULE("[fulgurite.model.hidden_split] tbptt_split_batch is only called for a model that carries a state "
                   "from slice to slice: add `using Hidden = ...`",
                   accepts<M>, Recurrent<M> || !hook::tbptt_split_batch::named<M>)
    FULGURITE_RULE("[fulgurite.model.configure_model] this strategy splits the model where it is made: add `void "
                   "configure_model(auto& ctx)`",
                   accepts<M>, !needs_configure_model<typename R::Strategy>() || hook::configure_model::named<M>)
    return Fine{};
  }
};
// clang-format on

template <class R, class... Cs>
consteval auto captured() {
  if constexpr (R::Strategy::captures) return CaptureRules<R, Cs...>::judge();
  else return Fine{};
}

/// Policies, model and callbacks, before a context exists.
template <class M, class S, class P, class O, class... Cs>
consteval auto parts() {
  FULGURITE_RULES(PolicyRules<S, P, O>::judge()) {
    constexpr bool fine = none_misspelt<M, S, Cs...>();
    constexpr bool logs = (takes_rows<Cs>() || ...);
    FULGURITE_RULES(ModelRules<M, fine>::judge())
    return first(CallbackRules<typename MetricsOf<M>::type, fine, logs, Cs, Cs...>::judge()...);
  }
}

/// The verdict on a trainer. `Trainer<Net>` alone, whose other types make_trainer deduces, lacks arguments.
template <class M, class S, class P, class O, class... Cs>
consteval auto trainer() {
  FULGURITE_RULES(ModelNameRules<M>::judge())
  FULGURITE_RULES(ArgumentRules<M, !std::is_same_v<O, refusal::Nothing>>::judge())
  FULGURITE_RULES(parts<M, S, P, O, Cs...>()) {
    using R = Run<M, S, P, O>;
    FULGURITE_RULES(BaseRules<R>::judge())
    FULGURITE_RULES(OptimizerRules<R>::judge())
    // Before the hooks: finding out what they return compiles their bodies, which may ask for what is not there.
    FULGURITE_RULES(first(NeedRules<R, loop::Optimizers<R>::count, Cs>::judge()...))
    FULGURITE_RULES(TogetherRules<Cs...>::judge())
    FULGURITE_RULES(remembered<R, Cs...>())
    FULGURITE_RULES(captured<R, Cs...>())
    FULGURITE_HOOKS(M, plain_hooks<R, M>())
    FULGURITE_RULES(RecurrenceRules<R>::judge())
    FULGURITE_HOOKS(M, worst(data_calls<M>(), settings_calls<M>()))
    FULGURITE_RULES(first(
        about<worst(plain_hooks<R, Cs>(), logger_calls<Cs>(), callback_calls<R, Cs>(), file_calls<Cs>()), Cs>()...))
    return about<worst(misspelt<S, none_misspelt<M, S, Cs...>()>(), foreign_to_strategy<S>(), plain_hooks<R, S>(),
                       strategy_calls<S>(), strategy_functions<R>()),
                 S>();
  }
}
template <class M, class S, class P, class O, class... Cs>
using VerdictOn = decltype(trainer<M, S, P, O, Cs...>());

}  // namespace fulgurite::judge
