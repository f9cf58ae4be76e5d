#pragma once
// The one table of hooks: every name that the library may call on a user's class, its arguments, the effect of its
// result, and which participants may have it. The comment above a row says when it is called, and what for;
// docs/hooks.md is made of these comments. docs/semantics.md, Order of hooks, has all of them in one sequence.

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
enum class Answer : std::uint8_t {
  none,            ///< returns void
  may_stop,        ///< returns void, or `Stop`: `Stop{true}` requests that training stops
  may_skip_epoch,  ///< returns void, `Stop`, or `Flow`: `Flow::skip_epoch` ends the epoch, `Flow::stop` training
  value            ///< returns what it has computed
};

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

/// True for the type of a pointer to a function, of a class or not.
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
// Events are dispatched to the callbacks in firing order, then to the model, then to the strategy. A callback is a
// struct with some of these functions:
//
//     struct TenEpochs {
//       void on_train_batch_end(auto& outputs, auto& batch, auto& ctx) { std::printf("%ld\n", ctx.batch_idx()); }
//       Stop on_train_epoch_end(auto& ctx) { return Stop{ctx.current_epoch() >= 9}; }
//     };
//     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 100}, TenEpochs{});
#define FULGURITE_EVENTS(ROW)                                                                   \
  /* Once a run, at its start, after `prepare_data` and before the strategy takes the model. The data module is \
     notified first. */ \
  ROW(setup,                        Takes::nothing, Answer::none,           Where::every_stage) \
  /* Once a run that ended well, at its end, when the model is on the CPU again. The data module is notified \
     first. */ \
  ROW(teardown,                     Takes::nothing, Answer::none,           Where::every_stage) \
  /* Once a run that failed, in place of all its later hooks. `error` is the exception, which is thrown again \
     after it. */ \
  ROW(on_exception,                 Takes::one,     Answer::none,           Where::every_stage) \
  /* Once a fit, when the optimizers exist, before any batch. A stop here means that nothing is trained. */ \
  ROW(on_fit_start,                 Takes::nothing, Answer::may_stop,       Where::fit)         \
  /* Once a fit that ended well, after `on_train_end`, when the strategy has given the model back. */ \
  ROW(on_fit_end,                   Takes::nothing, Answer::none,           Where::fit)         \
  /* Once a fit that has a sanity check (`num_sanity_val_steps`), before it. */ \
  ROW(on_sanity_check_start,        Takes::nothing, Answer::none,           Where::fit)         \
  /* Once a fit that has a sanity check, after it. */ \
  ROW(on_sanity_check_end,          Takes::nothing, Answer::none,           Where::fit)         \
  /* Once a fit that trains, before its first epoch, after the sanity check. The loaders exist from here on. */ \
  ROW(on_train_start,               Takes::nothing, Answer::may_stop,       Where::train)       \
  /* Once a fit that trains, after its last epoch, however it was ended. The rows are written, so nothing can be \
     logged here. */ \
  ROW(on_train_end,                 Takes::nothing, Answer::none,           Where::train_end)   \
  /* Each epoch, before its first batch. */ \
  ROW(on_train_epoch_start,         Takes::nothing, Answer::may_stop,       Where::train)       \
  /* Each epoch, after its last batch and the validation. The model is notified before callbacks that watch a \
     metric or save files. */ \
  ROW(on_train_epoch_end,           Takes::nothing, Answer::may_stop,       Where::train)       \
  /* Each training batch, before `training_step`; the batch is on the device. `Flow::skip_epoch` ends the epoch \
     before this batch. */ \
  ROW(on_train_batch_start,         Takes::one,     Answer::may_skip_epoch, Where::train)       \
  /* Each training batch, after its step. `outputs.loss` is the loss, without a graph and divided by the batches of \
     the accumulation window; a struct that `training_step` returns has its other members there, too. Under `Manual` \
     `outputs` is an empty struct: a callback for both kinds of optimization reads its members inside of \
     `if constexpr (requires { outputs.logits; })`. */ \
  ROW(on_train_batch_end,           Takes::two,     Answer::may_stop,       Where::train)       \
  /* Each accumulation window, after `training_step` of its first batch, before the gradients are cleared. */ \
  ROW(on_before_zero_grad,          Takes::one,     Answer::none,           Where::train, false)\
  /* Each backward of a loss, before it: each batch whose `training_step` returned a loss, or each `ctx.backward`. \
     */ \
  ROW(on_before_backward,           Takes::one,     Answer::none,           Where::train)       \
  /* Each backward of a loss, after it. */ \
  ROW(on_after_backward,            Takes::nothing, Answer::none,           Where::train)       \
  /* Each step of an optimizer, when all gradients are there and unscaled, before they are checked and clipped. */ \
  ROW(on_before_optimizer_step,     Takes::one,     Answer::none,           Where::train)       \
  /* Each validation, in a fit or by `validate`, when the model is in eval mode. */ \
  ROW(on_validation_start,          Takes::nothing, Answer::may_stop,       Where::validate)    \
  /* Each validation, when its values are published and its rows are written; the model is still in eval mode. */ \
  ROW(on_validation_end,            Takes::nothing, Answer::may_stop,       Where::validate_end)\
  /* Each validation, right after `on_validation_start`. */ \
  ROW(on_validation_epoch_start,    Takes::nothing, Answer::may_stop,       Where::validate)    \
  /* Each validation, after the last batch of its last loader, before its values are published. Values can be \
     logged here. */ \
  ROW(on_validation_epoch_end,      Takes::nothing, Answer::may_stop,       Where::validate)    \
  /* Each batch of each validation loader, before `validation_step`. */ \
  ROW(on_validation_batch_start,    Takes::one,     Answer::may_stop,       Where::validate)    \
  /* Each batch of each validation loader, after `validation_step`. `outputs` is its result. */ \
  ROW(on_validation_batch_end,      Takes::two,     Answer::may_stop,       Where::validate)    \
  /* Each run of `test`, when the model is in eval mode. */ \
  ROW(on_test_start,                Takes::nothing, Answer::none,           Where::test)        \
  /* Each run of `test`, when its values are published and its rows are written; the model is still in eval mode. \
     */ \
  ROW(on_test_end,                  Takes::nothing, Answer::none,           Where::test_end)    \
  /* Each run of `test`, right after `on_test_start`. */ \
  ROW(on_test_epoch_start,          Takes::nothing, Answer::none,           Where::test)        \
  /* Each run of `test`, after the last batch of its last loader, before its values are published. Values can be \
     logged here. */ \
  ROW(on_test_epoch_end,            Takes::nothing, Answer::none,           Where::test)        \
  /* Each batch of each test loader, before `test_step`. */ \
  ROW(on_test_batch_start,          Takes::one,     Answer::none,           Where::test)        \
  /* Each batch of each test loader, after `test_step`. `outputs` is its result. */ \
  ROW(on_test_batch_end,            Takes::two,     Answer::none,           Where::test)        \
  /* Each run of `predict`, when the model is in eval mode. */ \
  ROW(on_predict_start,             Takes::nothing, Answer::none,           Where::predict)     \
  /* Each run of `predict`, after `on_predict_epoch_end`; the model is still in eval mode. */ \
  ROW(on_predict_end,               Takes::nothing, Answer::none,           Where::predict)     \
  /* Each run of `predict`, right after `on_predict_start`. */ \
  ROW(on_predict_epoch_start,       Takes::nothing, Answer::none,           Where::predict)     \
  /* Each run of `predict`, after the last batch of its last loader. */ \
  ROW(on_predict_epoch_end,         Takes::nothing, Answer::none,           Where::predict)     \
  /* Each batch of each predict loader, before `predict_step`. */ \
  ROW(on_predict_batch_start,       Takes::one,     Answer::none,           Where::predict)     \
  /* Each batch of each predict loader, after `predict_step`. `outputs` is its result, the prediction. */ \
  ROW(on_predict_batch_end,         Takes::two,     Answer::none,           Where::predict)

