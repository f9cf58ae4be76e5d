#pragma once
// What makes a callback, a logger, a model, a policy, and what they say of themselves.

#include <concepts>
#include <cstddef>
#include <functional>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/faults.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite::judge {

// What callbacks, models and strategies say of themselves in one word. Rules speak of these, never of concrete classes.

// clang-format off
// Said as `static constexpr bool NAME = true`; not said is false.
#define FULGURITE_TRAITS(ROW)                                                                                       \
  ROW(needs_logger)           /* it writes rows */                                                                  \
  ROW(draws_rows)             /* it takes rows to draw them, and keeps no record: a logger is not spared by it */      \
  ROW(needs_automatic)        /* it drives what Manual leaves to the model: windows, the one optimizer's schedule */\
  ROW(needs_one_optimizer)    /* it works with one optimizer */                                                     \
  ROW(needs_backbone)         /* it freezes model.backbone */                                                       \
  ROW(replaces_weights)       /* it puts other weights into the model for a while */                                \
  ROW(moves_weights)          /* it changes weights itself at an epoch's end */                                        \
  ROW(reads_whole_model)      /* it reads weights or gradients of all parts of the model at once */                 \
  ROW(varies_window)          /* it calls ctx.accumulate */                                                         \
  ROW(needs_single_process)   /* it searches by trial, which processes would do differently */                      \
  ROW(needs_data_module)      /* it has loaders made again */                                                       \
  ROW(needs_one_eval_loader)  /* it rehearses evaluation with one loader */                                         \
  ROW(searches)               /* it asks for steps to be tried out, by ctx.request_search */                         \
  ROW(lacks_metric)           /* no metric was given to what watches one */                                         \
  ROW(hears_no_event)         /* a function of a LambdaCallback stands under what is no event */                    \
  ROW(hears_twice)            /* two of them stand under one event */                                               \
  ROW(finds_rate)             /* it searches for a learning rate */                                                 \
  ROW(finds_batch_size)       /* it searches for a batch size */                                                    \
  ROW(keeps_checkpoints)      /* it saves files in the course of training: no other is added by default */          \
  ROW(acts_on_tensors)        /* of models, too: what it does inside a captured step is tensor operations alone */  \
  ROW(state_in_parts)         /* an optimizer: processes can keep a part of its state each */                       \
  /* The same of strategies. */                                                                                     \
  ROW(fixed_window)           /* the accumulation window holds for a whole fit */                                   \
  ROW(shards_parameters)      /* no process has all weights */                                                      \
  ROW(shards_state)           /* each process keeps a part of what optimizers keep */                               \
  ROW(splits_model)           /* each process runs a part of the model, on the same batches */                      \
  ROW(needs_gpu)              /* it does not run without one */                                                     \
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

/// A trait that is a variable, which would be taken for one that is not said. Functions and types of such names mean
/// something else.
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
/// The same of a strategy, which may also say what it cannot clip by.
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

// What a strategy says of one type: `template <class Batch> static constexpr bool moves = ...`. Not said is true. A
// data member of such a name is asked for first, and means something else: looking for a template in its place is an
// error.
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

}  // namespace fulgurite::judge

namespace fulgurite {

// What models and callbacks are asked alike: a name that is almost a hook's, a type that occurs twice.

namespace judge {

template <class T, class... Ts>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<T, Ts>} + ... + 0);

/// A class that another can derive from, so that its members can be asked for.
template <class T>
concept Probeable = std::is_class_v<T> && requires { sizeof(T); } && !std::is_final_v<T> && !std::is_const_v<T>;

/// None of these classes has a name that is almost a hook's: the whole table, asked of all of them at once.
template <class... Ts>
consteval bool none_misspelt() {
  if constexpr ((Probeable<Ts> && ...) && ((times<Ts, Ts...> == 1) && ...))
    return near_miss::Clean<near_miss::Probe<Ts...>>;
  else return false;
}

