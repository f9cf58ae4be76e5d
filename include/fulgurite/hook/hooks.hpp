#pragma once
// The one table of hooks: every name that the library may call on what a user wrote, what it receives, what its answer
// may do, of whom it is asked.

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/types.hpp>

namespace fulgurite {

class Context;

/// What a hook receives before `ctx`. An event may take any suffix of it, or nothing:
/// `(outputs, batch, ctx)`, `(batch, ctx)`, `(ctx)`, `()`. An override takes all of it, with or without `ctx`.
enum class Takes : std::uint8_t { nothing, one, two, three };

/// What the answer of a hook may do.
enum class Answer : std::uint8_t { none, may_stop, may_skip_epoch, value };

/// When a hook's parameters can be checked: with the trainer, or where the batch's type is known.
enum class Where : std::uint8_t { fit, train, train_end, validate, validate_end, test, test_end, predict, every_stage };

namespace hook {

/// Constants of one row.
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

/// A member function that is no template and takes a Context, which is no type of a program.
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

// `named` asks whether any member of that name exists, private and overloaded ones too: a decoy of the same name makes
// the look-up ambiguous exactly then. The own name of the class is none. `accepts` asks for the call. When they
// disagree, the program is refused. `is_function` is false of a public data member, which means no call; `is_plain` is
// true of a public member function that is neither overloaded nor a template, and so of nothing that access hides.
// `accepts_given` asks for the call with what is handed over for good.
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
// Events: callbacks first, then the model.
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

// The model's own: it replaces what the trainer would do, or prepares something. Callbacks must not have them.
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

// The data module's, or the model's where the data module has none.
#define FULGURITE_DATA_HOOKS(ROW)                                                                      \
  ROW(prepare_data,                  Takes::nothing, Answer::none,  Where::every_stage)                \
  ROW(train_dataloader,              Takes::nothing, Answer::value, Where::train)                      \
  ROW(val_dataloader,                Takes::nothing, Answer::value, Where::validate)                   \
  ROW(test_dataloader,               Takes::nothing, Answer::value, Where::test)                       \
  ROW(predict_dataloader,            Takes::nothing, Answer::value, Where::predict)                    \
  ROW(on_before_batch_transfer,      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(transfer_batch_to_device,      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(on_after_batch_transfer,       Takes::one,     Answer::value, Where::every_stage)

// What a logger, and only a logger, has.
#define FULGURITE_LOGGER_HOOKS(ROW)                                                                    \
  ROW(log_metrics,                   Takes::two,     Answer::none,  Where::every_stage)                \
  ROW(log_hyperparams,               Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(finalize,                      Takes::one,     Answer::none,  Where::every_stage)
// What a callback may have beside events: asked of callbacks alone, with all its arguments.
#define FULGURITE_CALLBACK_HOOKS(ROW)                                                                  \
  ROW(before_save,                   Takes::nothing, Answer::none,  Where::fit)                        \
  ROW(after_save,                    Takes::nothing, Answer::none,  Where::fit)                        \
  ROW(before_statistics_pass,        Takes::nothing, Answer::none,  Where::train)                      \
  ROW(limits_time,                   Takes::nothing, Answer::value, Where::fit)                        \
  ROW(profile_action,                Takes::one,     Answer::value, Where::every_stage)                \
  ROW(end_if_asked,                  Takes::nothing, Answer::none,  Where::every_stage)
// What a callback may say of the files of runs, and a logger of their folders. Who has `log_dir()` is known as a logger
// by that; it is not called, and is no row.
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
// What a strategy may have beside what every strategy has.
#define FULGURITE_STRATEGY_HOOKS(ROW)                                                                  \
  ROW(pre_backward,                  Takes::one,     Answer::none,  Where::train)                      \
  ROW(post_backward,                 Takes::one,     Answer::none,  Where::train)                      \
  ROW(process_dataloader,            Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(no_sync,                       Takes::one,     Answer::value, Where::train)                      \
  ROW(account,                       Takes::nothing, Answer::value, Where::every_stage)
// What a loader may have beside begin, end and size. The last three may be functions beside it, too.
#define FULGURITE_LOADER_HOOKS(ROW)                                                                    \
  ROW(set_epoch,                     Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(in_order,                      Takes::one,     Answer::value, Where::every_stage)                \
  ROW(limit_each,                    Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(resume_at,                     Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(batch_size,                    Takes::nothing, Answer::value, Where::every_stage)                \
  ROW(set_batch_size,                Takes::one,     Answer::none,  Where::every_stage)                \
  ROW(shard,                         Takes::three,   Answer::none,  Where::every_stage)
// What the loops run: they take a batch, with or without ctx.
#define FULGURITE_STEPS(ROW)                                                                           \
  ROW(training_step,                 Takes::one,     Answer::value, Where::train)                      \
  ROW(validation_step,               Takes::one,     Answer::value, Where::validate)                   \
  ROW(test_step,                     Takes::one,     Answer::value, Where::test)                       \
  ROW(predict_step,                  Takes::one,     Answer::value, Where::predict)                    \
  ROW(configure_optimizers,          Takes::nothing, Answer::value, Where::fit)
// clang-format on

/// All names in one decoy, so that each class is probed by one type and not by one a name.
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
/// A class in which a name of `T` and the decoy of that name meet; see FULGURITE_HOOK.
template <class T>
struct Probe : T, Decoy {};

/// None of the names that only others than callbacks are asked for: one question for nearly every callback.
template <class P>
concept NoneForeignToCallback = requires {
#define FULGURITE_ROW(NAME, ...) &P::NAME;
  FULGURITE_OVERRIDES(FULGURITE_ROW)
  FULGURITE_STEPS(FULGURITE_ROW)
  FULGURITE_DATA_HOOKS(FULGURITE_ROW)
  FULGURITE_STRATEGY_HOOKS(FULGURITE_ROW)
#undef FULGURITE_ROW
};
/// No name of the table at all.
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

/// What a callback promises to have: a misspelt hook then fails with the compiler's own "did you mean".
///   using Hooks = Implements<hook::on_train_batch_start, hook::on_train_batch_end>;
template <class... Hooks>
struct Implements {};

// Which form of a hook an object takes, and the call in that form.

/// Number of trailing arguments an event takes: the longest suffix of `(First..., ctx)` that it accepts, -1 when it
/// takes none.
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

/// The object hears this event. Its name is asked first: nearly always the answer is no, and then nothing else is
/// instantiated.
template <class Hook, class T, class... Args>
concept Listens = Hook::template named<T> && arity<Hook, T, Args...>() >= 0;

/// It takes the outputs of a step too.
template <class Hook, class T, class... Args>
concept WantsOutputs = Hook::template named<T> && arity<Hook, T, Args...>() == 3;

/// Calls the event in the form that `T` takes; `Listens` holds.
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

/// An override takes all its arguments, with or without `ctx`.
template <class Hook, class T, class C, class... A>
concept Overrides = Hook::template named<T> && (Hook::template accepts<T, A..., C> || Hook::template accepts<T, A...>);

/// Calls it; `Overrides` holds.
template <class Hook, class T, class C, class... A>
[[gnu::always_inline]] constexpr decltype(auto) call_override(T& object, C& ctx, A&... a) {
  if constexpr (Hook::template accepts<T, A..., C>) return Hook::call(object, a..., ctx);
  else return Hook::call(object, a...);
}

/// The call's answer, in the one vocabulary of the loops.
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
