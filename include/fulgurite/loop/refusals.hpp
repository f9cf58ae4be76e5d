#pragma once
// The sentences. Every refusal of a trainer or of a call stands here: its identifier, then what to do.

#include <fulgurite/concept/verdict.hpp>

namespace fulgurite::refusal {

constexpr bool passes(Verdict v, Fault fault) { return v.fault != fault; }
constexpr bool passes(Verdict v, HookFault fault, HookId id) { return !(v.fault == Fault::hook && v.hook.fault == fault && v.hook.hook == id); }
constexpr bool passes(Verdict v, Fault fault, HookId id) { return !(v.fault == fault && v.hook.hook == id); }

}  // namespace fulgurite::refusal

#define FULGURITE_REFUSE_HOOK(NAME, ...)                                                                                              \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::parameters, HookId::NAME),                                         \
                "[fulgurite.hook.parameters] " #NAME " cannot be called with what this hook receives: an event takes (), (ctx), "     \
                "(batch, ctx) or (outputs, batch, ctx), public, `auto&` for each");                                                   \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::result, HookId::NAME),                                             \
                "[fulgurite.hook.result] " #NAME " must return void, or Stop to end training (-1 is written `return "                 \
                "Flow::skip_epoch`, in on_train_batch_start)");                                                                       \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::no_effect, HookId::NAME),                                          \
                "[fulgurite.hook.no_effect] " #NAME " returns Stop, but nothing can be stopped there: return void");                  \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::skip_epoch, HookId::NAME),                                         \
                "[fulgurite.hook.skip_epoch] " #NAME " returns Flow, but only on_train_batch_start can skip the rest of an epoch: "   \
                "return Stop or void");                                                                                               \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::never_called, HookId::NAME),                                       \
                "[fulgurite.hook.never_called] manual optimization never calls " #NAME ": do its work in training_step, or use "      \
                "Automatic");                                                                                                         \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::model_only, HookId::NAME),                                         \
                "[fulgurite.hook.model_only] a callback has " #NAME ", which is asked of the model alone: move it there");

#define FULGURITE_REFUSE_NEAR_MISS(NAME, MEANT)                                                \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, HookFault::near_miss, HookId::NAME),   \
                "[fulgurite.hook.near_miss] " #NAME " is not a hook and would never be called: use " MEANT);