// They replace what the trainer would do, or prepare something. Callbacks must not have them.
#define FULGURITE_OVERRIDES(ROW)                                                                       \
  /* Once a run, after `setup`, before a file is loaded and the strategy takes the model. Makes layers that the \
     constructor did not make. */ \
  ROW(configure_model,               Takes::nothing, Answer::none,  Where::every_stage)                \
  /* Each backward of a loss, in place of the strategy's. `loss` is scaled already: call `loss.backward()`. */ \
  ROW(backward,                      Takes::one,     Answer::none,  Where::train)                      \
  /* Each step, in place of the update. Call `optimizer.step(closure)`; the closure computes the gradients and \
     must run. Before it, `optimizer.set_lr(group, rate)` sets the rate of this step, and of those that follow until a \
     schedule moves it. */ \
  ROW(optimizer_step,                Takes::two,     Answer::none,  Where::train, false)               \
  /* Each accumulation window, in place of `optimizer.zero_grad()`. */ \
  ROW(optimizer_zero_grad,           Takes::one,     Answer::none,  Where::train, false)               \
  /* Each step, in place of the clipping that `clip` asks for; also if it asks for none. May call \
     `ctx.clip_gradients`. */ \
  ROW(configure_gradient_clipping,   Takes::two,     Answer::none,  Where::train, false)               \
  /* Each time a schedule is due, in place of its move. Call `scheduler.step()`; for one that follows a metric, \
     `scheduler.step(value)`. */ \
  ROW(lr_scheduler_step,             Takes::one,     Answer::none,  Where::train, false)               \
  /* Each training batch under `Automatic{.tbptt = length}`. Returns the slices along time, in order; they replace \
     slices of `length` time steps. */ \
  ROW(tbptt_split_batch,             Takes::two,     Answer::value, Where::train, false)               \
  /* Each validation in a fit, before it begins, unless it lies inside an accumulation window. */ \
  ROW(on_validation_model_zero_grad, Takes::nothing, Answer::none,  Where::validate_end)               \
  /* Each validation, in place of the switch to eval mode. The modes of all modules are restored after the \
     validation. */ \
  ROW(on_validation_model_eval,      Takes::nothing, Answer::none,  Where::validate)                   \
  /* Each validation, after the modes of all modules were restored. */ \
  ROW(on_validation_model_train,     Takes::nothing, Answer::none,  Where::validate_end)               \
  /* Each run of `test`, in place of the switch to eval mode. The modes of all modules are restored after the \
     test. */ \
  ROW(on_test_model_eval,            Takes::nothing, Answer::none,  Where::test)                       \
  /* Each run of `test`, after the modes of all modules were restored. */ \
  ROW(on_test_model_train,           Takes::nothing, Answer::none,  Where::test_end)                   \
  /* Each run of `predict`, in place of the switch to eval mode. The modes of all modules are restored after it. \
     */ \
  ROW(on_predict_model_eval,         Takes::nothing, Answer::none,  Where::predict)

