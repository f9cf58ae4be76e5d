#pragma once
// The sentences. Every refusal of a trainer or of a call stands here: its identifier, then what to do.

#pragma GCC system_header  // spares g++ the trace through the macros below

#include <fulgurite/concept/verdict.hpp>
#include <fulgurite/loop/subject.hpp>

namespace fulgurite::refusal {

/// The sentences about one hook, or, under HookId::none, all others. `say<V>` is an error if V is a bad verdict. A flat
/// list of rows instead of a macro over the tables, since compilers print each level of expansion.
template <HookId Hook>
struct About;

// clang-format off
template <>
struct About<HookId::none> {
  template <Verdict V, class Subject, bool Fine = V.ok()>
  static constexpr auto say() {
    if constexpr (V.fault == Fault::arguments)
      static_assert(accepts<Subject, Fine>, "[fulgurite.trainer.arguments] make_trainer<Model> takes TrainerOptions, a strategy, a "
                          "precision, an optimization, then callbacks: pass them in this order");
    if constexpr (V.fault == Fault::strategy)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.strategy] make_trainer's second argument is no strategy: pass one such "
                          "as SingleDevice{cpu}; your own declares Backend and the constants on_gpu, is_distributed, captures");
    if constexpr (V.fault == Fault::precision)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.precision] make_trainer's third argument is no precision: pass one such "
                          "as Float32{}; your own declares the constants parameters, compute, autocasts, scales_loss");
    if constexpr (V.fault == Fault::optimization)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.optimization] make_trainer's fourth argument is no optimization: pass "
                          "Automatic{} or Manual{}");
    if constexpr (V.fault == Fault::fp16_needs_gpu)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use "
                          "Bf16Mixed, or a CUDA device");
    if constexpr (V.fault == Fault::closure_needs_unscaled)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.closure_needs_unscaled] an optimizer that evaluates the loss several "
                          "times a step cannot work with a scaled loss: use Float32 or Bf16Mixed");
    if constexpr (V.fault == Fault::capture_needs_stable_gradients)
      static_assert(accepts<Subject, Fine>, "[fulgurite.capture.stable_gradients] a captured step needs gradients that stay where they "
                          "are: use an optimizer with stable_gradients, such as fulgurite::optim::Adam");
    if constexpr (V.fault == Fault::capture_needs_automatic)
      static_assert(accepts<Subject, Fine>, "[fulgurite.capture.automatic] only automatic optimization can be captured: use "
                          "Automatic{}, or the strategy without Captured");
    if constexpr (V.fault == Fault::capture_scale)
      static_assert(accepts<Subject, Fine>, "[fulgurite.capture.scale] the model's own backward receives the loss times a scale that "
                          "changes, and a captured step would keep the first: use Float32 or Bf16Mixed, or leave backward out");
    if constexpr (V.fault == Fault::capture_hidden)
      static_assert(accepts<Subject, Fine>, "[fulgurite.capture.hidden] a captured step cannot take the state that slices of a batch "
                          "hand on: use the strategy without Captured, or remove `using Hidden`");
    if constexpr (V.fault == Fault::capture_skip)
      static_assert(accepts<Subject, Fine>, "[fulgurite.capture.skip] training_step may return nothing, which a replay would not "
                          "notice: return a loss for every batch, or use the strategy without Captured");

    if constexpr (V.fault == Fault::trait)
      static_assert(accepts<Subject, Fine>, "[fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while "
                          "compiling, and here it is a variable: write `static constexpr bool`");
    if constexpr (V.fault == Fault::strategy_final)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.final] the hooks of a final class cannot be seen: remove `final` from the "
                          "strategy");
    if constexpr (V.fault == Fault::strategy_functions)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.strategy_functions] a strategy has setup, teardown, device, is_on_gpu, move, "
                          "gradients, backward, flush and rank, and this one lacks some: add them, or derive it from SingleDevice");
    if constexpr (V.fault == Fault::strategy_needs_gpu)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.strategy_needs_gpu] this strategy runs on GPUs alone: give "
                          "it a CUDA device, or use SingleDevice{cpu}");
    if constexpr (V.fault == Fault::precision_support)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.precision_support] this strategy cannot compute in that "
                          "precision: use one that it supports, such as Float32{}");
    if constexpr (V.fault == Fault::fixed_window)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.fixed_window] this strategy keeps one accumulation window for a "
                          "whole fit, and a callback changes it: use Automatic{.accumulate_grad_batches = k}");
    if constexpr (V.fault == Fault::sharded_average)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.sharded_average] a callback averages the weights, and with this "
                          "strategy no process has all of them: leave the callback out, or use another strategy");
    if constexpr (V.fault == Fault::skip_distributed)
      static_assert(accepts<Subject, Fine>, "[fulgurite.policy.skip_distributed] training_step may return nothing, which other "
                          "processes would wait for: return a loss for every batch, or train in one process");
    if constexpr (V.fault == Fault::skip_closure)
      static_assert(accepts<Subject, Fine>, "[fulgurite.optimizer.skip_closure] training_step may return nothing, and an optimizer that "
                          "evaluates the loss several times needs one each time: return a loss for every batch");
    if constexpr (V.fault == Fault::opaque_batch)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.opaque_batch] this batch type cannot be looked into, so its tensors "
                          "would not reach the GPU: give it `Batch to(torch::Device) const`");

    if constexpr (V.fault == Fault::model_class)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.class] make_trainer<Model> needs a class that is defined before this "
                          "call: no pointer, reference or const");
    if constexpr (V.fault == Fault::model_holder)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.holder] the model's type is a pointer or a holder: name the class behind it, "
                          "such as NetImpl, and pass *net");
    if constexpr (V.fault == Fault::private_base)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.private_base] the model inherits torch::nn::Module privately, so its parameters "
                          "are out of reach: write `: public torch::nn::Module`, or `struct`");
    if constexpr (V.fault == Fault::model_final)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.final] the hooks of a final class cannot be seen: remove `final` from "
                          "the model");
    if constexpr (V.fault == Fault::metric_list)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.metrics] the model's Metrics is no list of its metrics: write `using "
                          "Metrics = MetricList<loss>` after `static constexpr Metric<\"loss\"> loss{}`");
    if constexpr (V.fault == Fault::metric_twice)
      static_assert(accepts<Subject, Fine>, "[fulgurite.metric.twice] two entries of the model's Metrics have the same name: give each "
                          "metric its own");
    if constexpr (V.fault == Fault::metric_unreported)
      static_assert(accepts<Subject, Fine>, "[fulgurite.metric.unreported] this metric is reported neither per step nor per epoch: "
                          "remove one `Report::no`, or say `.logger = false` if only callbacks read it");
    if constexpr (V.fault == Fault::metric_name)
      static_assert(accepts<Subject, Fine>, "[fulgurite.metric.name] a metric's name must not contain \"/dataloader_idx_\", which is "
                          "added for several loaders: choose another name");
    if constexpr (V.fault == Fault::configure_model)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.configure_model] this strategy splits the model where it is made: "
                          "add `void configure_model(auto& ctx)`");
    if constexpr (V.fault == Fault::training_step)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.training_step] the model has no training step: add `auto "
                          "training_step(auto const& batch, auto& ctx)` that returns the loss");
    if constexpr (V.fault == Fault::configure_optimizers)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.configure_optimizers] the model names no optimizer: add `auto "
                          "configure_optimizers()` that returns one");
    if constexpr (V.fault == Fault::optimizer_type)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.optimizer_type] configure_optimizers must return by value an optimizer, "
                          "scheduled(optimizer, schedule), or optimizers(a, b)");
    if constexpr (V.fault == Fault::schedule_type)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.schedule] the second argument of scheduled() is no schedule: pass one "
                          "such as schedule::Cosine{100}, or a function from a number of steps (or epochs) to a "
                          "factor");
    if constexpr (V.fault == Fault::schedule_metric)
      static_assert(accepts<Subject, Fine>, "[fulgurite.schedule.undeclared] a schedule follows a metric that the model does not declare: "
                          "add it to the model's `using Metrics = MetricList<...>`");
    if constexpr (V.fault == Fault::schedule_configured)
      static_assert(accepts<Subject, Fine>, "[fulgurite.schedule.manual] Manual steps no schedule, so interval and frequency have "
                          "no effect: write scheduled(optimizer, schedule) and step it through ctx.lr_schedulers()");
    if constexpr (V.fault == Fault::hidden_manual)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.hidden_manual] Manual does not cut batches along time, so `using Hidden` "
                          "has no effect: slice them in training_step and remove it, or use Automatic{.tbptt = k}");
    if constexpr (V.fault == Fault::hidden_split)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.hidden_split] tbptt_split_batch is only called for a model that carries a "
                          "state from slice to slice: add `using Hidden = ...`");
    if constexpr (V.fault == Fault::hidden_step)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.hidden] the model declares Hidden, so its step takes one: `auto "
                          "training_step(auto const& batch, std::optional<Hidden> const& hidden, auto& ctx)`");
    if constexpr (V.fault == Fault::hidden_result)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.hidden_result] the model declares Hidden, so training_step must also "
                          "return the next one: return a struct with `.loss` and `.hidden`");
    if constexpr (V.fault == Fault::one_optimizer)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.one_optimizer] automatic optimization drives exactly one optimizer: "
                          "return one, or use Manual{}");

    if constexpr (V.fault == Fault::callback_class)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.class] a callback is an object with hooks, given by value: pass no "
                          "pointer, number or text");
    if constexpr (V.fault == Fault::callback_final)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.final] the hooks of a final class cannot be seen: remove `final` from "
                          "the callback");
    if constexpr (V.fault == Fault::callback_twice)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.twice] two callbacks have the same type: leave one out, or derive a "
                          "type for the second");
    if constexpr (V.fault == Fault::callback_hooks)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.hooks] the callback's `Hooks` is no list of hooks: write `using Hooks "
                          "= Implements<hook::on_train_start>`");
    if constexpr (V.fault == Fault::callback_inert)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.inert] this callback has no hook, so it would never be called: give "
                          "it one, such as on_train_batch_end");
    if constexpr (V.fault == Fault::callback_state)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.state] this callback has members that a checkpoint would forget: add "
                          "`void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`");
    if constexpr (V.fault == Fault::callback_needs_logger)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.needs_logger] a callback writes to the loggers, and there is none: "
                          "add CSVLogger{}");
    if constexpr (V.fault == Fault::callback_watches)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.watches] the callback's `Watches` is no list of metrics: write `using "
                          "Watches = MetricTypes<M>`, where M is the type of a metric");
    if constexpr (V.fault == Fault::metric_undeclared)
      static_assert(accepts<Subject, Fine>, "[fulgurite.metric.unwatched] a callback watches a metric that the model does not declare: "
                          "add it to the model's `using Metrics = MetricList<...>`");

    if constexpr (V.fault == Fault::callback_needs_automatic)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.needs_automatic] this callback changes the accumulation window or "
                          "the schedule, which Manual leaves to training_step: use Automatic{}, or leave it out");
    if constexpr (V.fault == Fault::callback_needs_one_optimizer)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.needs_one_optimizer] a callback works with one optimizer, and "
                          "configure_optimizers returns several: return one, or leave the callback out");
    if constexpr (V.fault == Fault::callback_needs_backbone)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.needs_backbone] a callback freezes model.backbone, and the model has "
                          "no such public member: name that part of it `backbone`");
    if constexpr (V.fault == Fault::callback_one_bar)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.one_bar] two callbacks draw in the same place (two progress bars, or"
                          " two summaries): keep one");
    if constexpr (V.fault == Fault::callback_single_process)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.single_process] this callback tries out settings, and each process "
                          "would find others: run it with SingleDevice, then train with what it found");
    if constexpr (V.fault == Fault::callback_needs_data_module)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.needs_data_module] this callback makes loaders again, so it needs a "
                          "data module, or a model with train_dataloader(): pass that instead of loaders");
    if constexpr (V.fault == Fault::callback_one_eval_loader)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.one_eval_loader] this callback tries evaluation on one loader, and "
                          "several were given: pass one, or leave it out");
    if constexpr (V.fault == Fault::callback_one_average)
      static_assert(accepts<Subject, Fine>, "[fulgurite.callback.one_average] two callbacks put an average in the place of the weights, "
                          "and would undo each other's work: keep one");

    if constexpr (V.fault == Fault::other_model)
      static_assert(accepts<Subject, Fine>, "[fulgurite.trainer.model_type] this trainer was made for another model type, whose hooks "
                          "it knows: use make_trainer<ThisModel>(...)");
    if constexpr (V.fault == Fault::model_pointer)
      static_assert(accepts<Subject, Fine>, "[fulgurite.trainer.pointer] the trainer takes the model itself, not a pointer or a holder: pass "
                          "*model");
    if constexpr (V.fault == Fault::data_pointer)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.pointer] loaders and data modules are given as objects, not by pointer: pass "
                          "*loader");
    if constexpr (V.fault == Fault::unnamed_model)
      static_assert(accepts<Subject, Fine>, "[fulgurite.trainer.borrowed_model] the trainer borrows the model and changes it: pass a "
                          "variable, not a temporary or a const object");
    if constexpr (V.fault == Fault::module_final)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.final] the hooks of a final class cannot be seen: remove `final` from the "
                          "data module");
    if constexpr (V.fault == Fault::no_train_loader)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.train_loader] there is nothing to train on: pass a loader, or a data "
                          "module with train_dataloader()");
    if constexpr (V.fault == Fault::prepare_const)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.prepare_data] prepare_data runs in one process only, so what it stores "
                          "the others lack: make it `void prepare_data() const`, and read in setup()");
    if constexpr (V.fault == Fault::combined_predict)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.combined_predict] predict takes loaders one after the other: pass them as a "
                          "std::tuple instead of combining them");
    if constexpr (V.fault == Fault::loader_twice)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.loader_twice] two evaluation loaders have the same name, so their metrics would "
                          "be one: give each its own");
    if constexpr (V.fault == Fault::module_and_loaders)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.module_and_loader] a data module brings its own loaders: pass it alone, "
                          "or pass loaders only");
    if constexpr (V.fault == Fault::no_range)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.no_loader] a loader is a range of batches, and one argument is none: "
                          "pass a loader, or a std::tuple of them");
    if constexpr (V.fault == Fault::unused_validation_step)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.unused_validation] the model has a validation_step, but no loader was "
                          "given: pass one, or NoValidation{} as fit's third argument");
    if constexpr (V.fault == Fault::unused_validation_loader)
      static_assert(accepts<Subject, Fine>, "[fulgurite.data.unused_loader] there is a validation loader, but the model has no "
                          "validation_step: add one, or pass NoValidation{} as fit's third argument");
    if constexpr (V.fault == Fault::step_result)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.step_result] training_step must return the loss: a tensor, a struct with "
                          "a tensor `.loss`, or an optional of these");
    if constexpr (V.fault == Fault::manual_result)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.manual_result] under Manual, training_step steps its optimizers itself: "
                          "return nothing, or use Automatic");
    if constexpr (V.fault == Fault::predict_result)
      static_assert(accepts<Subject, Fine>, "[fulgurite.model.predict_result] predict_step must return the batch's prediction, not "
                          "void: the call collects them");
  }
};
// clang-format on

/// Stands for what a refused call would have returned, and lets nothing else be reported.
struct Nothing {
  template <class T>
  operator T() const;
};
template <class T>
T& nothing();

}  // namespace fulgurite::refusal
