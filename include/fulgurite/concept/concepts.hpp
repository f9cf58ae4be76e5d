#pragma once
// The requirements for callbacks, loggers, models and policies, and the traits that they declare.

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite {
namespace judge {

// Traits that callbacks, models and strategies declare. Rules use these, and never name a concrete class.

// clang-format off
// Declared by `static constexpr bool NAME = true`; the default is false.
#define FULGURITE_TRAITS(ROW)                                                                                          \
  ROW(needs_logger)           /* it writes rows */                                                                     \
  ROW(draws_rows)             /* it receives rows only to draw them: the default logger is still added */              \
  ROW(needs_automatic)        /* it drives what Manual leaves to the model: windows, the one optimizer's schedule */   \
  ROW(needs_one_optimizer)    /* it works with one optimizer */                                                        \
  ROW(needs_backbone)         /* it freezes model.backbone */                                                          \
  ROW(replaces_weights)       /* it temporarily puts other weights into the model */                                   \
  ROW(moves_weights)          /* it changes weights itself at an epoch's end */                                        \
  ROW(reads_whole_model)      /* it reads weights or gradients of all parts of the model at once */                    \
  ROW(varies_window)          /* it calls ctx.accumulate */                                                            \
  ROW(needs_single_process)   /* it searches by trial, which processes would do differently */                         \
  ROW(needs_data_module)      /* it has loaders made again */                                                          \
  ROW(needs_one_eval_loader)  /* it runs trial evaluation steps with one loader */                                     \
  ROW(searches)               /* it requests trial steps, by ctx.request_search */                                     \
  ROW(lacks_metric)           /* it watches a metric, and was given none */                                            \
  ROW(names_no_event)         /* a function of a LambdaCallback is given for a name that is no event */                \
  ROW(names_event_twice)      /* two of its functions are given for one event */                                       \
  ROW(finds_rate)             /* it searches for a learning rate */                                                    \
  ROW(finds_batch_size)       /* it searches for a batch size */                                                       \
  ROW(keeps_checkpoints)      /* it saves files during training: no default ModelCheckpoint is added */                \
  ROW(acts_on_tensors)        /* also of models: in a captured step it does tensor operations only */                  \
  ROW(ignores_tensors)        /* its hooks of batches may run before the step has computed its tensors */              \
  ROW(state_in_parts)         /* of optimizers: several processes can keep a part of its state each */                 \
  /* Traits of strategies. */                                                                                          \
  ROW(fixed_window)           /* the accumulation window holds for a whole fit */                                      \
  ROW(shards_parameters)      /* no process has all weights */                                                         \
  ROW(shards_state)           /* each process keeps a part of the optimizers' state */                                 \
  ROW(splits_model)           /* each process runs a part of the model, on the same batches */                         \
  ROW(needs_gpu)              /* it does not run without one */                                                        \
  ROW(needs_configure_model)  /* the model is made, or split, in that hook */
// clang-format on

#define FULGURITE_ROW(NAME)                                                                                            \
  template <class T>                                                                                                   \
  consteval bool NAME() {                                                                                              \
    if constexpr (FULGURITE_SAYS(T, bool, NAME)) return T::NAME;                                                       \
    else return false;                                                                                                 \
  }
FULGURITE_TRAITS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// True if a trait is a non-constexpr variable, which would silently count as not declared. Functions and types with
/// such names have other meanings.
template <class T>
consteval bool says_too_late() {
#define FULGURITE_ROW(NAME)                                                                                            \
  if constexpr (requires { requires std::is_arithmetic_v<std::remove_reference_t<decltype(T::NAME)>>; })               \
    if constexpr (!FULGURITE_SAYS(T, bool, NAME)) return true;
  FULGURITE_TRAITS(FULGURITE_ROW)
  FULGURITE_ROW(inert_in_dev_run)
#undef FULGURITE_ROW
  if constexpr (requires { requires std::is_same_v<std::remove_cv_t<decltype(T::order)>, Order>; })
    if constexpr (!FULGURITE_SAYS(T, Order, order)) return true;
  return false;
}
/// The same for a strategy, including its traits for clipping.
template <class S>
consteval bool strategy_says_too_late() {
#define FULGURITE_ROW(NAME)                                                                                            \
  if constexpr (requires { requires std::is_arithmetic_v<std::remove_reference_t<decltype(S::NAME)>>; })               \
    if constexpr (!FULGURITE_SAYS(S, bool, NAME)) return true;
  FULGURITE_ROW(clips_by_norm)
  FULGURITE_ROW(clips_by_value)
#undef FULGURITE_ROW
  return says_too_late<S>();
}
#undef FULGURITE_TRAITS

// Traits of a strategy for one type: `template <class Batch> static constexpr bool moves = ...`. The default is true. A
// data member of such a name has another meaning; it is checked for first, since looking for a template in its place
// would be an error.
#define FULGURITE_ROW(NAME)                                                                                            \
  template <class S, class X>                                                                                          \
  concept Says_##NAME = requires(S& s) {                                                                               \
    requires !requires { s.NAME; };                                                                                    \
    typename std::bool_constant<S::template NAME<X>>;                                                                  \
  };                                                                                                                   \
  template <class S, class X>                                                                                          \
  consteval bool NAME() {                                                                                              \
    if constexpr (Says_##NAME<S, X>) return S::template NAME<X>;                                                       \
    else return true;                                                                                                  \
  }                                                                                                                    \
  /* A template of variables or functions, whose value is not known while compiling. */                                \
  template <class S, class X>                                                                                          \
  consteval bool NAME##_too_late() {                                                                                   \
    return !Says_##NAME<S, X> && requires(S& s) {                                                                      \
      requires !requires { s.NAME; };                                                                                  \
      &S::template NAME<X>;                                                                                            \
    };                                                                                                                 \
  }