// Hooks of the data module. A model that is trained without one may have all of them itself; beside a data module the
// model may have `prepare_data`, and the hooks of a batch that the module does not have.
#define FULGURITE_DATA_HOOKS(ROW)                                                                      \
  /* Once a run, before `setup`, on one process of each machine: downloads or unpacks data. It must be const: the \
     other processes would lack what it stores. `setup` reads the data. */ \
  ROW(prepare_data,                  Takes::nothing, Answer::none,  Where::every_stage)                \
  /* Once a fit that trains, before `on_train_start`; again where `reload_dataloaders_every_n_epochs` says so. \
     Returns the training loader. */ \
  ROW(train_dataloader,              Takes::nothing, Answer::value, Where::train)                      \
  /* Once a run of `fit` or `validate`, before its first validation; again where \
     `reload_dataloaders_every_n_epochs` says so. Returns a loader, or a tuple of several. */ \
  ROW(val_dataloader,                Takes::nothing, Answer::value, Where::validate)                   \
  /* Once a run of `test`. Returns a loader, or a tuple of several. */ \
  ROW(test_dataloader,               Takes::nothing, Answer::value, Where::test)                       \
  /* Once a run of `predict`. Returns a loader, or a tuple of several. */ \
  ROW(predict_dataloader,            Takes::nothing, Answer::value, Where::predict)                    \
  /* Each batch of every stage, on the host, before it is moved. Returns the batch to move. */ \
  ROW(on_before_batch_transfer,      Takes::one,     Answer::value, Where::every_stage)                \
  /* Each batch of every stage, in place of the strategy's move to the device. Returns the batch on the device. */ \
  ROW(transfer_batch_to_device,      Takes::one,     Answer::value, Where::every_stage)                \
  /* Each batch of every stage, on the device, before its hooks and its step. Returns the batch that they get. */ \
  ROW(on_after_batch_transfer,       Takes::one,     Answer::value, Where::every_stage)

