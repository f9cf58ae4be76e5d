#pragma once
// The sentences about hooks, overrides and steps: one row per name.

#include <fulgurite/diagnose/rule.hpp>

#pragma GCC system_header  // shortens g++'s output: it omits the trace through the macros below

namespace fulgurite::refusal {

// clang-format off
// A hook with the form in which it is called, and who has it. Faults that a hook of its kind cannot have cost nothing.
#define FULGURITE_FORM(NAME, FORM, HOME)                                                                               \
  template <> struct About<HookId::NAME> {                                                                             \
    template <bool, class Whom> static consteval auto judge() {                                                        \
      constexpr auto fault = Whom::fault;                                                                              \
      [[maybe_unused]] constexpr bool is_event = hook::NAME::name().starts_with("on_");                                \
      using Subject = typename Whom::Subject;                                                                          \
      if constexpr (fault == HookFault::not_of_model)                                                                  \
        static_assert(judge::accepts<Subject>, "[fulgurite.model.foreign_hook] " #NAME " is never asked of a "         \
                      "model: move it to " HOME);                                                                      \
      if constexpr (fault == HookFault::not_of_callback)                                                               \
        static_assert(judge::accepts<Subject>, "[fulgurite.callback.foreign_hook] " #NAME " is never asked of a "      \
                      "callback: move it to " HOME);                                                                   \
      if constexpr (fault == HookFault::not_of_data)                                                                   \
        static_assert(judge::accepts<Subject>, "[fulgurite.data.foreign_hook] " #NAME " is never asked of a "          \
                      "data module: move it to " HOME);                                                                \
      if constexpr (fault == HookFault::not_of_strategy)                                                               \
        static_assert(judge::accepts<Subject>, "[fulgurite.policy.foreign_hook] " #NAME " is never asked of a "        \
                      "strategy: move it to " HOME);                                                                   \
      if constexpr (fault == HookFault::parameters)                                                                    \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.parameters] " #NAME " cannot be called: make it a "    \
                      "public function, " #NAME FORM);                                                                 \
      if constexpr (fault == HookFault::result && hook::NAME::answer == Answer::none)                                  \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.result] " #NAME " must return void");                  \
      if constexpr (fault == HookFault::result && hook::NAME::answer == Answer::may_stop)                              \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.result] " #NAME " must return void, or Stop to end "   \
                      "training");                                                                                     \
      if constexpr (fault == HookFault::result && hook::NAME::answer == Answer::may_skip_epoch)                        \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.result] " #NAME " must return void, Stop to end "      \
                      "training, or Flow: Lightning's -1 is `return Flow::skip_epoch`");                               \
      if constexpr (fault == HookFault::no_effect)                                                                     \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.no_effect] " #NAME " returns Stop, but nothing can "   \
                      "be stopped there: return void");                                                                \
      if constexpr (fault == HookFault::skip_epoch)                                                                    \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.skip_epoch] " #NAME " returns Flow, and only "         \
                      "on_train_batch_start can leave an epoch: return void, or Stop where training may end");         \
      if constexpr (fault == HookFault::never_called)                                                                  \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.never_called] " #NAME " is never called under "        \
                      "Manual: do its work in training_step, or use Automatic");                                       \
      if constexpr (fault == HookFault::two_sources)                                                                   \
        static_assert(judge::accepts<Subject>, "[fulgurite.data.two_sources] " #NAME " is in the data module and "     \
                      "in the model, and one of them would be ignored: remove one, or say `using OverridesModel = "    \
                      "void` in the data module");                                                                     \
      if constexpr (fault == HookFault::captured && is_event)                                                          \
        static_assert(judge::accepts<Subject>, "[fulgurite.capture.hook] a captured step is replayed without "         \
                      "calling " #NAME ": use on_before_optimizer_step, or, if it only computes with tensors, "        \
                      "declare `static constexpr bool acts_on_tensors = true`");                                       \
      if constexpr (fault == HookFault::captured && !is_event)                                                         \
        static_assert(judge::accepts<Subject>, "[fulgurite.capture.hook] a captured step is replayed without "         \
                      "calling " #NAME ": leave it out, or, if it only computes with tensors, declare `static "        \
                      "constexpr bool acts_on_tensors = true`");                                                       \
      if constexpr (fault == HookFault::promise)                                                                       \
        static_assert(judge::accepts<Subject>, "[fulgurite.callback.promise] the callback's `Hooks` lists " #NAME      \
                      ", but it has no such member: correct the name, or the list");                                   \
      if constexpr (fault == HookFault::step_batch)                                                                    \
        static_assert(judge::accepts<Subject>, "[fulgurite.data.batch] " #NAME " cannot be called with the "           \
                      "loader's batch: write " #NAME "(auto const& batch, auto& ctx), public; indices are "            \
                      "ctx.batch_idx() and ctx.loader()");                                                             \
      if constexpr (fault == HookFault::missing_step)                                                                  \
        static_assert(judge::accepts<Subject>, "[fulgurite.model.step] the model has no " #NAME ", which this call "   \
                      "runs: add it");                                                                                 \
      if constexpr (fault == HookFault::no_loader)                                                                     \
        static_assert(judge::accepts<Subject>, "[fulgurite.data.loader] there is no loader for " #NAME ": pass "       \
                      "one, or a data module that has one");                                                           \
    }                                                                                                                  \
  };
