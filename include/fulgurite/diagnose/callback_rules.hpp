#pragma once
// Rules about callbacks: each alone, each in the run that it belongs to, and all together.

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/diagnose/rule.hpp>
#include <fulgurite/diagnose/trainer_hooks.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/metric/metric.hpp>

// Rules about each policy alone and between policies. They use traits, never concrete policies.

#pragma GCC system_header  // shortens g++'s output: it omits the trace through a row's macro

namespace fulgurite::judge {

/// The first of the functions that every strategy, or every distributed strategy, must have and this one lacks. Only
/// names are checked, since most of these functions take types that only the loops know.
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
/// A trait must be a constant, not a variable that is known only at run time.
template <class Subject, bool SaysInTime>
struct TraitRules {
  FULGURITE_JUDGE(TraitRules) {
    FULGURITE_RULE("[fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while "
                   "compiling, and here it is a variable: write `static constexpr bool`",
                   accepts<Subject>, SaysInTime)
    return Fine{};
  }
};

/// The rules for each policy alone, then those between them.
template <class S, class P, class O>
struct PolicyRules {
  FULGURITE_JUDGE(PolicyRules) {
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
    // A strategy declares `template <class P> static constexpr bool supports = ...`.
    FULGURITE_RULE("[fulgurite.policy.precision_support] this strategy cannot compute in that precision: use one that "
                   "it supports, such as Float32{}",
                   accepts<S>, supports<S, P>())
    // Only on GPUs Float16 is fast and its overflow is detected; at_run_time becomes an exception before the run.
    FULGURITE_RULE("[fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or "
                   "a CUDA device",
                   accepts<S>, !P::scales_loss || S::on_gpu != Known::no)
    FULGURITE_RULE("[fulgurite.pipeline.automatic] this strategy takes the model apart, so forward and backward take "
                   "turns and no step drives them by hand: use Automatic{}, or another strategy",
                   accepts<S>, !splits_model<S>() || O::automatic)
    // The update stands in the middle of the recorded step: such a strategy has to let the trainer act there.
    FULGURITE_RULE("[fulgurite.capture.automatic] steps of manual optimization are replayed by "
                   "Captured{SingleDevice{...}} alone: use Automatic{}, or this strategy without capturing",
                   accepts<S>, !S::captures || O::automatic || (ChecksReplays<S> && !S::is_distributed))
    return Fine{};
  }
};
// clang-format on

// Rules about a model: from the class itself to its steps. trainer_rules.hpp checks optimizers and hooks with the
// contexts that they receive.

// clang-format off
/// `NoneMisspelt`: it was checked before that no name in the model is a near miss.
template <class M, bool NoneMisspelt>
struct ModelRules {
  FULGURITE_JUDGE(ModelRules) {
    FULGURITE_RULE("[fulgurite.model.class] make_trainer<Model> needs a class that is defined before this call: no "
                   "pointer, reference or const",
                   accepts<M>, std::is_class_v<M> && !std::is_const_v<M> && requires { sizeof(M); })
    FULGURITE_RULE("[fulgurite.model.holder] the model's type is a pointer or a holder: name the class behind it, "
                   "such as NetImpl, and pass *net",
                   accepts<M>, !points<M>)
    FULGURITE_RULE("[fulgurite.model.final] the hooks of a final class cannot be seen: remove `final` from the model",
                   accepts<M>, !std::is_final_v<M>)
    FULGURITE_RULE("[fulgurite.model.metrics] the model's Metrics is no list of its metrics: write `using Metrics = "
                   "MetricList<loss>` after `static constexpr Metric<\"loss\"> loss{}`",
                   accepts<M>, is_metric_list<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.twice] two entries of the model's Metrics have the same name, or one has the "
                   "name of another's rows, such as loss_epoch: give each metric its own",
                   accepts<M>, !has_metric_twice<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.unreported] this metric is reported neither per step nor per epoch: remove one "
                   "`Report::no`, or say `.logger = false` if only callbacks read it",
                   accepts<M>, !has_unreported<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.one_number] this metric's definition computes no single number, so it cannot be "
                   "reported: name its numbers by each(value, f), or keep a metric::Meter of it in the model",
                   accepts<M>, !has_no_number<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.several] the numbers of this metric go to loggers and results alone, once an "
                   "evaluation: leave .prog_bar, .logger, .on_step and .on_epoch out of its declaration",
                   accepts<M>, !has_several_shown<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.how] a metric is declared with options that its definition refuses: fault() of "
                   "its `.how` says which, such as .num_classes below 2",
                   accepts<M>, !has_unsound<typename MetricsOf<M>::type>)
    FULGURITE_RULE(FULGURITE_SENTENCE_METRIC_REDUCE, accepts<M>, !has_mean_of_sums<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.name] a metric's name must not contain \"/dataloader_idx_\", which is added for "
                   "several loaders: choose another name",
                   accepts<M>, !has_loader_suffix<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.name] a metric's name must not be \"epoch\", which is a column of every row of "
                   "the log: choose another name",
                   accepts<M>, !has_column_of_rows<typename MetricsOf<M>::type>)
    FULGURITE_HOOKS(M, misspelt<M, NoneMisspelt>())
    FULGURITE_RULES(TraitRules<M, !says_too_late<M>()>::judge())
    FULGURITE_HOOKS(M, foreign_to_model<M>())
    FULGURITE_RULE("[fulgurite.model.training_step] the model has no training step: add `auto training_step(auto "
                   "const& batch, auto& ctx)` that returns the loss",
                   accepts<M>, hook::training_step::named<M>)
    FULGURITE_RULE("[fulgurite.model.configure_optimizers] the model names no optimizer: add `auto "
                   "configure_optimizers()` that returns one",
                   accepts<M>, hook::configure_optimizers::named<M>)
    return Fine{};
  }
};
// clang-format on