// Hooks of loggers only.
#define FULGURITE_LOGGER_HOOKS(ROW)                                                                    \
  /* Each row of values, on rank 0: the rows of training steps every `log_every_n_steps`, and those of epochs and \
     evaluations. `step` is the row's x. */ \
  ROW(log_metrics,                   Takes::two,     Answer::none,  Where::every_stage)                \
  /* Once a fit, on rank 0, after `on_fit_start`, if the model or the data module has hyper-parameters. `hparams` \
     is a range of them. */ \
  ROW(log_hyperparams,               Takes::one,     Answer::none,  Where::every_stage)                \
  /* Once a run, at its end, on every rank: `Status::success`, or `Status::failed` after an exception. */ \
  ROW(finalize,                      Takes::one,     Answer::none,  Where::every_stage)
// What a callback, and only a callback, may have besides events.
#define FULGURITE_CALLBACK_HOOKS(ROW)                                                                  \
  /* Each time a checkpoint file is written, before the state is read. A callback puts in place what the file is \
     to hold, such as averaged weights. */ \
  ROW(before_save,                   Takes::nothing, Answer::none,  Where::fit)                        \
  /* Each time a checkpoint file was written, and when a fit has resumed from one: undoes what `before_save` did. \
     */ \
  ROW(after_save,                    Takes::nothing, Answer::none,  Where::fit)                        \
  /* Once a fit, before the pass that `ctx.request_statistics_pass()` has requested; never without a request. */ \
  ROW(before_statistics_pass,        Takes::nothing, Answer::none,  Where::train)                      \
  /* When a fit begins, if `max_time` is set. Returns true if this callback ends fits by time, too: that is \
     refused. */ \
  ROW(limits_time,                   Takes::nothing, Answer::value, Where::fit)                        \
  /* Each action of a run, when it begins. Returns an object that lives as long as the action. A callback with \
     this function is a profiler. */ \
  ROW(profile_action,                Takes::one,     Answer::value, Where::every_stage)                \
  /* Once a run that ended well, after its last hook. Throws if the program is to end, as after a signal. */ \
  ROW(end_if_asked,                  Takes::nothing, Answer::none,  Where::every_stage)