FULGURITE_ROW(moves)     // can it bring a batch of this type to its device?
FULGURITE_ROW(supports)  // can it compute in this precision?
FULGURITE_ROW(splits)    // can it take a model of this type apart?
FULGURITE_ROW(gathers)   // can it bring together what the parts of an optimizer of this type keep?
#undef FULGURITE_ROW

// Checks that models and callbacks share: a name similar to a hook's, a type that occurs twice.

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ... + 0);

/// A class that another class can derive from, so that its members can be checked.
template <class T>
concept Probeable = std::is_class_v<T> && requires { sizeof(T); } && !std::is_final_v<T> && !std::is_const_v<T>;

/// True if no class has a member with a name similar to a hook's. Checks the whole table for all classes at once.
template <class... Ts>
consteval bool none_misspelt() {
  if constexpr ((Probeable<Ts> && ...) && ((times<Ts, Ts...> == 1) && ...))
    return near_miss::Clean<near_miss::Probe<Ts...>>;
  else return false;
}

/// The first member function whose name is similar to a hook's. A public data member of such a name, such as a metric,
/// is accepted; so is a loader's name in a class that also has the correctly spelt loader. `None`: it is known that
/// there is none.
template <class T, bool None = none_misspelt<T>()>
consteval HookVerdict misspelt() {
  if constexpr (!None) {  // compares each name only if there is one
    using Probe = near_miss::Probe<T>;
#define FULGURITE_NAMES_FUNCTION(NAME)                                                                                 \
  (!requires { &Probe::NAME; } && !requires { requires std::is_object_v<std::remove_reference_t<decltype(T::NAME)>>; })
#define FULGURITE_ROW(NAME)                                                                                            \
  if (FULGURITE_NAMES_FUNCTION(NAME)) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
#define FULGURITE_ROW(NAME, MEANT)                                                                                     \
  if (FULGURITE_NAMES_FUNCTION(NAME) && !hook::MEANT::named<T>) return {HookFault::near_miss, HookId::NAME};
    FULGURITE_LOADER_NEAR_MISSES(FULGURITE_ROW)
#undef FULGURITE_ROW
  }
  return {};
}
// The same for names that only some classes may have.
#define FULGURITE_ROW(NAME)                                                                                            \
  if (FULGURITE_NAMES_FUNCTION(NAME)) return {HookFault::near_miss, HookId::NAME};