/// True for several things in one: an array, a vector, a tuple.
template <class T>
consteval bool is_list() {
  return requires(T& list) { list.begin(); } || requires { std::tuple_size<T>::value; };
}
/// True for a class that can be called, like a lambda, and has no hook. The check is for the name, since a generic
/// operator() has no address: a second one makes the name ambiguous.
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
/// A callback must name what it watches by the model's constant, not by a text.
template <class Subject, bool WatchesText>
struct TextRules {
  FULGURITE_JUDGE(TextRules) {
    FULGURITE_RULE("[fulgurite.metric.text] a metric is watched by the model's constant, not by its name as a text, "
                   "and what ctx.log_dynamic logs cannot be watched: declare `static constexpr Metric<\"val/loss\"> "
                   "val_loss{}` and pass Net::val_loss",
                   accepts<Subject>, !WatchesText)
    return Fine{};
  }
};

/// True for an object that stands for a device, such as torch::Device.
template <class T>
concept is_device = requires(T const& device) {
  device.is_cpu();
  device.has_index();
};

/// Rules about one callback, except the parameters of its hooks. `NoneMisspelt`: it was checked before that no name in
/// it is a near miss.
template <class Metrics, bool NoneMisspelt, bool HasLogger, class T, class... All>
struct CallbackRules {
  FULGURITE_JUDGE(CallbackRules) {
    FULGURITE_RULE("[fulgurite.callback.class] a callback is an object with hooks, given by value: pass no pointer, "
                   "number or text",
                   accepts<T>, std::is_class_v<T> && !points<T>)
    FULGURITE_RULE("[fulgurite.callback.device] a device is an argument of a strategy: write SingleDevice{cpu}, "
                   "SingleDevice{cuda(1)}, or SingleDevice{NamedDevice{\"cuda:1\"}} for one that is named at run time",
                   accepts<T>, !is_device<T>)
    FULGURITE_RULE("[fulgurite.callback.final] the hooks of a final class cannot be seen: remove `final` from the "
                   "callback",
                   accepts<T>, !std::is_final_v<T>)
    FULGURITE_RULE(FULGURITE_SENTENCE_NO_METRIC, accepts<T>, !lacks_metric<T>())
    FULGURITE_RULE("[fulgurite.callback.lambda_event] a LambdaCallback is called at events, and this is none: "
                   "steps and overrides are functions of the model",
                   accepts<T>, !names_no_event<T>())
    FULGURITE_RULE("[fulgurite.callback.lambda_twice] two functions of a LambdaCallback are called at the same event: "
                   "make one of them, or give a second LambdaCallback",
                   accepts<T>, !names_event_twice<T>())
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
    FULGURITE_RULE("[fulgurite.callback.function] a function alone is called at no event: name one, "
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

/// What one callback needs of its run, which has `Optimizers` optimizers.
template <class R, std::size_t Optimizers, class T>
struct NeedRules {
  using S = typename R::Strategy;
  FULGURITE_JUDGE(NeedRules) {
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

/// The position, counted from 0, of the second argument that is true; the number of arguments if there is none.
template <class... Bools>
consteval std::size_t second(Bools... is) {
  std::size_t at = 0, count = 0, found = sizeof...(Bools);
  ((count += is, found = is && count == 2 ? at : found, ++at), ...);
  return found;
}

/// Callbacks that conflict with each other.
template <class... Cs>
struct TogetherRules {
  template <std::size_t Position>
  using At = std::tuple_element_t<Position, std::tuple<Cs...>>;
  static constexpr std::size_t none = sizeof...(Cs);
  static constexpr std::size_t average = second(replaces_weights<Cs>()...);
  static constexpr std::size_t rate = second(finds_rate<Cs>()...);
  static constexpr std::size_t size = second(finds_batch_size<Cs>()...);
  static constexpr std::size_t bar = second((order_of<Cs>() == Order::progress)...);
  static constexpr std::size_t summary = second((order_of<Cs>() == Order::summary)...);
  FULGURITE_JUDGE(TogetherRules) {
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