// What a callback may provide about the files of runs, and a logger about its folders. A class with `log_dir()` counts
// as a logger; as it is never called as a hook, it has no row.
#define FULGURITE_FILE_HOOKS(ROW)                                                                      \
  /* When a checkpoint is written or read. Returns the name of the callback's state in the file; without this \
     function it is the name of the type. */ \
  ROW(state_key,                     Takes::nothing, Answer::value, Where::fit)                        \
  /* When `CkptPath{"last"}` is looked up. Returns the files from which it may resume. */ \
  ROW(last_checkpoints,              Takes::one,     Answer::value, Where::every_stage)                \
  /* When `CkptPath{"hpc"}` is looked up, and at the start of a requeued job. Returns the files from which it may \
     resume. */ \
  ROW(hpc_checkpoints,               Takes::one,     Answer::value, Where::every_stage)                \
  /* At the start of a fit. Returns true if a scheduler has started this process again, so that the fit resumes \
     from `hpc_checkpoints`. */ \
  ROW(resumes_hpc,                   Takes::nothing, Answer::value, Where::fit)                        \
  /* When `CkptPath{"best"}` is looked up. Returns the best file that the callback has written; empty if there is \
     none. */ \
  ROW(best_model_path,               Takes::nothing, Answer::value, Where::every_stage)                \
  /* When a fit failed before it has resumed from its file: drops what was loaded. */ \
  ROW(do_not_continue,               Takes::nothing, Answer::none,  Where::fit)                        \
  /* When a fit resumes, before `setup`. `folder` is the folder of the resumed run, in which the logger continues. \
     */ \
  ROW(continue_in,                   Takes::one,     Answer::none,  Where::fit)                        \
  /* When a file of an earlier run is looked up, before `setup`. Returns the folders of all earlier runs that the \
     logger knows. */ \
  ROW(earlier_runs,                  Takes::one,     Answer::value, Where::every_stage)
// What a model, a data module or its `hparams` may have.
#define FULGURITE_SETTINGS_HOOKS(ROW)                                                                  \
  /* Once a fit, and for each checkpoint file. Lists what is worth knowing of a run: `list("lr", lr)("layers", \
     layers)`. */ \
  ROW(hyperparameters,               Takes::one,     Answer::none,  Where::every_stage)
// What a strategy may have besides the functions that every strategy has.
#define FULGURITE_STRATEGY_HOOKS(ROW)                                                                  \
  /* Each backward of a loss, before `on_before_backward`. */ \
  ROW(pre_backward,                  Takes::one,     Answer::none,  Where::train)                      \
  /* Each backward of a loss, after `on_after_backward`. */ \
  ROW(post_backward,                 Takes::one,     Answer::none,  Where::train)                      \
  /* Each loader, when it was requested, unless `use_distributed_sampler` is false. */ \
  ROW(process_dataloader,            Takes::one,     Answer::none,  Where::every_stage)                \
  /* Each `ctx.toggle` in manual optimization. While the returned object lives, and `on` is true, gradients are \
     not exchanged. */ \
  ROW(no_sync,                       Takes::one,     Answer::value, Where::train)                      \
  /* When `describe(trainer)` is printed. Returns its lines about the work of the strategy. */ \
  ROW(account,                       Takes::nothing, Answer::value, Where::every_stage)
// What a loader may have besides begin, end and size. The last three may be free functions, too.
#define FULGURITE_LOADER_HOOKS(ROW)                                                                    \
  /* Each epoch, before `begin()`. A loader that shuffles derives its order from the number of the epoch. */ \
  ROW(set_epoch,                     Takes::one,     Answer::none,  Where::every_stage)                \
  /* When `overfit_batches` is set. `on`: yield the same batches in each epoch. May return false if a part of the \
     loader cannot. */ \
  ROW(in_order,                      Takes::one,     Answer::value, Where::every_stage)                \
  /* When a limit is a `Fraction`, for a loader that combines several: each of them is limited to this part. */ \
  ROW(limit_each,                    Takes::one,     Answer::none,  Where::every_stage)                \
  /* When a fit resumes inside an epoch: the next `begin()` starts at this batch. With 0 at the start of each epoch, \
     after `set_epoch`, for a loader that has it. */ \
  ROW(resume_at,                     Takes::one,     Answer::none,  Where::every_stage)                \
  /* When an open fit asks for the next batch. Returns true if it can be taken without waiting. */ \
  ROW(batch_is_ready,                Takes::nothing, Answer::value, Where::every_stage)                \
  /* When a batch size is searched. Returns the current size, in samples. */ \
  ROW(batch_size,                    Takes::nothing, Answer::value, Where::every_stage)                \
  /* When a batch size is searched: sets the size of batches from the next `begin()` on. */ \
  ROW(set_batch_size,                Takes::one,     Answer::none,  Where::every_stage)                \
  /* With several processes, when the loader was requested, unless `use_distributed_sampler` is false: yield the \
     part of this rank. */ \
  ROW(shard,                         Takes::three,   Answer::none,  Where::every_stage)