/// The first member function that is almost a hook. A public data member of such a name, such as a metric, is not meant
/// as one, and a class that has the meant loader as well keeps its loaders under such names. `None`: there is known to
/// be no such name.
template <class T, bool None = none_misspelt<T>()>
consteval HookVerdict misspelt() {
  if constexpr (!None) {  // name by name only where there is one
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
// The same of what is asked for names of its own.
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
// What a callback says of files, it may keep in members of such names, which access hides: a public function counts.
#define FULGURITE_ROW(NAME)                                                                                            \
  if (requires { requires hook::is_function_pointer<decltype(&T::NAME)>; }) return {HookFault::near_miss, HookId::NAME};
FULGURITE_MISSPELT_OF(misspelt_of_callback, Callback, FULGURITE_NEAR_MISSES_OF_CALLBACKS)
#undef FULGURITE_MISSPELT_OF
#undef FULGURITE_ROW
#undef FULGURITE_NAMES_FUNCTION

/// A pointer, or what behaves like one: a smart pointer, a holder of a module, a reference_wrapper.
template <class T>
inline constexpr bool points = std::is_pointer_v<T> || requires(T& object) {
  object.operator->();
  *object;
};
template <class T>
inline constexpr bool points<std::reference_wrapper<T>> = true;

}  // namespace judge

namespace judge {

/// It is given rows: LearningRateMonitor and the like have where to write.
template <class T>
consteval bool takes_rows() {
  if constexpr (std::is_class_v<T> && !std::is_final_v<T>) return hook::log_metrics::named<T>;
  else return false;
}
/// It keeps a record of the rows. One that draws them stands beside the logger that is added by default.
template <class T>
consteval bool is_logger() {
  return takes_rows<T>() && !draws_rows<T>();
}

}  // namespace judge

/// A callback that takes rows: `void log_metrics(std::span<Scalar const> row, long step)`. It may also have
/// `log_hyperparams` and `finalize(Status)`; in `setup(ctx)` it makes its folder and says so by
/// `ctx.set_log_dir(folder)`. Only rank 0 is given rows. One that only draws
/// them says `static constexpr bool draws_rows = true`: make_trainer then adds its logger all the same.
template <class T>
concept LoggerLike = judge::takes_rows<T>();

// What makes a callback, and what rules ask of one.

namespace judge {

/// Any function that is asked of a callback: otherwise it can never be called.
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
/// The first of the promised hooks that is not there.
template <class T>
consteval HookVerdict broken_promise() {
  if constexpr (requires {
                  typename T::Hooks;
                  requires !std::is_same_v<typename T::Hooks, T>;
                })
    return broken<T>(typename T::Hooks{});
  else return {};
}

/// What a callback declares of itself, if it does, is a list of the right kind.
template <class List>
inline constexpr bool is_hook_list = false;
template <class... Hooks>
inline constexpr bool is_hook_list<Implements<Hooks...>> = ((id_of<Hooks>() != HookId::none) && ...);
template <class List>
inline constexpr bool is_metric_types = false;
template <class... Ms>
  requires(requires { typename Ms::metric; } && ...)
inline constexpr bool is_metric_types<MetricTypes<Ms...>> = true;

template <class T>
consteval bool hooks_well_listed() {
  if constexpr (requires {
                  typename T::Hooks;
                  requires !std::is_same_v<typename T::Hooks, T>;
                })
    return is_hook_list<typename T::Hooks>;
  else return true;
}
template <class T>
consteval bool watches_well_listed() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return is_metric_types<typename T::Watches>;
  else return true;
}

template <class T>
consteval bool watches_a_text() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return watches_text<typename T::Watches>;
  else return false;
}

template <class Metrics, class T>
consteval bool watches_declared() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return
        []<class... Ms>(MetricTypes<Ms...>) { return (Metrics::template contains<Ms> && ...); }(typename T::Watches{});
  else return true;
}

/// One of what it watches is a metric of several numbers.
template <class T>
consteval bool watches_several() {
  if constexpr (requires {
                  typename T::Watches;
                  requires !std::is_same_v<typename T::Watches, T>;
                })
    return []<class... Ms>(MetricTypes<Ms...>) {
      return (metric::counts_several<typename Ms::metric> || ...);
    }(typename T::Watches{});
  else return false;
}

}  // namespace judge

/// Any struct with at least one hook, whose members a checkpoint would not forget. Whether its hooks can be called, and
/// whether the model declares what it watches, is asked where the trainer is known.
template <class T>
concept CallbackLike = std::is_class_v<T> && !std::is_final_v<T> && judge::has_any_hook<T>() && Remembers<T>;

// What makes a model, and what rules ask of its metrics.

namespace judge {

template <class Metrics>
inline constexpr bool is_metric_list = false;
template <auto... Ms>
  requires(requires { typename decltype(Ms)::metric; } && ...)
inline constexpr bool is_metric_list<MetricList<Ms...>> = true;

template <class Metrics>
inline constexpr bool has_metric_twice = false;
template <auto... Ms>
inline constexpr bool has_metric_twice<MetricList<Ms...>> =
    ((times<typename decltype(Ms)::metric, typename decltype(Ms)::metric...> > 1) || ...);

/// Reported nowhere, although there would be loggers; a metric for callbacks alone says `.logger = false`.
template <class Metrics>
inline constexpr bool has_unreported = false;
template <auto... Ms>
inline constexpr bool has_unreported<MetricList<Ms...>> =
    ((Ms.logger && Ms.on_step == Report::no && Ms.on_epoch == Report::no) || ...);
/// A metric with a definition that computes no number, or whose options are wrong.
template <class Metrics>
inline constexpr bool has_no_number = false;
template <auto... Ms>
inline constexpr bool has_no_number<MetricList<Ms...>> =
    (!(metric::counts_one_number<decltype(Ms)> || metric::counts_several<decltype(Ms)>) || ...);
/// A metric of several numbers that is to be shown where one number is.
template <class Metrics>
inline constexpr bool has_several_shown = false;
template <auto... Ms>
inline constexpr bool has_several_shown<MetricList<Ms...>> =
    ((metric::counts_several<decltype(Ms)> &&
      (Ms.prog_bar || !Ms.logger || Ms.on_step == Report::yes || Ms.on_epoch == Report::no)) ||
     ...);
template <class Metrics>
inline constexpr bool has_unsound = false;
template <auto... Ms>
inline constexpr bool has_unsound<MetricList<Ms...>> = (!metric::is_sound(Ms) || ...);
/// A name that would be taken for a loader's suffix.
template <class Metrics>
inline constexpr bool has_loader_suffix = false;
template <auto... Ms>
inline constexpr bool has_loader_suffix<MetricList<Ms...>> =
    ((Ms.name().find("/dataloader_idx_") != std::string_view::npos) || ...);

}  // namespace judge

/// Any struct with `training_step` and `configure_optimizers`; usually a torch::nn::Module. No base class of ours, no
/// registration.
template <class M>
concept ModelLike =
    std::is_class_v<M> && !std::is_final_v<M> && hook::training_step::named<M> && hook::configure_optimizers::named<M>;

// What makes a strategy, a precision, an optimization, an optimizer.

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
