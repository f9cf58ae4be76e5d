#pragma once
// Rules about callbacks: each for itself, in the run that it is put into, and all together.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <fulgurite/concept/callback.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/foreign_hooks.hpp>
#include <fulgurite/diagnose/policy_rules.hpp>

namespace fulgurite::judge {

/// Several things in one: an array, a vector, a tuple.
template <class T>
consteval bool is_list() {
  return requires(T& list) { list.begin(); } || requires { std::tuple_size<T>::value; };
}
/// It can be called, as a lambda can, and hears nothing. Asked by name, since a generic operator() has no address:
/// beside a second one the name is ambiguous.
template <class T>
consteval bool is_bare_function() {
  if constexpr (!Probeable<T> || has_any_hook<T>()) return false;
  else {
    struct Call {
      void operator()();
    };
    struct Both : T, Call {};
    return !requires { &Both::operator(); };
  }
}

// clang-format off
/// What is watched is named by the model's constant.
template <class Subject, bool WatchesText>
struct TextRules {
  using Rules = TextRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.metric.text] a metric is watched by the model's constant, not by its name as a text, "
                   "and what ctx.log_dynamic logs cannot be watched: declare `static constexpr Metric<\"val/loss\"> "
                   "val_loss{}` and pass Net::val_loss",
                   accepts<Subject>, !WatchesText)
    return Fine{};
  }
};

/// One callback, apart from the parameters of its hooks. `NoneMisspelt`: it is known already that no name of it is a
/// near miss.
template <class Metrics, bool NoneMisspelt, bool HasLogger, class T, class... All>
struct CallbackRules {
  using Rules = CallbackRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.callback.class] a callback is an object with hooks, given by value: pass no pointer, "
                   "number or text",
                   accepts<T>, std::is_class_v<T> && !points<T>)
    FULGURITE_RULE("[fulgurite.callback.final] the hooks of a final class cannot be seen: remove `final` from the "
                   "callback",
                   accepts<T>, !std::is_final_v<T>)
    FULGURITE_RULE("[fulgurite.callback.no_metric] this callback watches a metric, and none is given: pass the model's "
                   "constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}",
                   accepts<T>, !lacks_metric<T>())
    FULGURITE_RULE("[fulgurite.callback.lambda_event] a LambdaCallback hears events, and this is none: steps and "
                   "overrides are functions of the model",
                   accepts<T>, !hears_no_event<T>())
    FULGURITE_RULE("[fulgurite.callback.lambda_twice] two functions of a LambdaCallback hear the same event: make one "
                   "of them, or give a second LambdaCallback",
                   accepts<T>, !hears_twice<T>())
    FULGURITE_RULE("[fulgurite.callback.twice] two callbacks have the same type: leave one out, or derive a type for "
                   "the second",
                   accepts<T>, times<T, All...> < 2)
    FULGURITE_RULE("[fulgurite.callback.hooks] the callback's `Hooks` is no list of hooks: write `using Hooks = "
                   "Implements<hook::on_train_start>`",
                   accepts<T>, hooks_well_listed<T>())
    FULGURITE_HOOKS(T, broken_promise<T>())
    FULGURITE_HOOKS(T, misspelt<T, NoneMisspelt>())
    FULGURITE_HOOKS(T, foreign_to_callback<T>())
    FULGURITE_RULE("[fulgurite.callback.list] callbacks are given one by one, each with its own type, and this is a "
                   "list: make_trainer<Net>(options, EarlyStopping{...}, ModelCheckpoint{...})",
                   accepts<T>, !is_list<T>() || has_any_hook<T>())
    FULGURITE_RULE("[fulgurite.callback.function] a function alone hears no event: name one, "
                   "LambdaCallback{on<hook::on_train_start>(f)}",
                   accepts<T>, !is_bare_function<T>())
    FULGURITE_RULE("[fulgurite.callback.inert] this callback has no hook, so it would never be called: give it one, "
                   "such as on_train_batch_end",
                   accepts<T>, has_any_hook<T>())
    FULGURITE_RULES(TraitRules<T, !says_too_late<T>()>::judge())
    FULGURITE_RULE("[fulgurite.callback.state] this callback has members that a checkpoint would forget: add `void "
                   "state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`",
                   accepts<T>, Remembers<T>)
    FULGURITE_RULE("[fulgurite.callback.needs_logger] a callback writes to the loggers, and there is none: add "
                   "CSVLogger{}",
                   accepts<T>, !needs_logger<T>() || HasLogger)
    FULGURITE_RULE("[fulgurite.callback.watches] the callback's `Watches` is no list of metrics: write `using Watches "
                   "= MetricTypes<M>`, where M is the type of a metric",
                   accepts<T>, watches_well_listed<T>())
    FULGURITE_RULES(TextRules<T, watches_a_text<T>()>::judge())
    FULGURITE_RULE("[fulgurite.metric.unwatched] a callback watches a metric that the model does not declare: add it "
                   "to the model's `using Metrics = MetricList<...>`",
                   accepts<T>, watches_declared<Metrics, T>())
    FULGURITE_RULE("[fulgurite.metric.several] a callback watches one number, and this metric's definition computes "
                   "several: declare a metric for the one that counts",
                   accepts<T>, !watches_several<T>())
    return Fine{};
  }
};

