#pragma once
// Everything a trainer, or a call of it, can be refused for. The sentences stand in loop/refusals.hpp.

#include <cstddef>
#include <cstdint>

#include <fulgurite/hook/faults.hpp>

namespace fulgurite {

enum class Fault : std::uint8_t {
  none,
  // make_trainer's arguments, policies
  arguments, strategy, precision, optimization, fp16_needs_gpu, closure_needs_unscaled, capture_needs_stable_gradients, capture_needs_automatic,
  capture_hook, capture_scale, capture_hidden, capture_skip, precision_support, strategy_final, strategy_functions, strategy_needs_gpu, fixed_window, sharded_average, skip_distributed, skip_closure, opaque_batch,
  trait,  // of a strategy, a model or a callback
  // model
  model_class, model_holder, model_final, private_base, metric_list, metric_twice, training_step, configure_optimizers, optimizer_type, schedule_type, schedule_metric, schedule_configured, one_optimizer, metric_unreported, metric_name, configure_model,
  hidden_manual, hidden_split, hidden_step, hidden_result,
  // callbacks
  callback_class, callback_final, callback_twice, callback_hooks, callback_inert, callback_state, callback_needs_logger, callback_watches,
  metric_undeclared, callback_needs_automatic, callback_needs_one_optimizer, callback_needs_backbone, callback_one_average, callback_one_bar, callback_single_process, callback_needs_data_module,
  callback_one_eval_loader,
  // hooks: see Verdict::hook
  hook,
  // a call of fit, validate, test or predict
  other_model, unnamed_model, model_pointer, data_pointer, module_final, no_train_loader, module_and_loaders, no_range, unused_validation_step,
  unused_validation_loader, no_evaluation_loader, missing_step, step_batch, step_result, manual_result, predict_result, prepare_const,
  combined_predict, loader_twice
};

/// Whom a verdict is about: the model, the callback at a position counted from 1, or one of these.
enum Who : int { model_at_fault = 0, strategy_at_fault = -1, precision_at_fault = -2, optimization_at_fault = -3, module_at_fault = -4 };

struct Verdict {
  Fault fault = Fault::none;
  HookVerdict hook = {};
  int who = model_at_fault;
  std::size_t loader = 0;  ///< the evaluation loader whose batch it is about
  constexpr bool ok() const { return fault == Fault::none; }
  constexpr Verdict by(int whom) const { return {fault, hook, whom, loader}; }
  constexpr Verdict at(std::size_t position) const { return {fault, hook, who, position}; }
};

}  // namespace fulgurite