#define FULGURITE_MISSPELT_OF(FUNCTION, KIND, NAMES)                                                                   \
  template <class T>                                                                                                   \
  consteval HookVerdict FUNCTION() {                                                                                   \
    using Probe = near_miss::KIND##Probe<T>;                                                                           \
    if constexpr (!near_miss::Clean##KIND<Probe>) { NAMES(FULGURITE_ROW) }                                             \
    return {};                                                                                                         \
  }
FULGURITE_MISSPELT_OF(misspelt_of_loader, Loader, FULGURITE_NEAR_MISSES_OF_LOADERS)
FULGURITE_MISSPELT_OF(misspelt_of_optimizer, Optimizer, FULGURITE_NEAR_MISSES_OF_OPTIMIZERS)
FULGURITE_MISSPELT_OF(misspelt_of_schedule, Schedule, FULGURITE_NEAR_MISSES_OF_SCHEDULES)
FULGURITE_MISSPELT_OF(misspelt_of_strategy, Strategy, FULGURITE_NEAR_MISSES_OF_STRATEGIES)
#undef FULGURITE_ROW
// Names of a callback's checkpoint functions may also be private data members, which cannot be seen here: only public
// functions count.
#define FULGURITE_ROW(NAME)                                                                                            \
  if (requires { requires hook::is_function_pointer<decltype(&T::NAME)>; }) return {HookFault::near_miss, HookId::NAME};
FULGURITE_MISSPELT_OF(misspelt_of_callback, Callback, FULGURITE_NEAR_MISSES_OF_CALLBACKS)
#undef FULGURITE_MISSPELT_OF
#undef FULGURITE_ROW
#undef FULGURITE_NAMES_FUNCTION

/// A pointer, or a class that behaves like one: a smart pointer, a module holder, a reference_wrapper.
template <class T>
inline constexpr bool points = std::is_pointer_v<T> || requires(T& object) {
  object.operator->();
  *object;
};
template <class T>
inline constexpr bool points<std::reference_wrapper<T>> = true;

/// True if the class receives rows, so that callbacks such as LearningRateMonitor can log.
template <class T>
consteval bool takes_rows() {
  if constexpr (std::is_class_v<T> && !std::is_final_v<T>) return hook::log_metrics::named<T>;
  else return false;
}
/// True if the class keeps a record of the rows. A class that only draws them does not replace the default logger.
template <class T>
consteval bool is_logger() {
  return takes_rows<T>() && !draws_rows<T>();
}

// The properties of a callback that rules check.

/// True if the class has at least one hook; otherwise it could never be called.
template <class T>
consteval bool has_any_hook() {
#define FULGURITE_ROW(NAME, ...) || hook::NAME::named<T>
  return false FULGURITE_EVENTS(FULGURITE_ROW) FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
      FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW);
#undef FULGURITE_ROW
}

template <class Hook>
consteval HookId id_of() {
#define FULGURITE_ROW(NAME, ...)                                                                                       \
  if (std::is_same_v<Hook, hook::NAME>) return HookId::NAME;
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  FULGURITE_FILE_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
  return HookId::none;
}

template <class T, class... Hooks>
consteval HookVerdict broken(Implements<Hooks...>) {
  HookVerdict found;
  ((!found && !Hooks::template named<T> ? void(found = {HookFault::promise, id_of<Hooks>()}) : void()), ...);
  return found;
}
/// The class has a list `Hooks`, or one `Watches`; a class of such a name has itself as a member of that name.
template <class T>
concept SaysHooks = requires {
  typename T::Hooks;
  requires !std::is_same_v<typename T::Hooks, T>;
};
template <class T>
concept SaysWatches = requires {
  typename T::Watches;
  requires !std::is_same_v<typename T::Watches, T>;
};