/// What one callback needs of the run that it is put into, which has `Optimizers` of them.
template <class R, std::size_t Optimizers, class T>
struct NeedRules {
  using Rules = NeedRules;
  using S = typename R::Strategy;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.callback.needs_automatic] this callback changes the accumulation window or the "
                   "schedule, which Manual leaves to training_step: use Automatic{}, or leave it out",
                   accepts<T>, R::automatic || !needs_automatic<T>())
    FULGURITE_RULE("[fulgurite.callback.needs_one_optimizer] a callback works with one optimizer, and "
                   "configure_optimizers returns several: return one, or leave the callback out",
                   accepts<T>, Optimizers == 1 || !needs_one_optimizer<T>())
    FULGURITE_RULE("[fulgurite.callback.needs_backbone] a callback freezes model.backbone, and the model has no such "
                   "public member: name that part of it `backbone`",
                   accepts<T>, !needs_backbone<T>() || requires(typename R::Model& model) { model.backbone; })
    FULGURITE_RULE("[fulgurite.callback.single_process] this callback tries out settings, and each process would find "
                   "others: run it with SingleDevice, then train with what it found",
                   accepts<T>, !needs_single_process<T>() || !S::is_distributed)
    FULGURITE_RULE("[fulgurite.policy.fixed_window] this strategy keeps one accumulation window for a whole fit, and "
                   "a callback changes it: use Automatic{.accumulate_grad_batches = k}",
                   accepts<T>, !varies_window<T>() || !fixed_window<S>())
    FULGURITE_RULE("[fulgurite.policy.sharded_average] a callback averages the weights, and with this strategy no "
                   "process has all of them: leave the callback out, or use another strategy",
                   accepts<T>, !replaces_weights<T>() || !shards_parameters<S>())
    FULGURITE_RULE("[fulgurite.pipeline.callback] a callback reads the weights or gradients of the whole model, and "
                   "with this strategy each process has those of its own stages: leave the callback out, or use "
                   "DistributedDataParallel",
                   accepts<T>, !reads_whole_model<T>() || !splits_model<S>())
    return Fine{};
  }
};

/// The position, counted from 0, of the second that is true; their number where there is none.
template <class... Bools>
consteval std::size_t second(Bools... is) {
  std::size_t at = 0, count = 0, found = sizeof...(Bools);
  ((count += is, found = is && count == 2 ? at : found, ++at), ...);
  return found;
}

/// Callbacks that would be in each other's way.
template <class... Cs>
struct TogetherRules {
  using Rules = TogetherRules;
  template <std::size_t Position>
  using At = std::tuple_element_t<Position, std::tuple<Cs...>>;
  static constexpr std::size_t none = sizeof...(Cs);
  static constexpr std::size_t average = second(replaces_weights<Cs>()...);
  static constexpr std::size_t rate = second(finds_rate<Cs>()...);
  static constexpr std::size_t size = second(finds_batch_size<Cs>()...);
  static constexpr std::size_t bar = second((order_of<Cs>() == Order::progress)...);
  static constexpr std::size_t summary = second((order_of<Cs>() == Order::summary)...);
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.callback.one_average] two callbacks put an average in the place of the weights, and "
                   "would undo each other's work: keep one",
                   accepts<At<average>>, average == none)
    FULGURITE_RULE("[fulgurite.callback.one_bar] two callbacks draw in the same place (two progress bars, or two "
                   "summaries): keep one",
                   accepts<At<bar != none ? bar : summary>>, bar == none && summary == none)
    FULGURITE_RULE("[fulgurite.callback.one_search] two callbacks search for the same (two learning rates, or two "
                   "batch sizes), and the second would undo what the first one has found: keep one",
                   accepts<At<rate != none ? rate : size>>, rate == none && size == none)
    return Fine{};
  }
};
// clang-format on

}  // namespace fulgurite::judge