// What a whole trainer can be refused for.
#define FULGURITE_REFUSE_TRAINER                                                                                                      \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::strategy),                                                             \
                "[fulgurite.policy.strategy] the second policy is no strategy: it declares Backend, on_gpu, is_distributed, "         \
                "captures; for example SingleDevice{cpu}");                                                                           \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::precision),                                                            \
                "[fulgurite.policy.precision] the third policy is no precision: it declares parameters, compute, autocasts, "         \
                "scales_loss; for example Float32{}");                                                                                \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::optimization),                                                         \
                "[fulgurite.policy.optimization] the fourth policy is no optimization: use Automatic{} or Manual{}");                 \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::fp16_needs_gpu),                                                       \
                "[fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or a CUDA device");   \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::closure_needs_unscaled),                                               \
                "[fulgurite.policy.closure_needs_unscaled] an optimizer that evaluates its closure several times cannot work with "   \
                "a scaled loss: use Float32 or Bf16Mixed");                                                                           \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::capture_needs_stable_gradients),                                       \
                "[fulgurite.capture.stable_gradients] a captured step writes into the same gradients each time: use an optimizer "    \
                "with stable_gradients, such as fulgurite::optim::Adam");                                                             \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::capture_needs_automatic),                                              \
                "[fulgurite.capture.automatic] only automatic optimization can be captured: use Automatic{}, or the strategy "        \
                "without Captured");                                                                                                  \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::model_final),                                                          \
                "[fulgurite.model.final] hooks of a final class cannot be seen: remove `final` from the model");                      \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::training_step),                                                        \
                "[fulgurite.model.training_step] the model has no training step: add `auto training_step(auto const& batch, auto& "   \
                "ctx)` that returns the loss");                                                                                       \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::configure_optimizers),                                                 \
                "[fulgurite.model.configure_optimizers] the model names no optimizer: add `auto configure_optimizers()` that "        \
                "returns one");                                                                                                       \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::optimizer_type),                                                       \
                "[fulgurite.model.optimizer_type] configure_optimizers must return an optimizer, scheduled(optimizer, schedule), or " \
                "optimizers(a, b)");                                                                                                  \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::one_optimizer),                                                        \
                "[fulgurite.model.one_optimizer] automatic optimization drives exactly one optimizer: return one, or use Manual{}");  \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_final),                                                       \
                "[fulgurite.callback.final] hooks of a final class cannot be seen: remove `final` from the callback");                \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_twice),                                                       \
                "[fulgurite.callback.twice] the same callback type was given twice: keep one, or derive a type of its own");          \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_inert),                                                       \
                "[fulgurite.callback.inert] this callback has no hook, so it would never be called: name one of Lightning's, such "   \
                "as on_train_batch_end");                                                                                             \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_promise),                                                     \
                "[fulgurite.callback.promise] a hook listed in the callback's `Hooks` is missing: correct its name");                 \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_state),                                                       \
                "[fulgurite.callback.state] this callback has members that a checkpoint would forget: add `void state(auto& archive)` " \
                "or `using Stateless = fulgurite::ByChoice`");                                                                        \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::callback_needs_logger),                                                \
                "[fulgurite.callback.needs_logger] a callback writes to a logger and there is none: add CSVLogger{}");                \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::metric_undeclared),                                                    \
                "[fulgurite.metric.unwatched] a callback watches a metric that the model does not declare: add it to `using Metrics "  \
                "= MetricList<...>`");                                                                                                \
  FULGURITE_EVENTS(FULGURITE_REFUSE_HOOK)                                                                                             \
  FULGURITE_OVERRIDES(FULGURITE_REFUSE_HOOK)                                                                                          \
  FULGURITE_STEPS(FULGURITE_REFUSE_HOOK)                                                                                              \
  FULGURITE_NEAR_MISSES(FULGURITE_REFUSE_NEAR_MISS)

#define FULGURITE_REFUSE_STEP(NAME, ...)                                                                                         \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::step_batch, HookId::NAME),                                        \
                "[fulgurite.data.batch] " #NAME " does not take the batch that the loader yields: write `" #NAME                 \
                "(auto const& batch, auto& ctx)`, or the loader's own type");                                                    \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::missing_step, HookId::NAME),                                      \
                "[fulgurite.model.step] the model has no " #NAME ", which this call runs: add it");                              \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::no_evaluation_loader, HookId::NAME),                              \
                "[fulgurite.data.loader] there is no loader for " #NAME ": pass one, or a data module that has it");

// What a call of fit, validate, test or predict can be refused for.
#define FULGURITE_REFUSE_CALL                                                                                                         \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::no_train_loader),                                                      \
                "[fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data module with "                   \
                "train_dataloader()");                                                                                                \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::unused_validation_step),                                               \
                "[fulgurite.data.unused_validation] the model has a validation_step, but no loader was given: pass one, or "          \
                "NoValidation{} to say that on purpose");                                                                             \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::unused_validation_loader),                                             \
                "[fulgurite.data.unused_loader] there is a validation loader, but the model has no validation_step: add one, or "     \
                "pass NoValidation{} to say that on purpose");                                                                        \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::step_result),                                                          \
                "[fulgurite.model.step_result] training_step must return the loss: a tensor, a struct with a tensor `.loss`, or an "  \
                "optional of these");                                                                                                 \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::manual_result),                                                        \
                "[fulgurite.model.manual_result] under Manual, training_step steps its optimizers itself and returns void: return "   \
                "nothing, or use Automatic");                                                                                         \
  static_assert(fulgurite::refusal::passes(FULGURITE_V, Fault::derived_model),                                                        \
                "[fulgurite.trainer.model_type] this trainer was made for another model type, whose hooks it knows: "                 \
                "make_trainer<ThisModel>(...)");                                                                                      \
  FULGURITE_EVENTS(FULGURITE_REFUSE_HOOK)                                                                                             \
  FULGURITE_OVERRIDES(FULGURITE_REFUSE_HOOK)                                                                                          \
  FULGURITE_STEPS(FULGURITE_REFUSE_STEP)