/// The first hook that the class lists in `Hooks` but does not have.
template <class T>
consteval HookVerdict broken_promise() {
  if constexpr (SaysHooks<T>) return broken<T>(typename T::Hooks{});
  else return {};
}

/// True if `Hooks` is a list of the right kind.
FULGURITE_OF_ARGUMENTS(is_hook_list, Implements, (id_of<Ts>() != HookId::none) && ...);
template <class List>
inline constexpr bool is_metric_types = false;
template <class... Ms>
  requires(requires { typename Ms::metric; } && ...)
inline constexpr bool is_metric_types<MetricTypes<Ms...>> = true;

template <class T>
consteval bool hooks_well_listed() {
  if constexpr (SaysHooks<T>) return is_hook_list<typename T::Hooks>;
  else return true;
}
template <class T>
consteval bool watches_well_listed() {
  if constexpr (SaysWatches<T>) return is_metric_types<typename T::Watches>;
  else return true;
}

template <class T>
consteval bool watches_a_text() {
  if constexpr (SaysWatches<T>) return watches_text<typename T::Watches>;
  else return false;
}

template <class Metrics, class T>
consteval bool watches_declared() {
  if constexpr (SaysWatches<T>)
    return
        []<class... Ms>(MetricTypes<Ms...>) { return (Metrics::template contains<Ms> && ...); }(typename T::Watches{});
  else return true;
}

/// True if the callback watches a metric of several numbers.
template <class T>
consteval bool watches_several() {
  if constexpr (SaysWatches<T>)
    return []<class... Ms>(MetricTypes<Ms...>) {
      return (metric::counts_several<typename Ms::metric> || ...);
    }(typename T::Watches{});
  else return false;
}

// The properties of a model's metrics that rules check.

template <class Metrics>
inline constexpr bool is_metric_list = false;
template <auto... Ms>
  requires(requires { typename decltype(Ms)::metric; } && ...)
inline constexpr bool is_metric_list<MetricList<Ms...>> = true;

/// A metric's name, and whether its values of steps and epochs have rows of their own, `loss_step` and `loss_epoch`.
struct RowNames {
  std::string_view name;
  bool two;
};
/// True if two metrics have the same name, or one has that of another's rows. Whether a metric that says only one of
/// `.on_step` and `.on_epoch` has two rows depends on where it is logged, so it does not count.
constexpr bool are_alike(std::initializer_list<RowNames> metrics) {
  for (auto const& one : metrics)
    for (auto const& other : metrics) {
      if (&one == &other || !other.name.starts_with(one.name)) continue;
      auto const rest = other.name.substr(one.name.size());
      if (rest.empty() || (one.two && (rest == "_step" || rest == "_epoch"))) return true;
    }
  return false;
}
// Faults of a list of metrics, which are `Ms`.
// clang-format off
#define FULGURITE_OF_METRICS(NAME, ...)                                                                                \
  template <class Metrics> inline constexpr bool NAME = false;                                                         \
  template <auto... Ms> inline constexpr bool NAME<MetricList<Ms...>> = (__VA_ARGS__);
FULGURITE_OF_METRICS(has_metric_twice, are_alike({
    RowNames{Ms.name(), Ms.logger && Ms.on_step == Report::yes && Ms.on_epoch == Report::yes}...}))
// A metric is reported nowhere although there are loggers; a metric for callbacks only has `.logger = false`.
FULGURITE_OF_METRICS(has_unreported, (Ms.logger && Ms.on_step == Report::no && Ms.on_epoch == Report::no) || ...)
// A metric's definition computes no number, or has wrong options.
FULGURITE_OF_METRICS(has_no_number,
    !(metric::counts_one_number<decltype(Ms)> || metric::counts_several<decltype(Ms)>) || ...)
