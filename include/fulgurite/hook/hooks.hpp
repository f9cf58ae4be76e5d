#pragma once
// The one table of hooks: every name that the library may call on a user's class, its arguments, the effect of its
// result, and which participants may have it.

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>

namespace fulgurite {

class Context;

/// The arguments of a hook before `ctx`. An event may take any suffix of the full list, or nothing: `(outputs, batch,
/// ctx)`, `(batch, ctx)`, `(ctx)`, `()`. An override takes all arguments, with or without `ctx`.
enum class Takes : std::uint8_t { nothing, one, two, three };

/// The effect that the result of a hook may have.
enum class Answer : std::uint8_t { none, may_stop, may_skip_epoch, value };

/// When a hook's parameters can be checked: with the trainer, or when the batch's type is known.
enum class Where : std::uint8_t { fit, train, train_end, validate, validate_end, test, test_end, predict, every_stage };

namespace hook {

/// The constants of one row.
template <Takes Arguments, Answer Result, Where Place, bool InManual = true>
struct Row {
  static constexpr Takes takes = Arguments;
  static constexpr Answer answer = Result;
  static constexpr Where where = Place;
  static constexpr bool in_manual = InManual;  ///< false: only automatic optimization calls it
};

template <class Pointer>
inline constexpr bool is_function_pointer =
    std::is_member_function_pointer_v<Pointer> || std::is_function_v<std::remove_pointer_t<Pointer>>;

/// True for a non-template member function that takes a Context, a type that no program has.
template <class Pointer>
inline constexpr bool takes_context_alone = false;
template <class Result, class T>
inline constexpr bool takes_context_alone<Result (T::*)(Context&)> = true;
template <class Result, class T>
inline constexpr bool takes_context_alone<Result (T::*)(Context&) const> = true;
template <class Result, class T>
inline constexpr bool takes_context_alone<Result (T::*)(Context const&)> = true;
template <class Result, class T>
inline constexpr bool takes_context_alone<Result (T::*)(Context const&) const> = true;

// `named` is true if a member of that name exists, also a private or overloaded one: exactly then a decoy of the same
// name makes the lookup ambiguous. The name of the class itself does not count. `accepts` checks the call. If `named`
// is true and `accepts` is not, the program does not compile. `is_function` is false for a public data member, which is
// not meant as a hook. `is_plain` is true for a public member function that is neither overloaded nor a template, and
// so never for a hidden one. `accepts_given` checks the call with arguments that are moved from.
#define FULGURITE_HOOK(NAME, ...)                                                                                      \
  struct NAME : Row<__VA_ARGS__> {                                                                                     \
    static constexpr std::string_view name() { return #NAME; }                                                         \
    template <class T>                                                                                                 \
    static constexpr bool named = requires {                                                                           \
      requires !requires { &Probe<T>::NAME; };                                                                         \
      requires !requires { requires std::is_same_v<class T::NAME, T>; };                                               \
    };                                                                                                                 \
    template <class T>                                                                                                 \
    static constexpr bool is_function =                                                                                \
        named<T> && !requires { requires std::is_object_v<std::remove_reference_t<decltype(T::NAME)>>; };              \
    template <class T>                                                                                                 \
    static constexpr bool is_plain = requires { requires is_function_pointer<decltype(&T::NAME)>; };                   \
    template <class T>                                                                                                 \
    static constexpr bool takes_context = requires { requires takes_context_alone<decltype(&T::NAME)>; };              \
    template <class T, class... A>                                                                                     \
    static constexpr bool accepts = requires(T& object, A&... a) { object.NAME(a...); };                               \
    template <class T, class... A>                                                                                     \
    static constexpr bool accepts_given = requires(T& object) { object.NAME(std::declval<A>()...); };                  \
    template <class T, class... A>                                                                                     \
    [[gnu::always_inline]] static constexpr decltype(auto) call(T& object, A&... a) {                                  \
      return object.NAME(a...);                                                                                        \
    }                                                                                                                  \
  }

// clang-format off
// Events. They are dispatched to the callbacks in firing order, then to the model, then to the strategy. A callback is
// a struct with some of these functions:
//
//     struct TenEpochs {
//       void on_train_batch_end(auto& outputs, auto& batch, auto& ctx) { std::printf("%ld\n", ctx.batch_idx()); }
//       Stop on_train_epoch_end(auto& ctx) { return Stop{ctx.current_epoch() >= 9}; }
//     };
//     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 100}, TenEpochs{});
//
// The arguments before ctx: on_exception receives the exception, on_*_batch_start the batch, on_*_batch_end the outputs
// of the step and the batch, on_before_zero_grad and on_before_optimizer_step the optimizer, on_before_backward the
// loss. docs/semantics.md, Order of hooks, says when each event happens.
#define FULGURITE_EVENTS(ROW)                                                                   \
  ROW(setup,                        Takes::nothing, Answer::none,           Where::every_stage) \
  ROW(teardown,                     Takes::nothing, Answer::none,           Where::every_stage) \
  ROW(on_exception,                 Takes::one,     Answer::none,           Where::every_stage) \
  ROW(on_fit_start,                 Takes::nothing, Answer::may_stop,       Where::fit)         \
  ROW(on_fit_end,                   Takes::nothing, Answer::none,           Where::fit)         \
  ROW(on_sanity_check_start,        Takes::nothing, Answer::none,           Where::fit)         \
  ROW(on_sanity_check_end,          Takes::nothing, Answer::none,           Where::fit)         \
  ROW(on_train_start,               Takes::nothing, Answer::may_stop,       Where::train)       \
  ROW(on_train_end,                 Takes::nothing, Answer::none,           Where::train_end)   \
  ROW(on_train_epoch_start,         Takes::nothing, Answer::may_stop,       Where::train)       \
  ROW(on_train_epoch_end,           Takes::nothing, Answer::may_stop,       Where::train)       \
  ROW(on_train_batch_start,         Takes::one,     Answer::may_skip_epoch, Where::train)       \
  ROW(on_train_batch_end,           Takes::two,     Answer::may_stop,       Where::train)       \
  ROW(on_before_zero_grad,          Takes::one,     Answer::none,           Where::train, false)\
  ROW(on_before_backward,           Takes::one,     Answer::none,           Where::train)       \
  ROW(on_after_backward,            Takes::nothing, Answer::none,           Where::train)       \
  ROW(on_before_optimizer_step,     Takes::one,     Answer::none,           Where::train)       \
  ROW(on_validation_start,          Takes::nothing, Answer::may_stop,       Where::validate)    \
  ROW(on_validation_end,            Takes::nothing, Answer::may_stop,       Where::validate_end)\
  ROW(on_validation_epoch_start,    Takes::nothing, Answer::may_stop,       Where::validate)    \
  ROW(on_validation_epoch_end,      Takes::nothing, Answer::may_stop,       Where::validate)    \
  ROW(on_validation_batch_start,    Takes::one,     Answer::may_stop,       Where::validate)    \
  ROW(on_validation_batch_end,      Takes::two,     Answer::may_stop,       Where::validate)    \
  ROW(on_test_start,                Takes::nothing, Answer::none,           Where::test)        \
  ROW(on_test_end,                  Takes::nothing, Answer::none,           Where::test_end)    \
  ROW(on_test_epoch_start,          Takes::nothing, Answer::none,           Where::test)        \
  ROW(on_test_epoch_end,            Takes::nothing, Answer::none,           Where::test)        \
  ROW(on_test_batch_start,          Takes::one,     Answer::none,           Where::test)        \
  ROW(on_test_batch_end,            Takes::two,     Answer::none,           Where::test)        \
  ROW(on_predict_start,             Takes::nothing, Answer::none,           Where::predict)     \
  ROW(on_predict_end,               Takes::nothing, Answer::none,           Where::predict)     \
  ROW(on_predict_epoch_start,       Takes::nothing, Answer::none,           Where::predict)     \
  ROW(on_predict_epoch_end,         Takes::nothing, Answer::none,           Where::predict)     \
  ROW(on_predict_batch_start,       Takes::one,     Answer::none,           Where::predict)     \
  ROW(on_predict_batch_end,         Takes::two,     Answer::none,           Where::predict)

// Overrides of the model: they replace what the trainer would do, or prepare something. Callbacks must not have them.
#define FULGURITE_OVERRIDES(ROW)                                                                       \
  ROW(configure_model,               Takes::nothing, Answer::none,  Where::every_stage)                \
  ROW(backward,                      Takes::one,     Answer::none,  Where::train)                      \
  ROW(optimizer_step,                Takes::two,     Answer::none,  Where::train, false)               \
  ROW(optimizer_zero_grad,           Takes::one,     Answer::none,  Where::train, false)               \
  ROW(configure_gradient_clipping,   Takes::two,     Answer::none,  Where::train, false)               \
  ROW(lr_scheduler_step,             Takes::one,     Answer::none,  Where::train, false)               \
  ROW(tbptt_split_batch,             Takes::two,     Answer::value, Where::train, false)               \
  ROW(on_validation_model_zero_grad, Takes::nothing, Answer::none,  Where::validate_end)               \
  ROW(on_validation_model_eval,      Takes::nothing, Answer::none,  Where::validate)                   \
  ROW(on_validation_model_train,     Takes::nothing, Answer::none,  Where::validate_end)               \
  ROW(on_test_model_eval,            Takes::nothing, Answer::none,  Where::test)                       \
  ROW(on_test_model_train,           Takes::nothing, Answer::none,  Where::test_end)                   \
  ROW(on_predict_model_eval,         Takes::nothing, Answer::none,  Where::predict)

// Hooks of the data module, or of the model if the data module does not have them.
#define FULGURITE_DATA_HOOKS(ROW)                                                                      \
  ROW(prepare_data,                  Takes::nothing, Answer::none,  Where::every_stage)                \
  ROW(train_dataloader,              Takes::nothing, Answer::value, Where::train)                      \
  ROW(val_dataloader,                Takes::nothing, Answer::value, Where::validate)                   \
  ROW(test_dataloader,               Takes::nothing, Answer::value, Where::test)                       \
  ROW(predict_dataloader,            Takes::nothing, Answer::value, Where::predict)                    \
  ROW(on_before_batch_transfer,      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(transfer_batch_to_device,      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(on_after_batch_transfer,       Takes::one,     Answer::value, Where::every_stage)

// Hooks of loggers only.
#define FULGURITE_LOGGER_HOOKS(ROW)                                                                    \
  ROW(log_metrics,                   Takes::two,     Answer::none,  Where::every_stage)                \
  ROW(log_hyperparams,               Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(finalize,                      Takes::one,     Answer::none,  Where::every_stage)
// What a callback, and only a callback, may have besides events; called with all arguments.
#define FULGURITE_CALLBACK_HOOKS(ROW)                                                                  \
  ROW(before_save,                   Takes::nothing, Answer::none,  Where::fit)                        \
  ROW(after_save,                    Takes::nothing, Answer::none,  Where::fit)                        \
  ROW(before_statistics_pass,        Takes::nothing, Answer::none,  Where::train)                      \
  ROW(limits_time,                   Takes::nothing, Answer::value, Where::fit)                        \
  ROW(profile_action,                Takes::one,     Answer::value, Where::every_stage)                \
  ROW(end_if_asked,                  Takes::nothing, Answer::none,  Where::every_stage)
// What a callback may provide about the files of runs, and a logger about its folders. A class with `log_dir()` counts
// as a logger; as it is never called as a hook, it has no row.
#define FULGURITE_FILE_HOOKS(ROW)                                                                      \
  ROW(state_key,                     Takes::nothing, Answer::value, Where::fit)                        \
  ROW(last_checkpoints,              Takes::one,     Answer::value, Where::every_stage)                \
  ROW(hpc_checkpoints,               Takes::one,     Answer::value, Where::every_stage)                \
  ROW(resumes_hpc,                   Takes::nothing, Answer::value, Where::fit)                        \
  ROW(best_model_path,               Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(do_not_continue,               Takes::nothing, Answer::none,  Where::fit)                        \
  ROW(continue_in,                   Takes::one,     Answer::none,  Where::fit)                        \
  ROW(earlier_runs,                  Takes::one,     Answer::value, Where::every_stage)
// What a model, a data module or its `hparams` may have.
#define FULGURITE_SETTINGS_HOOKS(ROW)                                                                  \
  ROW(hyperparameters,               Takes::one,     Answer::none,  Where::every_stage)
// What a strategy may have besides the functions that every strategy has.
#define FULGURITE_STRATEGY_HOOKS(ROW)                                                                  \
  ROW(pre_backward,                  Takes::one,     Answer::none,  Where::train)                      \
  ROW(post_backward,                 Takes::one,     Answer::none,  Where::train)                      \
  ROW(process_dataloader,            Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(no_sync,                       Takes::one,     Answer::value, Where::train)                      \
  ROW(account,                       Takes::nothing, Answer::value, Where::every_stage)
// What a loader may have besides begin, end and size. The last three may be free functions, too.
#define FULGURITE_LOADER_HOOKS(ROW)                                                                    \
  ROW(set_epoch,                     Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(in_order,                      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(limit_each,                    Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(resume_at,                     Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(batch_is_ready,                Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(batch_size,                    Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(set_batch_size,                Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(shard,                         Takes::three,   Answer::none,  Where::every_stage)
// The steps that the loops call: they take a batch, with or without ctx.
#define FULGURITE_STEPS(ROW)                                                                           \
  ROW(training_step,                 Takes::one,     Answer::value, Where::train)                      \
  ROW(validation_step,               Takes::one,     Answer::value, Where::validate)                   \
  ROW(test_step,                     Takes::one,     Answer::value, Where::test)                       \
  ROW(predict_step,                  Takes::one,     Answer::value, Where::predict)                    \
  ROW(configure_optimizers,          Takes::nothing, Answer::value, Where::fit)
// clang-format on

/// All names in one decoy, so that each class is probed by one type instead of one per name.
struct Decoy {
#define FULGURITE_ROW(NAME, ...) void NAME();
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_OVERRIDES(FULGURITE_ROW)
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
  FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
  FULGURITE_FILE_HOOKS(FULGURITE_ROW)
  FULGURITE_SETTINGS_HOOKS(FULGURITE_ROW)
  FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
  FULGURITE_LOADER_HOOKS(FULGURITE_ROW)
  FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// A class in which a name of `T` and the same name of the decoy are ambiguous; see FULGURITE_HOOK.
template <class T>
struct Probe : T, Decoy {};

/// True if a class has no name that only other participants than callbacks may have: a single check that suffices for
/// nearly every callback.
template <class P>
concept NoneForeignToCallback = requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_OVERRIDES(FULGURITE_ROW)
  FULGURITE_STEPS(FULGURITE_ROW)
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
  FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// True if a class has no name of the table.
template <class P>
concept NoneAtAll = NoneForeignToCallback<P> && requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_EVENTS(FULGURITE_ROW)
  FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
  FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
};

#define FULGURITE_ROW(...) FULGURITE_HOOK(__VA_ARGS__);
FULGURITE_EVENTS(FULGURITE_ROW)
FULGURITE_OVERRIDES(FULGURITE_ROW)
FULGURITE_DATA_HOOKS(FULGURITE_ROW)
FULGURITE_LOGGER_HOOKS(FULGURITE_ROW)
FULGURITE_CALLBACK_HOOKS(FULGURITE_ROW)
FULGURITE_FILE_HOOKS(FULGURITE_ROW)
FULGURITE_SETTINGS_HOOKS(FULGURITE_ROW)
FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
FULGURITE_LOADER_HOOKS(FULGURITE_ROW)
FULGURITE_STEPS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// A list of rows, for folds.
template <class... Hooks>
struct List {};

}  // namespace hook

/// The hooks that a callback promises to have. A misspelt one then fails with the compiler's own "did you mean".
///     using Hooks = Implements<hook::on_train_batch_start, hook::on_train_batch_end>;
template <class... Hooks>
struct Implements {};

// Which form of a hook an object has, and the call in that form.

/// The number of trailing arguments that an event takes: that of the longest suffix of `(First..., ctx)` that it
/// accepts; -1 if it accepts none.
template <class Hook, class T, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, C>) return 1;
  else if constexpr (Hook::template accepts<T>) return 0;
  else return -1;
}
template <class Hook, class T, class B, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, B, C>) return 2;
  else return arity<Hook, T, C>();
}
template <class Hook, class T, class A, class B, class C>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, A, B, C>) return 3;
  else return arity<Hook, T, B, C>();
}

/// The object handles this event. The name is checked first: usually the object does not have it, and then nothing else
/// is instantiated.
template <class Hook, class T, class... Args>
concept Listens = Hook::template named<T> && arity<Hook, T, Args...>() >= 0;

/// The object also takes the outputs of a step.
template <class Hook, class T, class... Args>
concept WantsOutputs = Hook::template named<T> && arity<Hook, T, Args...>() == 3;

/// Calls the event in the form that `T` has. Requires `Listens`.
template <class Hook, class T, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, C& ctx) {
  if constexpr (arity<Hook, T, C>() == 1) return Hook::call(object, ctx);
  else return Hook::call(object);
}
template <class Hook, class T, class B, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, B& first, C& ctx) {
  if constexpr (arity<Hook, T, B, C>() == 2) return Hook::call(object, first, ctx);
  else return invoke<Hook>(object, ctx);
}
template <class Hook, class T, class A, class B, class C>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, A& outputs, B& batch, C& ctx) {
  if constexpr (arity<Hook, T, A, B, C>() == 3) return Hook::call(object, outputs, batch, ctx);
  else return invoke<Hook>(object, batch, ctx);
}

/// `T` has this override: it takes all arguments, with or without `ctx`.
template <class Hook, class T, class C, class... A>
concept Overrides = Hook::template named<T> && (Hook::template accepts<T, A..., C> || Hook::template accepts<T, A...>);

/// Calls the override. Requires `Overrides`.
template <class Hook, class T, class C, class... A>
[[gnu::always_inline]] constexpr decltype(auto) call_override(T& object, C& ctx, A&... a) {
  if constexpr (Hook::template accepts<T, A..., C>) return Hook::call(object, a..., ctx);
  else return Hook::call(object, a...);
}

/// Calls the event and converts its result to Flow, which the loops use.
template <class Hook, class T, class... Args>
[[gnu::always_inline]] constexpr Flow answer_of(T& object, Args&... args) {
  using Result = decltype(invoke<Hook>(object, args...));
  if constexpr (std::is_void_v<Result>) {
    invoke<Hook>(object, args...);
    return Flow::proceed;
  } else {
    return as_flow(invoke<Hook>(object, args...));
  }
}

}  // namespace fulgurite