// What the loops call for each batch, and the function that makes the optimizers.
#define FULGURITE_STEPS(ROW)                                                                           \
  /* Each training batch. Returns the loss, a struct with a member `loss`, or a `std::optional` of these, which is \
     empty for no gradient; under `Manual` it returns void and steps by `ctx`. A model with a `Hidden` state takes \
     `(batch, hidden, ctx)`. */ \
  ROW(training_step,                 Takes::one,     Answer::value, Where::train)                      \
  /* Each batch of each validation loader. Its result is the `outputs` of `on_validation_batch_end`; it may return \
     nothing. */ \
  ROW(validation_step,               Takes::one,     Answer::value, Where::validate)                   \
  /* Each batch of each test loader. Its result is the `outputs` of `on_test_batch_end`; it may return nothing. */ \
  ROW(test_step,                     Takes::one,     Answer::value, Where::test)                       \
  /* Each batch of each predict loader. Returns the prediction, which `predict` collects. */ \
  ROW(predict_step,                  Takes::one,     Answer::value, Where::predict)                    \
  /* Once a fit, before `on_fit_start`. Returns an optimizer, `scheduled(optimizer, schedule)`, or \
     `optimizers(...)` of several for `Manual`. */ \
  ROW(configure_optimizers,          Takes::nothing, Answer::value, Where::fit)

#define FULGURITE_ALL_HOOKS(X)                                                                                         \
  FULGURITE_EVENTS(X) FULGURITE_OVERRIDES(X) FULGURITE_DATA_HOOKS(X) FULGURITE_LOGGER_HOOKS(X)                         \
  FULGURITE_CALLBACK_HOOKS(X) FULGURITE_FILE_HOOKS(X) FULGURITE_SETTINGS_HOOKS(X) FULGURITE_STRATEGY_HOOKS(X)          \
  FULGURITE_LOADER_HOOKS(X) FULGURITE_STEPS(X)
// clang-format on

/// All names in one decoy, so that each class is probed by one type instead of one per name.
struct Decoy {
#define FULGURITE_ROW(NAME, ...) void NAME();
  FULGURITE_ALL_HOOKS(FULGURITE_ROW)
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

// Not FULGURITE_ALL_HOOKS: where a hook does not compile, clang would print one more macro that it stands in.
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
template <class Hook, class T, class First, class... Rest>
consteval int arity() {
  if constexpr (!Hook::template named<T>) return -1;
  else if constexpr (Hook::template accepts<T, First, Rest...>) return 1 + static_cast<int>(sizeof...(Rest));
  else if constexpr (sizeof...(Rest) != 0) return arity<Hook, T, Rest...>();
  else return Hook::template accepts<T> ? 0 : -1;
}

/// The object handles this event. The name is checked first: usually the object does not have it, and then nothing else
/// is instantiated.
template <class Hook, class T, class... Args>
concept Listens = Hook::template named<T> && arity<Hook, T, Args...>() >= 0;

/// The object also takes the outputs of a step.
template <class Hook, class T, class... Args>
concept WantsOutputs = Hook::template named<T> && arity<Hook, T, Args...>() == 3;

/// Calls the event in the form that `T` has. Requires `Listens`.
template <class Hook, class T, class First, class... Rest>
[[gnu::always_inline]] constexpr decltype(auto) invoke(T& object, First& first, Rest&... rest) {
  if constexpr (Hook::template accepts<T, First, Rest...>) return Hook::call(object, first, rest...);
  else if constexpr (sizeof...(Rest) != 0) return invoke<Hook>(object, rest...);
  else return Hook::call(object);
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