FULGURITE_FORM(setup, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(teardown, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_exception, "(std::exception const& error, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_fit_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_fit_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_sanity_check_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_sanity_check_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_epoch_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_epoch_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_batch_start, "(auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_train_batch_end, "(auto& outputs, auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_before_zero_grad, "(auto& optimizer, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_before_backward, "(auto& loss, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_after_backward, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_before_optimizer_step, "(auto& optimizer, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_epoch_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_epoch_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_batch_start, "(auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_validation_batch_end, "(auto& outputs, auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_epoch_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_epoch_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_batch_start, "(auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_test_batch_end, "(auto& outputs, auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_epoch_start, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_epoch_end, "(auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_batch_start, "(auto& batch, auto& ctx)", "the model or a callback")
FULGURITE_FORM(on_predict_batch_end, "(auto& outputs, auto& batch, auto& ctx)", "the model or a callback")

FULGURITE_FORM(configure_model, "(auto& ctx)", "the model")
FULGURITE_FORM(backward, "(auto& loss, auto& ctx)", "the model")
FULGURITE_FORM(optimizer_step, "(auto& optimizer, auto closure, auto& ctx)", "the model")
FULGURITE_FORM(optimizer_zero_grad, "(auto& optimizer, auto& ctx)", "the model")
FULGURITE_FORM(configure_gradient_clipping, "(auto& optimizer, Clip clip, auto& ctx)", "the model")
FULGURITE_FORM(lr_scheduler_step, "(auto& scheduler, auto& ctx)", "the model")
FULGURITE_FORM(tbptt_split_batch, "(auto& batch, long length, auto& ctx)", "the model")
FULGURITE_FORM(on_validation_model_zero_grad, "(auto& ctx)", "the model")
FULGURITE_FORM(on_validation_model_eval, "(auto& ctx)", "the model")
FULGURITE_FORM(on_validation_model_train, "(auto& ctx)", "the model")
FULGURITE_FORM(on_test_model_eval, "(auto& ctx)", "the model")
FULGURITE_FORM(on_test_model_train, "(auto& ctx)", "the model")
FULGURITE_FORM(on_predict_model_eval, "(auto& ctx)", "the model")

FULGURITE_FORM(prepare_data, "()", "the model or the data module")
FULGURITE_FORM(train_dataloader, "()", "the model or the data module")
FULGURITE_FORM(val_dataloader, "()", "the model or the data module")
FULGURITE_FORM(test_dataloader, "()", "the model or the data module")
FULGURITE_FORM(predict_dataloader, "()", "the model or the data module")
FULGURITE_FORM(on_before_batch_transfer, "(auto& batch, auto& ctx)", "the model or the data module")
FULGURITE_FORM(transfer_batch_to_device, "(auto& batch, auto& ctx)", "the model or the data module")
FULGURITE_FORM(on_after_batch_transfer, "(auto& batch, auto& ctx)", "the model or the data module")

FULGURITE_FORM(log_metrics, "(std::span<Scalar const> row, long step)", "a logger")
FULGURITE_FORM(log_hyperparams, "(auto const& hparams)", "a logger")
FULGURITE_FORM(finalize, "(Status status)", "a logger")

FULGURITE_FORM(before_save, "(auto& ctx)", "a callback")
FULGURITE_FORM(after_save, "(auto& ctx)", "a callback")
FULGURITE_FORM(before_statistics_pass, "(auto& ctx)", "a callback")
FULGURITE_FORM(limits_time, "()", "a callback")
FULGURITE_FORM(profile_action, "(ProfiledAction const& action)", "a callback")
FULGURITE_FORM(end_if_asked, "()", "a callback")

FULGURITE_FORM(state_key, "() const, whose answer is a std::string", "a callback")
FULGURITE_FORM(last_checkpoints, "() or last_checkpoints(CheckpointSearch const& search)", "a callback")
FULGURITE_FORM(hpc_checkpoints, "() or hpc_checkpoints(CheckpointSearch const& search)", "a callback")
FULGURITE_FORM(resumes_hpc, "()", "a callback")
FULGURITE_FORM(best_model_path, "(), whose answer is a std::filesystem::path", "a callback")
FULGURITE_FORM(do_not_continue, "()", "a callback")
FULGURITE_FORM(continue_in, "(std::filesystem::path folder)", "a logger")
FULGURITE_FORM(earlier_runs, "(TrainerOptions const& options)", "a logger")

FULGURITE_FORM(hyperparameters, "(auto& list) const", "the model or the data module")

FULGURITE_FORM(pre_backward, "(auto& loss)", "the strategy")
FULGURITE_FORM(post_backward, "(auto& loss)", "the strategy")
FULGURITE_FORM(process_dataloader, "(auto& loader)", "the strategy")
FULGURITE_FORM(no_sync, "(bool on)", "the strategy")
FULGURITE_FORM(account, "() const", "the strategy")

FULGURITE_FORM(set_epoch, "(long epoch)", "a loader")
FULGURITE_FORM(in_order, "(bool on)", "a loader")
FULGURITE_FORM(limit_each, "(double part)", "a loader")
FULGURITE_FORM(resume_at, "(long batch)", "a loader")
FULGURITE_FORM(batch_is_ready, "() const, which returns bool", "a loader")
FULGURITE_FORM(batch_size, "() const, whose answer is a number", "a loader")
FULGURITE_FORM(set_batch_size, "(long rows)", "a loader")
FULGURITE_FORM(shard, "(int rank, int world, bool training)", "a loader")

FULGURITE_FORM(training_step, "() or training_step(auto& ctx)", "the model")
FULGURITE_FORM(validation_step, "() or validation_step(auto& ctx)", "the model")
FULGURITE_FORM(test_step, "() or test_step(auto& ctx)", "the model")
FULGURITE_FORM(predict_step, "() or predict_step(auto& ctx)", "the model")
FULGURITE_FORM(configure_optimizers, "() or configure_optimizers(auto& ctx)", "the model")

#undef FULGURITE_FORM

// The sentences about functions of optimizers, schedules and strategies: one row per name.

#define FULGURITE_FUNCTION(KIND, NAME, FORM)                                                                           \
  template <> struct About<HookId::of_##KIND##_##NAME> {                                                               \
    template <bool, class Whom> static consteval auto judge() {                                                        \
      using Subject = typename Whom::Subject;                                                                          \
      if constexpr (Whom::fault == HookFault::parameters)                                                              \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.parameters] " #NAME " of this " #KIND " cannot be "    \
                      "called: make it a public function, " #NAME FORM);                                               \
      if constexpr (Whom::fault == HookFault::missing)                                                                 \
        static_assert(judge::accepts<Subject>, "[fulgurite.hook.missing] this " #KIND " has no " #NAME ", which the "  \
                      "trainer calls: add a public function, " #NAME FORM);                                            \
    }                                                                                                                  \
  };
FULGURITE_FUNCTION(optimizer, zero_grad, "()")
FULGURITE_FUNCTION(optimizer, step, "()")
FULGURITE_FUNCTION(optimizer, parameters, "()")
FULGURITE_FUNCTION(optimizer, groups, "()")
FULGURITE_FUNCTION(optimizer, lr, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, set_lr, "(std::size_t group, double rate)")
FULGURITE_FUNCTION(optimizer, momentum, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, set_momentum, "(std::size_t group, double value)")
FULGURITE_FUNCTION(optimizer, weight_decay, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, group_name, "(std::size_t group)")
FULGURITE_FUNCTION(optimizer, gradients_finite, "()")
FULGURITE_FUNCTION(optimizer, received, "()")
FULGURITE_FUNCTION(optimizer, set_received, "(auto const& received)")

FULGURITE_FUNCTION(schedule, move, "(auto& optimizer)")
FULGURITE_FUNCTION(schedule, observe, "(double value, auto& optimizer)")
FULGURITE_FUNCTION(schedule, metric, "() const")
FULGURITE_FUNCTION(schedule, strict, "() const")
FULGURITE_FUNCTION(schedule, attach, "(auto& optimizer)")
FULGURITE_FUNCTION(schedule, momentum, "(long moves) const")
FULGURITE_FUNCTION(schedule, moves_momentum, "() const")
FULGURITE_FUNCTION(schedule, check, "() const")

FULGURITE_FUNCTION(strategy, setup, "(auto& model, auto const& precision)")
FULGURITE_FUNCTION(strategy, teardown, "(auto& model)")
FULGURITE_FUNCTION(strategy, device, "()")
FULGURITE_FUNCTION(strategy, is_on_gpu, "()")
FULGURITE_FUNCTION(strategy, move, "(auto&& batch)")
FULGURITE_FUNCTION(strategy, gradients, "(StepKey key, auto& batch, auto& board, auto&& body)")
FULGURITE_FUNCTION(strategy, flush, "(auto& optimizer, double scale)")
FULGURITE_FUNCTION(strategy, backward, "(auto& loss, auto const& seed)")
FULGURITE_FUNCTION(strategy, rank, "() const")
FULGURITE_FUNCTION(strategy, world, "() const")
FULGURITE_FUNCTION(strategy, local_rank, "()")
FULGURITE_FUNCTION(strategy, agree, "(bool any)")
FULGURITE_FUNCTION(strategy, reduce, "(auto value, Reduce how)")
FULGURITE_FUNCTION(strategy, reduce_in_place, "(std::span<double> values, std::span<Reduce const> how)")
FULGURITE_FUNCTION(strategy, reduce_gradients, "(std::span<double> riders, auto& optimizers)")
FULGURITE_FUNCTION(strategy, broadcast, "(std::string bytes)")
FULGURITE_FUNCTION(strategy, gather, "(std::string bytes)")
FULGURITE_FUNCTION(strategy, barrier, "(std::string_view what)")
FULGURITE_FUNCTION(strategy, matmul_scope, "()")
FULGURITE_FUNCTION(strategy, share_state, "(auto& optimizers)")
FULGURITE_FUNCTION(strategy, whole_state, "(auto& optimizers)")
FULGURITE_FUNCTION(strategy, share_statistics, "(auto& model)")
FULGURITE_FUNCTION(strategy, abort, "(std::string_view text)")

#undef FULGURITE_FUNCTION
// clang-format on

}  // namespace fulgurite::refusal