FULGURITE_OF_METRICS(has_unsound, !metric::is_sound(Ms) || ...)
FULGURITE_OF_METRICS(has_mean_of_sums, metric::counts_mean<decltype(Ms)> || ...)
// A metric of several numbers would be shown where only one number fits.
FULGURITE_OF_METRICS(has_several_shown, (metric::counts_several<decltype(Ms)> &&
    (Ms.prog_bar || !Ms.logger || Ms.on_step == Report::yes || Ms.on_epoch == Report::no)) || ...)
// A metric's name would be taken for a loader's suffix, or is that of a column that every row has.
FULGURITE_OF_METRICS(has_loader_suffix, (Ms.name().find("/dataloader_idx_") != std::string_view::npos) || ...)
FULGURITE_OF_METRICS(has_column_of_rows, (Ms.logger && Ms.name() == "epoch") || ...)
#undef FULGURITE_OF_METRICS
// clang-format on

}  // namespace judge

/// A callback that receives rows of logged values: `void log_metrics(std::span<Scalar const> row, long step)`. It may
/// also have `log_hyperparams` and `finalize(Status)`; in `setup(ctx)` it creates its folder and announces it by
/// `ctx.set_log_dir(folder)`. Only rank 0 receives rows. A class that only draws them declares `static constexpr bool
/// draws_rows = true`: then make_trainer still adds its default logger.
///
///     struct Printer {
///       using Stateless = ByChoice;
///       void log_metrics(std::span<Scalar const> row, long step);
///     };
template <class T>
concept LoggerLike = judge::takes_rows<T>();

/// Any struct with at least one hook whose members a checkpoint does not forget: it has `state(archive)` or is
/// Stateless. Whether its hooks can be called, and whether the model declares the metrics that it watches, is checked
/// where the trainer's type is known.
template <class T>
concept CallbackLike = std::is_class_v<T> && !std::is_final_v<T> && judge::has_any_hook<T>() && Remembers<T>;

/// A model: any struct with `training_step` and `configure_optimizers`; usually a torch::nn::Module. It needs no base
/// class of the library, and no registration:
///
///     struct Net : torch::nn::Module {
///       at::Tensor training_step(auto const& batch, auto& ctx);
///       auto configure_optimizers() { return optim::Adam(*this, {.lr = 1e-3}); }
///     };
template <class M>
concept ModelLike =
    std::is_class_v<M> && !std::is_final_v<M> && hook::training_step::named<M> && hook::configure_optimizers::named<M>;

// The requirements for a strategy, a precision, an optimization and an optimizer.

/// A strategy declares where it computes and what it can do; its `Backend` is everything that the loops need from its
/// tensor library. What each must have is what that of the tests has, tests/toy/backend.hpp.
template <class S>
concept StrategyLike = requires {
  typename S::Backend;
  typename S::Backend::Value;
  typename std::integral_constant<Known, S::on_gpu>;  // a compile-time constant, like those below
  typename std::bool_constant<S::is_distributed>;
  typename std::bool_constant<S::captures>;
};

/// A precision declares what is done with parameters, operators and the loss.
template <class P>
concept PrecisionLike = requires {
  typename std::integral_constant<Dtype, P::parameters>;
  typename std::integral_constant<Dtype, P::compute>;
  typename std::bool_constant<P::autocasts>;
  typename std::bool_constant<P::scales_loss>;
};

/// An optimization declares whether the trainer or the model drives the optimizer.
template <class O>
concept OptimizationLike =
    requires { typename std::bool_constant<O::automatic>; } && (!O::automatic || requires(O& how) {
      { how.accumulate_grad_batches } -> std::convertible_to<int>;
      { how.clip } -> std::convertible_to<Clip>;
      { how.tbptt } -> std::convertible_to<int>;
    });

/// What the loops need from an optimizer, once the backend has adopted it.
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
